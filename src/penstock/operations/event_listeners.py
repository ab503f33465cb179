"""Listeners: functions of this process that are called with events, from a thread that follows the feed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.domain.errors import FeedGone, StoreUnavailable
from penstock.domain.event import Event, News
from penstock.domain.ports.store import Doorbell, Store
from penstock.runtime.log_lines import logger
from penstock.storage.commands import feed

Listener = Callable[[Event], Any]

FIRST_LOOK = 0.02
LONGEST_LOOK = 0.5
"""Seconds between two looks at the feed: right after something happened, and when nothing does."""

_LONGEST_PAUSE = 5.0
_LONGEST_GOODBYE = 5.0
_PAGE = 500
_log = logger("penstock.listeners")


@dataclass(frozen=True, slots=True)
class Pattern:
    """The event types that somebody wants: one type, or all that begin so."""

    start: str
    whole: bool

    def means(self, type: str) -> bool:
        return type == self.start if self.whole else type.startswith(self.start)

    def fits(self, event: Event) -> bool:
        return self.means(event.type)


class Listeners:
    """The listeners of one application in one process."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._subscriptions: list[tuple[Pattern, Listener]] = []
        self._follower: Follower | None = None
        self._by_hand = False

    def add(self, pattern: Pattern, function: Listener) -> Callable[[], None]:
        """Call a function with events that fit; the first one starts the thread. What is given back ends it."""
        self._notice_fork()
        subscription = pattern, function
        with self._lock:
            if self._follower is None and not self._by_hand:
                self._follow(self._store().run(feed.tip()))
            self._subscriptions = [*self._subscriptions, subscription]

        def remove() -> None:
            self._notice_fork()
            with self._lock:
                # By identity: the same function may listen twice.
                self._subscriptions = [each for each in self._subscriptions if each is not subscription]
                if not self._subscriptions and self._follower is not None:
                    self._follower.stop()
                    self._follower = None

        return remove

    def tell(self, event: Event) -> None:
        """Call everyone whom an event fits; what one of them raises does not keep it from the others."""
        for pattern, function in self._subscriptions:
            if pattern.fits(event):
                try:
                    function(event)
                except Exception:
                    _log.exception("The listener %r failed at event %s of job %s.", function, event.type, event.job_id)

    def stop(self) -> None:
        """Forget all listeners and end the thread; one that is being called is waited for."""
        self._notice_fork()
        with self._lock:
            self._subscriptions = []
            follower, self._follower = self._follower, None
        if follower is not None:
            follower.stop()
            follower.wait()

    @contextlib.contextmanager
    def by_hand(self) -> Iterator[None]:
        """For the time being nothing is followed, and listeners hear what `tell` says; new ones leave with it."""
        with self._lock:
            kept, was, follower = self._subscriptions, self._by_hand, self._follower
            self._by_hand, self._follower = True, None
        if follower is not None:
            follower.stop()
            follower.wait()
        try:
            yield
        finally:
            with self._lock:
                self._subscriptions, self._by_hand = kept, was
                if follower is not None:
                    self._follow(follower.cursor)

    def _follow(self, cursor: str) -> None:
        self._follower = Follower(self._store(), cursor, self.tell)
        self._follower.start()

    def _notice_fork(self) -> None:
        """The thread stayed with the parent, and so do its listeners; a lock may have been held."""
        if self._pid != os.getpid():
            self._pid, self._lock, self._by_hand = os.getpid(), threading.Lock(), False
            self._subscriptions, self._follower = [], None


class Follower:
    """Reads the feed in a thread of its own: at each ring, and unasked every now and then."""

    def __init__(self, store: Store, cursor: str, tell: Callable[[Event], None]) -> None:
        self.cursor: str = cursor
        self._store = store
        self._tell = tell
        self._pause = FIRST_LOOK
        self._failures = 0
        self._stopping = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-listeners", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Read no more; from any thread, a listener's included."""
        self._stopping.set()
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._woken.set)

    def wait(self) -> None:
        """Until the thread has ended, unless this is that thread."""
        if self._thread is not threading.current_thread():
            self._thread.join(_LONGEST_GOODBYE)
            if self._thread.is_alive():
                _log.warning("A listener has not come back for %g s; nobody waits for it.", _LONGEST_GOODBYE)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._follow())
        finally:
            self._loop.close()

    async def _follow(self) -> None:
        bell = self._store.doorbell()
        try:
            while not self._stopping.is_set():
                pause = self._read()
                if pause:
                    await self._wait(bell, pause)
        finally:
            await bell.aclose()

    async def _wait(self, bell: Doorbell, seconds: float) -> None:
        ring = asyncio.ensure_future(bell.wait(seconds))
        woken = asyncio.ensure_future(self._woken.wait())
        _, pending = await asyncio.wait({ring, woken}, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _read(self) -> float:
        """Read one page and tell it; how long to wait before the next. The loop has nothing else to do meanwhile."""
        try:
            news = self._news()
        except Exception as error:
            self._failures += 1
            self._complain(error)
            return min(_LONGEST_PAUSE, 0.1 * 2.0 ** min(self._failures, 10))
        self._failures = 0
        for event, behind in feed.with_cursors(self.cursor, news):
            if self._stopping.is_set():
                return 0.0
            # Before it is told: whoever goes on from here tells no event twice.
            self.cursor = behind
            self._tell(event)
        self.cursor = news.cursor
        if news.more:
            return 0.0
        # Where something happens, more will happen soon: endings of jobs ring no bell.
        self._pause = FIRST_LOOK if news.events else min(LONGEST_LOOK, self._pause * 1.5)
        return self._pause

    def _news(self) -> News:
        try:
            return self._store.run(feed.read(self.cursor, _PAGE))
        except FeedGone as error:
            tip = self._store.run(feed.tip())
            # After the tip is known: events that follow this line in the log are not missed.
            _log.warning("Listeners have missed events: %s", error)
            return News([], tip, more=True)

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, StoreUnavailable):
            _log.error("The feed cannot be read.", exc_info=error)
        elif self._failures == 1 or self._failures % 20 == 0:
            _log.warning("Listeners hear nothing, for the store does not answer: %s", error)
