"""The port of the scheduler and of operators of schedules. Rules for all ports: `ports.store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.domain.definition import Pause
from penstock.domain.job import Draft
from penstock.domain.plan import Plan
from penstock.domain.schedule.schedule import Schedule, ScheduleRow, Tick, TickRequest, TickResult


class SchedulesPort(Protocol):
    """Schedules and their ticks: each (schedule, instant) makes at most one job."""

    def save(self, schedule: Schedule, *, by: str, revision: int | None = None) -> Plan[ScheduleRow]:
        """Create or replace a schedule. A `revision` that is not the stored one (0: none yet): `RevisionConflict`.

        A pause and `last_scheduled_at` stay. `next_run_at` is replaced unless it is not after `last_scheduled_at`."""
        ...

    def get(self, key: str) -> Plan[ScheduleRow]:
        """Return one schedule. Unknown: `NotFound`.

        A row that cannot be read has an `error`, here and in every list; `save` and `remove` repair it."""
        ...

    def all(self) -> Plan[list[ScheduleRow]]:
        """Return every schedule."""
        ...

    def remove(self, key: str, *, by: str, revision: int | None = None) -> Plan[None]:
        """Delete a schedule; its jobs stay. Unknown: `NotFound`; another `revision`: `RevisionConflict`."""
        ...

    def pause(self, key: str, pause: Pause | None, *, by: str) -> Plan[None]:
        """Pause a schedule, or resume it with None. Unknown: `NotFound`."""
        ...

    def due(self, limit: int = 100) -> Plan[list[ScheduleRow]]:
        """Return enabled schedules, not paused, whose next tick is due, the earliest first."""
        ...

    def next_tick(self, without: Mapping[str, int] = ...) -> Plan[int | None]:
        """Return when the next enabled, unpaused schedule ticks; skip those in `without` (key and revision)."""
        ...

    def tick(self, tick: Tick, draft: Draft | None, overlap: str) -> Plan[TickResult]:
        """Make one tick: advance the schedule and create its job in one transaction.

        Guarded by the schedule's revision and by its `last_scheduled_at`, which must be before the instant; otherwise
        the verdict is `taken`. With overlap `skip`, an unfinished job of the schedule makes the verdict `skipped`
        (event `schedule.skipped`); with `queue_one`, only a waiting one does. Without a draft the instant is passed
        over (event `schedule.missed`)."""
        ...

    def tick_all(self, turns: Sequence[TickRequest]) -> Plan[list[TickResult]]:
        """Make the ticks of many schedules, one each, in one transaction; answer in the same order."""
        ...

    def ticks(self, key: str, limit: int = 50) -> Plan[list[dict[str, Any]]]:
        """Return the newest ticks of a schedule: instant, verdict, passedOver, jobId, at."""
        ...
