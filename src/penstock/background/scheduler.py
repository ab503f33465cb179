"""Makes the jobs of schedules: one for each instant, however many processes do it."""

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
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.schedules import SchedulesPort
from penstock.domain.ports.store import Store
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.due_ticks import PlannedTick
from penstock.domain.schedule.schedule import Schedule, ScheduleRow, TickRequest
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log

_SAFETY = 1.0
_SOON = 0.005
_STUCK = 0.25
_BATCH = 100
_MOST_TURNS = 500
"""Ticks of one schedule in a row, before other schedules are ticked."""
_LONGEST_ERROR = 300
_FIRST_REST = 1.0
_LONGEST_REST = 60.0
_STORE_ERRORS = (StoreUnavailable, StoreFull, SchemaError)
"""Errors that are no fault of a schedule."""

DraftMaker = Callable[[Schedule, int], Awaitable[Draft]]
"""Makes the draft of the job for one instant of a schedule."""


@dataclass(frozen=True, slots=True)
class RetryPause:
    """The time until a schedule that could not be ticked is tried again; a change of the schedule ends it."""

    until: float
    seconds: float
    revision: int
    error: str


@dataclass(slots=True)
class DueSchedule:
    """A schedule that is due, with its ticks."""

    row: ScheduleRow
    turns: list[PlannedTick]
    goes_on: bool = True
    """False once another process was first, or once it has failed."""


class Scheduler:
    """Ticks the schedules that are due."""

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
        self.retry_pauses: dict[str, RetryPause] = {}
        self.ticked: int = 0
        """Ticks that this scheduler has done, with those that made no job."""
        self.errors: int = 0
        """How often a schedule could not be ticked."""
        self.last_error: str | None = None

    @property
    def waiting_for_retry(self) -> dict[str, int]:
        """The schedules that wait until they are tried again, each with its revision."""
        return {key: rest.revision for key, rest in self.retry_pauses.items() if self._steady() < rest.until}

    async def tick(self, now: int | None = None) -> float:
        """Tick what is due; return in how many seconds to look again."""
        coming = await self._store.arun(self._schedules.next_tick(), now=now)
        if coming is None and not self.retry_pauses:
            return self._pace.rest(_SAFETY)
        present = await self._store.arun(self._admin.clock(), now=now)
        if coming is not None and coming > present and not self.retry_pauses:
            return self._until(coming, present)
        limit = _BATCH + len(self.retry_pauses)
        due = await self._store.arun(self._schedules.due(limit), now=now)
        if len(due) < limit:
            keys = {row.schedule.key for row in due}
            self.retry_pauses = {key: rest for key, rest in self.retry_pauses.items() if key in keys}
        awake = [row for row in due if not self._waits_for_retry(row)]
        unfinished = await self._tick_all(awake, present, now)
        if unfinished or (awake and len(due) == limit):
            return 0.0
        coming = await self._store.arun(self._schedules.next_tick(self.waiting_for_retry), now=now)
        if coming is None:
            return self._pace.rest(_SAFETY)
        if coming <= present:  # it should have been ticked: something is wrong, so rest
            return _STUCK
        return self._until(coming, present)

    def _until(self, coming: int, present: int) -> float:
        """Seconds until the look for a tick at this time."""
        return min(self._pace.rest(_SAFETY), max(_SOON, (coming - present) / SECOND + self._pace.delay_after_due()))

    async def _tick_all(self, due: list[ScheduleRow], present: int, now: int | None) -> bool:
        """Tick what is due; True when there is more. A fault of one schedule does not stop the others."""
        entries = [DueSchedule(row, turns) for row in due if (turns := self._turns(row, present))]
        for place in range(_MOST_TURNS):
            going = [entry for entry in entries if entry.goes_on and place < len(entry.turns)]
            if not going:
                break
            prepared = [(entry, await self._prepare(entry, place)) for entry in going]
            await self._make([(entry, ticking) for entry, ticking in prepared if ticking is not None], now)
        return any(entry.goes_on and len(entry.turns) > _MOST_TURNS for entry in entries)

    def _turns(self, row: ScheduleRow, present: int) -> list[PlannedTick]:
        try:
            if row.error is not None:
                raise _unreadable(row.error)
            return due_ticks.plan(row, present)
        except Exception as error:
            self._wait_for_retry(row, error)
            return []

    async def _prepare(self, entry: DueSchedule, place: int) -> TickRequest | None:
        """Prepare a tick of a schedule; None when that fails."""
        turn, schedule = entry.turns[place], entry.row.schedule
        try:
            draft = await self._draft(schedule, turn.tick.instant) if turn.make else None
        except _STORE_ERRORS:
            raise
        except Exception as error:
            self._stop(entry, error)
            return None
        return TickRequest(turn.tick, draft, schedule.overlap)

    async def _make(self, turns: list[tuple[DueSchedule, TickRequest]], now: int | None) -> None:
        """Tick several schedules in one transaction; if one of them fails, each in its own transaction."""
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
        for (entry, _), ticked in zip(turns, answers, strict=True):
            self.retry_pauses.pop(entry.row.schedule.key, None)
            entry.goes_on = ticked.verdict != "taken"
            self.ticked += entry.goes_on
            if ticked.job_id is not None:
                made.append(ticked.job_id)
        if made:
            self._made(made)

    def _stop(self, entry: DueSchedule, error: Exception) -> None:
        entry.goes_on = False
        self._wait_for_retry(entry.row, error)

    def _waits_for_retry(self, row: ScheduleRow) -> bool:
        rest = self.retry_pauses.get(row.schedule.key)
        return rest is not None and rest.revision == row.revision and self._steady() < rest.until

    def _wait_for_retry(self, row: ScheduleRow, error: Exception) -> None:
        self.errors += 1
        rest = self.retry_pauses.get(row.schedule.key)
        seconds = _FIRST_REST if rest is None else min(_LONGEST_REST, rest.seconds * 2)
        # A value that does not fit may be a secret: only its place is shown.
        what = f"{type(error).__name__} at {error.path or '/'}" if isinstance(error, InvalidPayload) else str(error)
        self.last_error = f"{row.schedule.key}: {what}"[:_LONGEST_ERROR]
        self.retry_pauses[row.schedule.key] = RetryPause(self._steady() + seconds, seconds, row.revision, str(error))
        if row.error is not None:
            # Not logged again: the schedule stays unreadable until it is saved again.
            if rest is None or rest.revision != row.revision or rest.error != str(error):
                log.error("schedule %s %s", row.schedule.key, error)
        elif isinstance(error, PenstockError):
            log.warning("schedule %s cannot tick: %s; next try in %.0f s", row.schedule.key, error, seconds)
        else:
            log.exception("schedule %s cannot tick; next try in %.0f s", row.schedule.key, seconds)


def _unreadable(problem: str) -> InvalidSchedule:
    return InvalidSchedule(f"cannot be read: {problem}.", hint="Save it again or delete it; other schedules go on.")
