"""Makes jobs of schedules: each instant once, whoever else does the same at the same time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.domain.errors import (
    InvalidPayload,
    InvalidSchedule,
    PenstockError,
    SchemaError,
    StoreFull,
    StoreUnavailable,
)
from penstock.domain.instant import SECOND
from penstock.domain.job import Draft
from penstock.domain.ports.store import AdminPort, SchedulesPort, Store
from penstock.domain.schedule import pause
from penstock.domain.schedule.due_ticks import Turn
from penstock.domain.schedule.schedule import Schedule, ScheduleRow, Ticking
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log

_SAFETY = 1.0
_SOON = 0.005
_STUCK = 0.25
_BATCH = 100
_MOST_TURNS = 500
"""Ticks of one schedule in a row; then it is the others' turn."""
_LONGEST_ERROR = 300
_FIRST_REST = 1.0
_LONGEST_REST = 60.0
_STORE_ERRORS = (StoreUnavailable, StoreFull, SchemaError)
"""Nothing that a schedule could be blamed for."""

DraftMaker = Callable[[Schedule, int], Awaitable[Draft]]
"""Makes the draft of the job for one instant of a schedule."""


@dataclass(frozen=True, slots=True)
class Resting:
    """A schedule that could not be ticked: it rests until then, or until it is changed, and the others go on."""

    until: float
    seconds: float
    revision: int
    error: str


@dataclass(slots=True)
class Course:
    """A schedule that is due, and its turns."""

    row: ScheduleRow
    turns: list[Turn]
    goes_on: bool = True
    """Neither was somebody else first, nor is there something wrong with it."""


class Scheduler:
    """Looks for schedules whose time has come."""

    def __init__(
        self,
        store: Store,
        schedules: SchedulesPort,
        admin: AdminPort,
        draft: DraftMaker,
        made: Callable[[list[str]], None],
        *,
        steady: Callable[[], float] = time.monotonic,
        pace: Pace = ALONE,
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._admin = admin
        self._draft = draft
        self._made = made
        self._steady = steady
        self._pace = pace
        self.resting: dict[str, Resting] = {}
        self.ticked: int = 0
        """Ticks that this scheduler dealt with, those included that made no job."""
        self.errors: int = 0
        """How often a schedule could not be ticked."""
        self.last_error: str | None = None

    @property
    def asleep(self) -> dict[str, int]:
        """The schedules that rest at present, each with its revision."""
        return {key: rest.revision for key, rest in self.resting.items() if self._steady() < rest.until}

    async def tick(self, now: int | None = None) -> float:
        """Tick what is due; in how many seconds to look again."""
        coming = await self._store.arun(self._schedules.next_tick(), now=now)
        if coming is None and not self.resting:
            return self._pace.rest(_SAFETY)
        present = await self._store.arun(self._admin.clock(), now=now)
        if coming is not None and coming > present and not self.resting:
            return self._until(coming, present)
        limit = _BATCH + len(self.resting)
        due = await self._store.arun(self._schedules.due(limit), now=now)
        if len(due) < limit:
            keys = {row.schedule.key for row in due}
            self.resting = {key: rest for key, rest in self.resting.items() if key in keys}
        awake = [row for row in due if not self._rests(row)]
        unfinished = await self._attend(awake, present, now)
        if unfinished or (awake and len(due) == limit):
            return 0.0
        coming = await self._store.arun(self._schedules.next_tick(self.asleep), now=now)
        if coming is None:
            return self._pace.rest(_SAFETY)
        if coming <= present:  # it should have been dealt with: whatever is wrong, nobody hurries
            return _STUCK
        return self._until(coming, present)

    def _until(self, coming: int, present: int) -> float:
        """In how many seconds to look for a tick that comes then."""
        return min(self._pace.rest(_SAFETY), max(_SOON, (coming - present) / SECOND + self._pace.behind()))

    async def _attend(self, due: list[ScheduleRow], present: int, now: int | None) -> bool:
        """Tick what is due, and say whether there is more; what is wrong with one schedule does not stop the others."""
        courses = [Course(row, turns) for row in due if (turns := self._turns(row, present))]
        for place in range(_MOST_TURNS):
            going = [course for course in courses if course.goes_on and place < len(course.turns)]
            if not going:
                break
            prepared = [(course, await self._prepare(course, place)) for course in going]
            await self._make([(course, ticking) for course, ticking in prepared if ticking is not None], now)
        return any(course.goes_on and len(course.turns) > _MOST_TURNS for course in courses)

    def _turns(self, row: ScheduleRow, present: int) -> list[Turn]:
        try:
            if row.error is not None:
                raise _unreadable(row.error)
            return pause.plan(row, present)
        except Exception as error:
            self._let_rest(row, error)
            return []

    async def _prepare(self, course: Course, place: int) -> Ticking | None:
        """Make ready a turn of a schedule; None when that cannot be done."""
        turn, schedule = course.turns[place], course.row.schedule
        try:
            draft = await self._draft(schedule, turn.tick.instant) if turn.make else None
        except _STORE_ERRORS:
            raise
        except Exception as error:
            self._stop(course, error)
            return None
        return Ticking(turn.tick, draft, schedule.overlap)

    async def _make(self, turns: list[tuple[Course, Ticking]], now: int | None) -> None:
        """Tick several schedules in one transaction; if one of them is at fault, each in its own."""
        if not turns:
            return
        try:
            answers = await self._store.arun(self._schedules.tick_all([ticking for _, ticking in turns]), now=now)
        except _STORE_ERRORS:
            raise
        except Exception as error:
            if len(turns) == 1:
                self._stop(turns[0][0], error)
            else:
                for each in turns:
                    await self._make([each], now)
            return
        made: list[str] = []
        for (course, _), ticked in zip(turns, answers, strict=True):
            self.resting.pop(course.row.schedule.key, None)
            course.goes_on = ticked.verdict != "taken"
            self.ticked += course.goes_on
            if ticked.job_id is not None:
                made.append(ticked.job_id)
        if made:
            self._made(made)

    def _stop(self, course: Course, error: Exception) -> None:
        course.goes_on = False
        self._let_rest(course.row, error)

    def _rests(self, row: ScheduleRow) -> bool:
        rest = self.resting.get(row.schedule.key)
        return rest is not None and rest.revision == row.revision and self._steady() < rest.until

    def _let_rest(self, row: ScheduleRow, error: Exception) -> None:
        self.errors += 1
        rest = self.resting.get(row.schedule.key)
        seconds = _FIRST_REST if rest is None else min(_LONGEST_REST, rest.seconds * 2)
        # A value that does not fit may be a secret: others see only where it stands.
        what = f"{type(error).__name__} at {error.path or '/'}" if isinstance(error, InvalidPayload) else str(error)
        self.last_error = f"{row.schedule.key}: {what}"[:_LONGEST_ERROR]
        self.resting[row.schedule.key] = Resting(self._steady() + seconds, seconds, row.revision, str(error))
        if row.error is not None:
            # No use to say it again: it cannot become readable by itself.
            if rest is None or rest.revision != row.revision or rest.error != str(error):
                log.error("schedule %s %s", row.schedule.key, error)
        elif isinstance(error, PenstockError):
            log.warning("schedule %s cannot tick: %s; next try in %.0f s", row.schedule.key, error, seconds)
        else:
            log.exception("schedule %s cannot tick; next try in %.0f s", row.schedule.key, seconds)


def _unreadable(problem: str) -> InvalidSchedule:
    return InvalidSchedule(f"cannot be read: {problem}.", hint="Save it anew or delete it; the others go on.")
