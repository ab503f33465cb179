"""Makes jobs of schedules: each instant once, whoever else does the same at the same time."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.core import pausing
from penstock.core.errors import (
    InvalidPayload,
    InvalidSchedule,
    PenstockError,
    SchemaError,
    StoreFull,
    StoreUnavailable,
)
from penstock.core.instant import SECOND
from penstock.core.job import Draft
from penstock.core.ports import AdminPort, SchedulesPort, Store
from penstock.core.schedule import Schedule, ScheduleRow
from penstock.core.timetable import Turn
from penstock.engine.pace import ALONE, Pace
from penstock.engine.service import log

_SAFETY = 1.0
_SOON = 0.005
_STUCK = 0.25
_BATCH = 100
_MOST_TURNS = 500
"""Ticks of one schedule in a row; then it is the others' turn."""
_LONGEST_ERROR = 300
_FIRST_REST = 1.0
_LONGEST_REST = 60.0

DraftMaker = Callable[[Schedule, int], Awaitable[Draft]]
"""Makes the draft of the job for one instant of a schedule."""


@dataclass(frozen=True, slots=True)
class Resting:
    """A schedule that could not be ticked: it rests until then, or until it is changed, and the others go on."""

    until: float
    seconds: float
    revision: int
    error: str


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
        self.ticked = 0
        """Ticks that this scheduler dealt with, those included that made no job."""
        self.errors = 0
        """How often a schedule could not be ticked."""
        self.last_error: str | None = None

    @property
    def asleep(self) -> dict[str, int]:
        """The schedules that rest at present, each with its revision."""
        return {key: rest.revision for key, rest in self.resting.items() if self._steady() < rest.until}

    async def tick(self, now: int | None = None) -> float:
        """Tick what is due; in how many seconds to look again."""
        present = await self._store.arun(self._admin.clock(), now=now)
        limit = _BATCH + len(self.resting)
        due = await self._store.arun(self._schedules.due(limit), now=now)
        if len(due) < limit:
            keys = {row.schedule.key for row in due}
            self.resting = {key: rest for key, rest in self.resting.items() if key in keys}
        awake = [row for row in due if not self._rests(row)]
        unfinished = [await self._attend(row, present, now) for row in awake]
        if any(unfinished) or (awake and len(due) == limit):
            return 0.0
        coming = await self._store.arun(self._schedules.next_tick(self.asleep), now=now)
        if coming is None:
            return self._pace.rest(_SAFETY)
        if coming <= present:  # it should have been dealt with: whatever is wrong, nobody hurries
            return _STUCK
        return min(self._pace.rest(_SAFETY), max(_SOON, (coming - present) / SECOND))

    async def _attend(self, row: ScheduleRow, present: int, now: int | None) -> bool:
        """Tick one schedule, and say whether more of it is due; what is wrong with it does not stop the others."""
        try:
            if row.error is not None:
                raise _unreadable(row.error)
            turns = pausing.plan(row, present)
            await self._make(row.schedule, turns[:_MOST_TURNS], now)
        except (StoreUnavailable, StoreFull, SchemaError):
            raise
        except Exception as error:
            self._let_rest(row, error)
            return False
        self.resting.pop(row.schedule.key, None)
        return len(turns) > _MOST_TURNS

    async def _make(self, schedule: Schedule, turns: list[Turn], now: int | None) -> None:
        made: list[str] = []
        try:
            for turn in turns:
                draft = await self._draft(schedule, turn.tick.instant) if turn.make else None
                ticked = await self._store.arun(self._schedules.tick(turn.tick, draft, schedule.overlap), now=now)
                if ticked.verdict == "taken":
                    break
                self.ticked += 1
                if ticked.job_id is not None:
                    made.append(ticked.job_id)
        finally:
            if made:
                self._made(made)

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
