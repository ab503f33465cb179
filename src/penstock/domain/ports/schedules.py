"""What penstock asks of a store for schedules; a part of the ports, whose rules hold here too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.domain.definition import Pause
from penstock.domain.job import Draft
from penstock.domain.plan import Plan
from penstock.domain.schedule.schedule import Schedule, ScheduleRow, Tick, Ticked, Ticking


class SchedulesPort(Protocol):
    """What the scheduler and its operators do."""

    def save(self, schedule: Schedule, *, by: str, revision: int | None = None) -> Plan[ScheduleRow]:
        """Create or replace. With a `revision` it must be the stored one: `RevisionConflict`. A pause stays; what has
        been scheduled (`last_scheduled_at`) stays; `next_run_at` is taken over unless it is not after that mark."""
        ...

    def get(self, key: str) -> Plan[ScheduleRow]:
        """One schedule. What is stored but cannot be read comes as a row with an `error`, here and in every list;
        `save` and `remove` repair it."""
        ...

    def all(self) -> Plan[list[ScheduleRow]]: ...

    def remove(self, key: str, *, by: str, revision: int | None = None) -> Plan[None]:
        """Forget a schedule; its jobs stay. Another `revision`: `RevisionConflict`."""
        ...

    def pause(self, key: str, pause: Pause | None, *, by: str) -> Plan[None]: ...

    def due(self, limit: int = 100) -> Plan[list[ScheduleRow]]:
        """Enabled schedules, not paused, whose next tick has come, the earliest first."""
        ...

    def next_tick(self, without: Mapping[str, int] = ...) -> Plan[int | None]:
        """When the next enabled, unpaused schedule ticks; those named (key and revision) do not count."""
        ...

    def tick(self, tick: Tick, draft: Draft | None, overlap: str) -> Plan[Ticked]:
        """Make one tick: advance the schedule and create its job in one transaction.

        Only if the schedule still has that revision and the instant is after its mark: else `taken`. With overlap
        `skip`, any unfinished job of the schedule makes it `skipped` (event `schedule.skipped`); with `queue_one`, one
        that waits. `draft` None passes the instant over (event `schedule.missed`).
        """
        ...

    def tick_all(self, turns: Sequence[Ticking]) -> Plan[list[Ticked]]:
        """The same for many schedules at once, each of them once; the answers come in the same order."""
        ...

    def ticks(self, key: str, limit: int = 50) -> Plan[list[dict[str, Any]]]:
        """The newest ticks of a schedule: instant, verdict, passedOver, jobId, at."""
        ...
