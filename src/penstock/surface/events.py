"""`app.events`: durable events, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from penstock.domain.errors import InvalidInput
from penstock.domain.event import Event
from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Job
from penstock.domain.states import ACTIVE
from penstock.surface.jobs import Jobs
from penstock.surface.session import Operation, Session

ORIGIN = "origin"
"""Instead of a cursor: the oldest event that is kept."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, each with the cursor after it, and the cursor after all that was read."""

    events: tuple[tuple[Event, str], ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class FindCursor(Operation[str]):
    """Find where an iteration begins: at a cursor, at the origin, or now; of one job, at its first event."""

    call: ClassVar[str] = "events.follow"
    after: str | None
    job_id: str | None
    type: str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class NextEvents(Operation[EventPage]):
    """Read the next events of the wanted types; wait for them for some seconds, or without end."""

    call: ClassVar[str] = "events.follow"
    cursor: str
    job_id: str | None
    type: str | Sequence[str] | None
    seconds: float | None


class Events:
    """Durable events, including those that other processes cause; for listeners in this process see `app.on`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def follow(
        self,
        after: str | None = None,
        snapshot: bool = False,
        *,
        job_id: str | None = None,
        type: str | Sequence[str] | None = None,
        timeout: Duration | None = None,
    ) -> EventStream:
        """Follow durable events from now on, or from a cursor on; each comes once.

        `after` is the `cursor` of an earlier iteration, or `"origin"` for all that is kept; `FeedGone` when events
        after it were deleted already. With `job_id` it is the events of one job, from its first one on. `type` names
        the wanted ones, as in `app.on`. The iteration ends when nothing came for `timeout` seconds; 0: with the events
        that are there. `snapshot` adds the jobs that had not ended when it began.
        """
        seconds = _seconds(after, snapshot, timeout)
        cursor = self._session.do(FindCursor(after, job_id, type))
        return EventStream(self._session, NextEvents(cursor, job_id, type, seconds), snapshot)

    async def afollow(
        self,
        after: str | None = None,
        snapshot: bool = False,
        *,
        job_id: str | None = None,
        type: str | Sequence[str] | None = None,
        timeout: Duration | None = None,
    ) -> AsyncEventStream:
        seconds = _seconds(after, snapshot, timeout)
        cursor = await self._session.ado(FindCursor(after, job_id, type))
        return AsyncEventStream(self._session, NextEvents(cursor, job_id, type, seconds), snapshot)


class EventStream(Iterator[Event]):
    """Durable events, one after the other; after a timeout, another loop goes on."""

    def __init__(self, session: Session, following: NextEvents, snapshot: bool) -> None:
        self.cursor: str = following.cursor
        """After the last event that was given; `app.events.follow(after=…)` goes on from there."""
        self._session = session
        self._following = following
        self._snapshot = snapshot
        self._ready: deque[tuple[Event, str]] = deque()

    @property
    def snapshot(self) -> Iterator[Job]:
        """The jobs that have not ended, read when you ask; a later change comes as an event too."""
        return Jobs(self._session).iterate(**_filter(self._following)) if self._snapshot else iter(())

    def __next__(self) -> Event:
        if not self._ready:
            page = self._session.do(self._following)
            self._following = replace(self._following, cursor=page.cursor)
            self._ready.extend(page.events)
        if not self._ready:
            self.cursor = self._following.cursor
            raise StopIteration
        event, self.cursor = self._ready.popleft()
        return event


class AsyncEventStream(AsyncIterator[Event]):
    """The same for event loops."""

    def __init__(self, session: Session, following: NextEvents, snapshot: bool) -> None:
        self.cursor: str = following.cursor
        """After the last event that was given; `app.events.afollow(after=…)` goes on from there."""
        self._session = session
        self._following = following
        self._snapshot = snapshot
        self._ready: deque[tuple[Event, str]] = deque()

    @property
    async def snapshot(self) -> AsyncIterator[Job]:
        """The jobs that have not ended, read when you ask; a later change comes as an event too."""
        if self._snapshot:
            async for job in Jobs(self._session).aiterate(**_filter(self._following)):
                yield job

    async def __anext__(self) -> Event:
        if not self._ready:
            page = await self._session.ado(self._following)
            self._following = replace(self._following, cursor=page.cursor)
            self._ready.extend(page.events)
        if not self._ready:
            self.cursor = self._following.cursor
            raise StopAsyncIteration
        event, self.cursor = self._ready.popleft()
        return event


def _seconds(after: object, snapshot: bool, timeout: Duration | None) -> float | None:
    """How long to wait for the next event, in an iteration that can be."""
    if after is not None and not isinstance(after, str):
        raise InvalidInput(f"`after` is a cursor, not {after!r:.80}.", hint="Give the `cursor` of an iteration.")
    if after is not None and snapshot:
        raise InvalidInput("A snapshot begins now: give `after` or `snapshot`, not both.")
    return None if timeout is None else microseconds(timeout, "timeout") / 1e6


def _filter(following: NextEvents) -> dict[str, Any]:
    """The filter of jobs that the snapshot shows."""
    if following.job_id is not None:
        return {"job_id": [following.job_id]}
    return {"status": [status.value for status in sorted(ACTIVE)]}
