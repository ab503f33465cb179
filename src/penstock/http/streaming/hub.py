"""The hub: one reader of the feed for all event streams of a server, and a bounded buffer for each stream.

A stream catches up from the store on its own, up to some moment, and is then served by the hub. It joins when the hub's
position covers the stream's: events between the two positions are read from the store, and later ones are put into the
stream's buffer. So no event is missed or sent twice, although event numbers are not committed in order.

"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.errors import FeedGone, StoreUnavailable
from penstock.domain.ports.store import Doorbell
from penstock.http.errors import RequestError
from penstock.http.streaming.event_pages import EventBatch, EventFilter, EventPages, Portion
from penstock.storage.commands import feed

FIRST_LOOK = 0.02
LONGEST_LOOK = 0.25
"""Seconds between two reads of the feed: after an event, and when nothing happens."""
PAGE = 200

_CHECK_EVERY = 2.0
_GOODBYE = 0.5
_LONGEST_PAUSE = 5.0
_MOST_BYTES = 8 * 1024 * 1024
_READERS = 4
_LATER = {"Retry-After": "5"}
_log = logging.getLogger("penstock.streams")


@dataclass(frozen=True, slots=True)
class StreamLimit:
    """The number of streams that one token or one address may have."""

    name: str
    what: str
    most: int


class StreamBuffer:
    """Events that wait for one client, up to a limit, and the state of its stream."""

    def __init__(
        self, wanted: EventFilter, most: int, caller: Hashable, allowed: Callable[[], Awaitable[bool]],
        limits: Sequence[StreamLimit] = (),
    ) -> None:  # fmt: skip
        self.wanted = wanted
        self.caller = caller
        """Streams with the same caller are checked together."""
        self.limits: tuple[StreamLimit, ...] = tuple(limits)
        """The limits that the stream counts towards."""
        self.allowed = allowed
        self.ended: bool = False
        self.lost: bool = False
        """Whether events were deleted before they were read."""
        self.cursor: str = ""
        """The cursor after all events that were put here."""
        self.cut: Callable[[], object] = lambda: None
        """Ends the stream immediately, even while something is sent."""
        self._most = most
        self._portions: deque[Portion] = deque()
        self._count = self._bytes = 0
        self._woken = asyncio.Event()

    @property
    def empty(self) -> bool:
        return not self._portions

    def put(self, batch: EventBatch) -> bool:
        """Add the client's part of a batch; return False if the buffer is full."""
        portion = batch.portion(self.wanted)
        self.cursor = batch.cursor
        if not portion.items:
            return True
        count, size = self._count + len(portion.items), self._bytes + len(portion.frames)
        if self._portions and (count > self._most or size > _MOST_BYTES):
            return False
        self._portions.append(portion)
        self._count, self._bytes = count, size
        self._woken.set()
        return True

    async def take(self, seconds: float) -> Portion | None:
        """Return the next portion; None after the timeout, or when the stream's state has changed."""
        if not self._portions and not self.ended and not self.lost:
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
        if not self._portions or self.ended or self.lost:
            return None
        portion = self._portions.popleft()
        self._count -= len(portion.items)
        self._bytes -= len(portion.frames)
        return portion

    def clear(self) -> None:
        """Drop what waits: the stream continues from the store."""
        self._portions.clear()
        self._count = self._bytes = 0
        self.lost = False

    def mark_lost(self) -> None:
        """Record that events were deleted before they were read."""
        self.lost = True
        self._woken.set()

    def end(self) -> None:
        """Let the stream send its final message and end."""
        self.ended = True
        self._woken.set()


class Hub:
    """Serves the event streams of one server; without streams it does not read, and holds no thread or connection."""

    def __init__(self, app: Penstock, pages: EventPages, settings: WebSettings) -> None:
        self.settings = settings
        self.pages = pages
        self.page: int = max(1, min(PAGE, settings.stream_buffer // 2))
        self.reading: asyncio.Semaphore = asyncio.Semaphore(_READERS)
        """Limits the streams that read from the store at the same time."""
        self._app = app
        self._buffers: set[StreamBuffer] = set()
        self._counts: Counter[str] = Counter()
        self._live: set[StreamBuffer] = set()
        self._joining: list[tuple[str | None, StreamBuffer, asyncio.Future[str]]] = []
        self._reader: asyncio.Task[None] | None = None
        self._running = False
        self._woken = asyncio.Event()
        self._closed = False
        self._cursor = ""
        self._pause = FIRST_LOOK
        self._failures = 0

    @property
    def count(self) -> int:
        """Number of streams."""
        return len(self._buffers)

    def check_room(self, limits: Iterable[StreamLimit] = ()) -> None:
        """Refuse another stream if the server or the caller has reached its limit, or if the server stops."""
        if self._closed:
            raise RequestError(
                "unavailable", "The server stops.", hint="Reconnect later, or to another server.", headers=_LATER
            )
        if self.count >= self.settings.max_streams:
            raise RequestError(
                "too_many_streams",
                f"This server has {self.count} open streams, which is its limit.",
                hint="Reconnect later; the setting web.max_streams is the limit.",
                headers=_LATER,
            )

        for limit in limits:
            if self._counts[limit.name] >= limit.most:
                raise RequestError(
                    "rate_limited",
                    f"This {limit.what} has {limit.most} open streams, which is its limit.",
                    hint=f"End one of them; the setting web.max_streams_per_{limit.what} is the limit.",
                    headers=_LATER,
                )

    def enter(self, buffer: StreamBuffer) -> None:
        """Begin a stream; the first one starts the reader."""
        self._reset_for_new_loop()
        self.check_room(buffer.limits)
        self._buffers.add(buffer)
        self._counts.update(each.name for each in buffer.limits)
        if not self._running:
            self._running = True
            self._cursor, self._pause, self._failures = "", FIRST_LOOK, 0
            checker = asyncio.create_task(self._check_callers(), name="penstock-stream-callers")
            self._reader = asyncio.create_task(self._read_feed(checker), name="penstock-streams")

    def leave(self, buffer: StreamBuffer) -> None:
        """End a stream; the last one stops the reader."""
        if buffer in self._buffers:
            self._counts -= Counter(each.name for each in buffer.limits)
        self._buffers.discard(buffer)
        self._live.discard(buffer)
        self._joining = [each for each in self._joining if each[1] is not buffer]
        if not self._buffers:
            self._woken.set()

    async def join(self, buffer: StreamBuffer, cursor: str | None) -> str:
        """Serve a stream from the next moment on that covers its cursor; return that moment's cursor."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._joining.append((cursor, buffer, future))
        self._woken.set()
        return await future

    def detach(self, buffer: StreamBuffer) -> None:
        """Stop serving a stream: it continues from the store."""
        self._live.discard(buffer)
        buffer.clear()

    def close(self) -> None:
        """End all streams with a final message and refuse new ones; call it in the server's event loop."""
        self._closed = True
        buffers = list(self._buffers)
        for buffer in buffers:
            buffer.end()
        if buffers:
            # A client that does not read cannot get the final message.
            asyncio.get_running_loop().call_later(_GOODBYE, _cut_all, buffers)

    async def wait_closed(self) -> None:
        """Wait until nothing is read from the store any more; call `close()` first."""
        if self._reader is not None:
            await asyncio.wait({self._reader})

    def _reset_for_new_loop(self) -> None:
        """Forget the streams of an event loop that has ended."""
        if self._reader is not None and self._reader.get_loop() is not asyncio.get_running_loop():
            self._reader, self._running = None, False
            self._buffers, self._live, self._joining, self._counts = set(), set(), [], Counter()
            self._woken, self.reading = asyncio.Event(), asyncio.Semaphore(_READERS)

    async def _read_feed(self, checker: asyncio.Task[None]) -> None:
        bell = self._app.store.doorbell()
        try:
            while self._buffers:
                pause = await self._read_page()
                self._attach_waiting()
                if pause:
                    await self._wait(bell, pause)
        finally:
            # First: a stream that enters from here on starts a new reader.
            self._running = False
            checker.cancel()
            await bell.aclose()

    async def _read_page(self) -> float:
        """Read one page and distribute it; return the seconds until the next read."""
        try:
            if not self._cursor:
                self._cursor = await self.pages.tip()
            page = await self.pages.after(self._cursor, self.page)
        except FeedGone as error:
            _log.warning("Streams have missed events: %s", error)
            self._cursor = ""
            lost, self._live = self._live, set()
            for buffer in lost:
                buffer.mark_lost()
            return 0.0
        except Exception as error:
            self._failures += 1
            self._log_failure(error)
            return min(_LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10))
        self._failures = 0
        self._cursor = page.cursor
        self._distribute(EventBatch(page.items, page.cursor))
        if page.more:
            return 0.0
        # After an event read again soon: the end of a job does not ring the doorbell.
        self._pause = FIRST_LOOK if page.items else min(LONGEST_LOOK, self._pause * 1.5)
        return self._pause

    def _distribute(self, batch: EventBatch) -> None:
        for buffer in list(self._live):
            if not buffer.put(batch):
                _log.info("Dropped a client that does not read its stream.")
                self._live.discard(buffer)
                buffer.cut()

    def _attach_waiting(self) -> None:
        if not self._cursor or not feed.is_whole(self._cursor):
            return
        waiting, self._joining = self._joining, []
        for cursor, buffer, future in waiting:
            if cursor is not None and not feed.covers(self._cursor, cursor):
                self._joining.append((cursor, buffer, future))
            elif not future.done():
                buffer.cursor = self._cursor
                self._live.add(buffer)
                future.set_result(self._cursor)

    async def _wait(self, bell: Doorbell, seconds: float) -> None:
        ring = asyncio.ensure_future(bell.wait(seconds))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({ring, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ring.cancel()
            woken.cancel()
            await asyncio.gather(ring, woken, return_exceptions=True)
        self._woken.clear()

    async def _check_callers(self) -> None:
        """End the streams of callers that may not read any more: their token was revoked or has expired."""
        while True:
            await asyncio.sleep(_CHECK_EVERY)
            by_caller: dict[Hashable, list[StreamBuffer]] = {}
            for buffer in self._buffers:
                by_caller.setdefault(buffer.caller, []).append(buffer)
            for buffers in by_caller.values():
                if not await _is_allowed(buffers[0]):
                    _cut_all(buffers)

    def _log_failure(self, error: Exception) -> None:
        if not isinstance(error, StoreUnavailable):
            _log.error("The feed cannot be read.", exc_info=error)
        elif self._failures == 1 or self._failures % 20 == 0:
            _log.warning("Streams are silent because the store does not answer: %s", error)


async def _is_allowed(buffer: StreamBuffer) -> bool:
    """Return whether the caller of a stream may still read; a failed check counts as no."""
    try:
        return await buffer.allowed()
    except Exception:
        _log.exception("A caller of streams could not be checked, so its streams end.")
        return False


def _cut_all(buffers: list[StreamBuffer]) -> None:
    for buffer in buffers:
        buffer.end()
        buffer.cut()
