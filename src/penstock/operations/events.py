"""What an application can hear: durable events, one after the other or by listeners."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.domain.errors import Hint, InvalidInput, NotFound
from penstock.domain.event import TYPES, Event, News
from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Job
from penstock.domain.states import ACTIVE
from penstock.operations.event_listeners import FIRST_LOOK, LONGEST_LOOK, Listener, Listeners, Pattern
from penstock.operations.job_reading import GONE, Reading
from penstock.operations.session import Pause, Talk, not_inside_a_job
from penstock.storage.commands import feed

ORIGIN = "origin"
"""In place of a cursor: the oldest event that is kept."""

_PAGE = 500
_OURS = ("job.", "schedule.", "worker.")


class Following(Reading):
    """Follows the events of a store, those that other processes cause included."""

    _listeners: Listeners

    def on(self, type: str, function: Listener) -> Callable[[], None]:
        """Have a function called with each event of a type from now on; what is given back ends that.

        `"job.*"` means all types that begin so, `"*"` every type. The function is called in this process, in a thread
        of penstock's, whichever process caused the event. What it raises is logged. A forked child hears nothing until
        it calls `on` itself; `close()` ends all listening.
        """
        self._refuse_inside_any_job("app.on")
        if not callable(function) or asyncio.iscoroutinefunction(function):
            raise InvalidInput(
                f"A listener is a plain function that takes an event, not {function!r:.80}.",
                hint="In an event loop, iterate over app.aevents().",
            )
        return self._listeners.add(_pattern(type), function)

    def events(
        self,
        after: str | None = None,
        snapshot: bool = False,
        *,
        job_id: str | None = None,
        type: str | Sequence[str] | None = None,
        timeout: Duration | None = None,
    ) -> Events:
        """Follow durable events from now on, or from a cursor on; each comes once.

        `after` is the `cursor` of an earlier iteration, or `"origin"` for all that is kept; `FeedGone` when events
        behind it were deleted already. With `job_id` it is the events of one job, from its first one on. `type` names
        those to be given, as in `on`. The iteration ends when nothing came for `timeout` seconds; 0: with what is
        there. `snapshot` adds the jobs that had not ended when it began.
        """
        place, seconds = self._place("app.events", after, snapshot, job_id, type, timeout)
        self._do(place.begin())
        return Events(self, place, seconds)

    async def aevents(
        self,
        after: str | None = None,
        snapshot: bool = False,
        *,
        job_id: str | None = None,
        type: str | Sequence[str] | None = None,
        timeout: Duration | None = None,
    ) -> AsyncEvents:
        place, seconds = self._place("app.aevents", after, snapshot, job_id, type, timeout)
        await self._ado(place.begin())
        return AsyncEvents(self, place, seconds)

    def close(self) -> None:
        self._listeners.stop()
        super().close()

    async def aclose(self) -> None:
        # Before the store is closed: whoever reads from it would open it again.
        await asyncio.to_thread(self._listeners.stop)
        await super().aclose()

    def _place(
        self,
        call: str,
        after: str | None,
        snapshot: bool,
        job_id: str | None,
        type: str | Sequence[str] | None,
        timeout: Duration | None,
    ) -> tuple[Place, float | None]:
        self._refuse_inside_any_job(call)
        if after is not None and not isinstance(after, str):
            raise InvalidInput(
                f"`after` is a cursor, not {after!r:.80}.", hint="Give what an iteration's `cursor` was."
            )
        if after is not None and snapshot:
            raise InvalidInput("A snapshot begins now: give `after` or `snapshot`, not both.")
        wanted = None if type is None else patterns(type)
        seconds = None if timeout is None else microseconds(timeout, "timeout") / 1e6
        place = FeedPlace(after, snapshot, wanted) if job_id is None else JobPlace(job_id, after, snapshot, wanted)
        return place, seconds

    def _refuse_inside_any_job(self, call: str) -> None:
        if self._errands is not None:
            raise not_inside_a_job(call)


class Place:
    """How far a reader of events has come."""

    def __init__(self, after: str | None, snapshot: bool, wanted: Sequence[Pattern] | None) -> None:
        self.cursor: str = after or ""
        self.snapshot = snapshot
        self.more: bool = True
        self._wanted = wanted

    def begin(self) -> Talk[None]:
        """Find the place to begin at, if none was given."""
        raise NotImplementedError

    def page(self) -> Talk[list[tuple[Event, str]]]:
        """The next events, each with the cursor behind it; `more` says whether to ask again at once."""
        raise NotImplementedError

    def jobs(self) -> dict[str, Any]:
        """The filter of jobs that the snapshot shows."""
        raise NotImplementedError

    def news(self, seconds: float | None) -> Talk[list[tuple[Event, str]]]:
        """The next events that are wanted; none when the time is over."""
        end = None if seconds is None else time.monotonic() + seconds
        pause = FIRST_LOOK
        while True:
            found = yield from self.page()
            wanted = [each for each in found if self._wanted is None or any(one.fits(each[0]) for one in self._wanted)]
            if wanted:
                return wanted
            if self.more:
                continue
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                return []
            yield Pause(min(pause, left))
            pause = min(LONGEST_LOOK, pause * 1.5)


class FeedPlace(Place):
    """A place in the feed of all events."""

    more: bool

    def begin(self) -> Talk[None]:
        if self.cursor in ("", ORIGIN):
            self.cursor: str = yield feed.origin() if self.cursor else feed.tip()

    def page(self) -> Talk[list[tuple[Event, str]]]:
        news: News = yield feed.read(self.cursor, _PAGE)
        before, self.cursor, self.more = self.cursor, news.cursor, news.more
        return list(feed.with_cursors(before, news))

    def jobs(self) -> dict[str, Any]:
        return {"status": sorted(ACTIVE)}


class JobPlace(Place):
    """A place among the events of one job, whose numbers rise."""

    more: bool

    def __init__(self, job_id: str, after: str | None, snapshot: bool, wanted: Sequence[Pattern] | None) -> None:
        super().__init__(after, snapshot, wanted)
        self._job_id = given.job_id(job_id)
        self._known = after not in (None, ORIGIN)
        self._seq = self._number(after) if self._known else 0

    def begin(self) -> Talk[None]:
        self.cursor: str = str(self._seq)
        if not self._known:
            first: list[Event] = yield feed.of_job(self._job_id, 0, 1)
            if not first:
                raise NotFound("job", self._job_id, hint=GONE)

    def page(self) -> Talk[list[tuple[Event, str]]]:
        events: list[Event] = yield feed.of_job(self._job_id, self._seq, _PAGE)
        self.more = len(events) == _PAGE
        if events:
            self._seq = events[-1].seq
            self.cursor = str(self._seq)
        return [(event, str(event.seq)) for event in events]

    def jobs(self) -> dict[str, Any]:
        return {"job_id": [self._job_id]}

    def _number(self, after: str | None) -> int:
        if after is None or not (after.isascii() and after.isdigit()) or len(after) > 18:
            raise InvalidInput(
                f"{after!r:.100} is not a cursor of one job's events.", hint="Cursors of the whole feed are others."
            )
        return int(after)


class Events(Iterator[Event]):
    """Durable events, one after the other; where the time ran out, another loop goes on."""

    def __init__(self, app: Following, place: Place, seconds: float | None) -> None:
        self.cursor: str = place.cursor
        """Behind the last event that was given; `app.events(after=…)` goes on from there."""
        self._app = app
        self._place = place
        self._seconds = seconds
        self._ready: deque[tuple[Event, str]] = deque()

    @property
    def snapshot(self) -> Iterator[Job]:
        """The jobs that have not ended, read when you ask; what happens meanwhile comes as an event too."""
        return self._app.iter_jobs(**self._place.jobs()) if self._place.snapshot else iter(())

    def __next__(self) -> Event:
        if not self._ready:
            self._ready.extend(self._app._do(self._place.news(self._seconds)))
        if not self._ready:
            self.cursor = self._place.cursor
            raise StopIteration
        event, self.cursor = self._ready.popleft()
        return event


class AsyncEvents(AsyncIterator[Event]):
    """The same for event loops."""

    def __init__(self, app: Following, place: Place, seconds: float | None) -> None:
        self.cursor: str = place.cursor
        """Behind the last event that was given; `app.aevents(after=…)` goes on from there."""
        self._app = app
        self._place = place
        self._seconds = seconds
        self._ready: deque[tuple[Event, str]] = deque()

    @property
    async def snapshot(self) -> AsyncIterator[Job]:
        """The jobs that have not ended, read when you ask; what happens meanwhile comes as an event too."""
        if self._place.snapshot:
            async for job in self._app.aiter_jobs(**self._place.jobs()):
                yield job

    async def __anext__(self) -> Event:
        if not self._ready:
            self._ready.extend(await self._app._ado(self._place.news(self._seconds)))
        if not self._ready:
            self.cursor = self._place.cursor
            raise StopAsyncIteration
        event, self.cursor = self._ready.popleft()
        return event


def patterns(types: str | Sequence[str]) -> list[Pattern]:
    """The event types that are wanted, as users write them."""
    names = given.several_texts([types] if isinstance(types, str) else types, "type")
    if not names:
        raise InvalidInput(
            "Of no type there are no events.",
            hint=Hint(
                "Leave `type` out to get every one.",
                cli="Leave --type out to get every one.",
                http="Leave `type` out to get every one.",
            ),
        )
    return [_pattern(each) for each in names]


def _pattern(name: object) -> Pattern:
    """An event type as users write it; of those that are penstock's own, one that does not exist is refused."""
    text = given.short_text(name, "type")
    if text is None:
        raise InvalidInput("An event's type is a text.", hint='Write "job.failed", "job.*" or "*".')
    start = text.removesuffix("*")
    if "*" in start or (text.endswith("*") and start and not start.endswith(".")):
        raise InvalidInput(f"{text!r:.80} is no event type.", hint='Write "job.failed", "job.*" or "*".')
    pattern = Pattern(start, whole=start == text)
    if start.startswith(_OURS) and not any(pattern.means(each) for each in TYPES):
        near = get_close_matches(text, TYPES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(TYPES)}."
        raise InvalidInput(f"There is no event {text!r:.80}.", hint=hint)
    return pattern
