"""One client's event stream: start or resume at a cursor, catch up from the store, then send live events.

A client that reconnects sends `Last-Event-ID`; the stream resumes after that event. If events after it were deleted,
the client gets a `resync` message and must read the state again.

"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.app import Penstock
from penstock.domain.access import Role
from penstock.domain.errors import FeedGone, InvalidInput, NotFound, PenstockError, StoreUnavailable
from penstock.domain.job_json import iso, spliced
from penstock.domain.states import ACTIVE
from penstock.http.authentication import Caller, admit
from penstock.http.errors import RequestError
from penstock.http.request_origin import network_of
from penstock.http.streaming import sse
from penstock.http.streaming.event_pages import EventFilter, EventPage, Portion, portion_of
from penstock.http.streaming.hub import Hub, StreamBuffer, StreamLimit
from penstock.operations.job_reading import GONE
from penstock.storage.commands import feed
from penstock.surface.events import ORIGIN

RETRY = 2000
"""Milliseconds after which a disconnected client reconnects."""

_LONGEST_SEND = 30.0
_SNAPSHOT_PAGE = 200
_LONGEST_PAUSE = 5.0

T = TypeVar("T")


class Stream(ABC):
    """Base of all streams: position, pings and the final message."""

    def __init__(self, hub: Hub, app: Penstock, wanted: EventFilter, snapshot: bool) -> None:
        self.hub = hub
        self.app = app
        self.wanted = wanted
        self.snapshot = snapshot
        self.buffer: StreamBuffer
        self._position = ""
        """The cursor after all that was sent; empty while the client must not resume from it."""
        self._ping_at = time.monotonic() + hub.settings.ping_every

    @abstractmethod
    async def open(self, after: str | None) -> None:
        """Find the position to start at; raise errors about it."""

    @abstractmethod
    def messages(self) -> AsyncIterator[bytes]:
        """Yield everything to be sent."""

    async def _live(self) -> AsyncIterator[bytes]:
        """Yield live events until the stream ends or must read from the store again."""
        buffer = self.buffer
        while True:
            portion = await buffer.take(self._ping_at - time.monotonic())
            if portion is not None:
                if frames := self._move(portion):
                    yield frames
            elif buffer.ended or buffer.lost:
                break
            elif buffer.empty:
                self._move(Portion((), b"", buffer.cursor))
            if time.monotonic() >= self._ping_at:
                self._ping_at = time.monotonic() + self.hub.settings.ping_every
                yield self._own_message("ping")
        self.hub.detach(buffer)

    def _move(self, portion: Portion) -> bytes:
        """Advance past a portion; return the bytes that the client has not received."""
        self._position = portion.cursor
        return portion.frames

    async def _read_with_retries(self, call: Callable[[], Awaitable[T]]) -> T:
        """Read from the store, retrying while it is unavailable; the number of concurrent reads is limited."""
        pause = 0.1
        while True:
            try:
                async with self.hub.reading:
                    return await call()
            except StoreUnavailable:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    async def _snapshot(self, begin: str, **which: Any) -> AsyncIterator[bytes]:
        """Yield all current jobs. Only the last message has an id, so a disconnected client gets all of them again."""
        count, cursor = 0, None
        while not self.buffer.ended:
            page = await self._read_with_retries(
                lambda at=cursor: self.app.jobs.alist(limit=_SNAPSHOT_PAGE, sort="createdAt", cursor=at, **which)  # type: ignore[misc]
            )
            texts = await self._read_with_retries(lambda jobs=page.jobs: self.hub.pages.jobs(jobs))  # type: ignore[misc]
            count += len(texts)
            if texts:
                yield b"".join(sse.message(spliced({}, {"job": text}), event="snapshot") for text in texts)
            cursor = page.next_cursor
            if cursor is None:
                self._position = begin
                yield self._own_message("snapshot.end", jobs=count)
                return

    def _own_message(self, event: str, **facts: Any) -> bytes:
        """Return a message of the stream itself."""
        data = json.dumps({"at": iso(datetime.now(UTC)), **facts})
        return sse.message(data, event=event, id=self._position or None)


class FeedStream(Stream):
    """The events of all jobs, schedules and workers."""

    _cursor: str
    _resumed = False
    _gone = False
    _first: EventPage | None = None

    async def open(self, after: str | None) -> None:
        pages = self.hub.pages
        if after is None:
            self._cursor = await pages.tip()
            return
        self._resumed = True
        self._cursor = await pages.origin() if after == ORIGIN else after
        try:
            self._first = await pages.after(self._cursor, self.hub.page, self.wanted)
        except InvalidInput as error:
            raise RequestError("malformed", error.message, hint=error.hint) from None
        except FeedGone:
            self._gone = True

    async def messages(self) -> AsyncIterator[bytes]:
        yield sse.message(retry=RETRY)
        fresh = not self._resumed
        while not self.buffer.ended:
            if self._gone:
                self._gone, fresh = False, True
                self._cursor = await self._read_with_retries(self.hub.pages.tip)
                self._position = "" if self.snapshot else self._cursor
                yield self._own_message(
                    "resync", message="Events were deleted before they were sent. Read the state again."
                )
            if fresh and self.snapshot:
                async for each in self._snapshot(self._cursor, **self._jobs()):
                    yield each
            fresh = False
            try:
                async for each in self._catch_up():
                    yield each
                async for each in self._live():
                    yield each
            except FeedGone:
                self._gone = True
        yield self._own_message("bye")

    async def _catch_up(self) -> AsyncIterator[bytes]:
        """Yield the events after the cursor from the store, up to the moment at which the hub takes over."""
        more = self._first is not None or not feed.is_whole(self._cursor)
        while more and not self.buffer.ended:
            page = self._first or await self._page()
            self._first = None
            more = page.more
            if frames := self._advance(page):
                yield frames
        # Only a complete moment of the store can be compared with the hub's position.
        while not feed.is_whole(self._cursor) and not self.buffer.ended:
            if frames := self._advance(await self._page()):
                yield frames
        if self.buffer.ended:
            return
        joined = await self.hub.join(self.buffer, self._cursor)
        between = feed.up_to(self._cursor, joined)
        if between is not None:
            self._cursor = between
        while not feed.is_whole(self._cursor) and not self.buffer.ended:
            if frames := self._advance(await self._page()):
                yield frames
        self._position = self._cursor

    async def _page(self) -> EventPage:
        return await self._read_with_retries(lambda: self.hub.pages.after(self._cursor, self.hub.page, self.wanted))

    def _advance(self, page: EventPage) -> bytes:
        self._cursor = page.cursor
        return self._move(portion_of(page.items, page.cursor, self.wanted))

    def _move(self, portion: Portion) -> bytes:
        self._cursor = portion.cursor
        return super()._move(portion)

    def _jobs(self) -> dict[str, Any]:
        """Return the filter for the jobs of the snapshot."""
        ids = None if self.wanted.job_ids is None else sorted(self.wanted.job_ids)
        return {"status": sorted(ACTIVE), "definition_key": self.wanted.definition, "job_id": ids}


class JobStream(Stream):
    """The events of one job from its first on; their numbers rise, so a number is the cursor."""

    def __init__(self, hub: Hub, app: Penstock, wanted: EventFilter, snapshot: bool, job_id: str) -> None:
        super().__init__(hub, app, wanted, snapshot)
        self._job_id = job_id
        self._seq = 0

    async def open(self, after: str | None) -> None:
        self._seq = job_cursor(after)
        self.snapshot: bool = self.snapshot and after is None
        if not (await self.hub.pages.of_job(self._job_id, 0, 1)).items:
            raise NotFound("job", self._job_id, hint=GONE)

    async def messages(self) -> AsyncIterator[bytes]:
        yield sse.message(retry=RETRY)
        if self.snapshot:
            async for each in self._snapshot(str(self._seq), job_id=[self._job_id]):
                yield each
        self._position = str(self._seq)
        while not self.buffer.ended:
            async for each in self._catch_up():
                yield each
            if self.buffer.ended:
                break
            await self.hub.join(self.buffer, None)
            # Again: events between the last read and the moment at which the hub took over.
            async for each in self._catch_up():
                yield each
            async for each in self._live():
                yield each
        yield self._own_message("bye")

    async def _catch_up(self) -> AsyncIterator[bytes]:
        more = True
        while more and not self.buffer.ended:
            page = await self._read_with_retries(
                lambda: self.hub.pages.of_job(self._job_id, self._seq, self.hub.page, self.wanted)
            )
            more = page.more
            self._seq = int(page.cursor)
            self._position = page.cursor
            if page.items:
                yield portion_of(page.items, page.cursor, self.wanted).frames

    def _move(self, portion: Portion) -> bytes:
        fresh = [each for each in portion.items if each.event.seq > self._seq]
        if not fresh:
            return b""
        self._seq = fresh[-1].event.seq
        self._position = str(self._seq)
        if len(fresh) == len(portion.items):
            return portion.frames
        return portion_of(fresh, portion.cursor, self.wanted).frames


class StreamResponse(Response):
    """The response that sends a stream until it ends or the client disconnects."""

    def __init__(self, stream: Stream, request: Request, limits: Sequence[StreamLimit] = ()) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}, media_type=sse.MEDIA_TYPE)
        del self.headers["content-length"]
        self._stream = stream
        self._counts = limits
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream, hub = self._stream, self._stream.hub
        stream.buffer = StreamBuffer(
            stream.wanted, hub.settings.stream_buffer, _caller(self._request), self._allowed, self._counts
        )
        hub.enter(stream.buffer)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            sending = asyncio.create_task(self._send(send))
            leaving = asyncio.create_task(_disconnected(receive))
            stream.buffer.cut = sending.cancel
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)
        finally:
            hub.leave(stream.buffer)
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        try:
            async for each in self._stream.messages():
                async with asyncio.timeout(_LONGEST_SEND):
                    await send({"type": "http.response.body", "body": each, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            # The client does not read, or has disconnected.
            return

    async def _allowed(self) -> bool:
        try:
            await admit(self._request, Role.VIEWER, again=True)
        except StoreUnavailable:
            # Keep the stream: nothing can be read meanwhile either.
            return True
        except (RequestError, PenstockError):
            return False
        return True


def job_cursor(after: str | None) -> int:
    """Return the event number in a cursor of one job's events."""
    if after in (None, ORIGIN):
        return 0
    if after is None or not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise RequestError(
            "malformed", f"{after!r:.100} is not a cursor of one job's events.", hint="Use an event's `seq`."
        )
    return int(after)


def stream_limits_of(caller: Caller, address: str) -> list[StreamLimit]:
    """Return the limits of a caller's streams: of its token and of its address; none inside an application."""
    settings = caller.server.settings
    if caller.server.trusted is not None:
        return []
    limits = [StreamLimit(f"address:{network_of(address)}", "address", settings.max_streams_per_address)]
    if caller.token_id is not None:
        limits.insert(0, StreamLimit(f"token:{caller.token_id}", "token", settings.max_streams_per_token))
    return limits


def _caller(request: Request) -> tuple[str, ...]:
    """Return everything that identifies a caller."""
    address = request.client.host if request.client else ""
    return address, *(request.headers.get(name, "") for name in ("host", "authorization", "cookie"))


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
