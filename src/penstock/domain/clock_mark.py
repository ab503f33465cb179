"""Instants that a store keeps and that lie ahead of its clock, because the clock was ahead when they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.domain.instant import MINUTE, from_datetime, to_datetime
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.schedule import ScheduleRow


@dataclass(frozen=True, slots=True)
class ClockMark:
    """One such instant."""

    kind: str
    """What keeps it: `schedule`, `scheduled_jobs`, `buckets` and so on."""
    name: str
    """The schedule's key, the job's id, the name of a bucket, and so on."""
    at: datetime


def schedule_marks(rows: Sequence[ScheduleRow], now: int) -> list[ClockMark]:
    """The schedules that are silent until the clock has reached their mark, or a next tick that is too late.

    A mark that is ahead by no more than the schedule's own `missed_window` is left out: it is soon reached.
    """
    return [ClockMark("schedule", row.schedule.key, to_datetime(at)) for row in rows if (at := _ahead(row, now))]


def _ahead(row: ScheduleRow, now: int) -> int | None:
    schedule = row.schedule
    if row.error is not None or schedule.next_run_at is None:
        return None
    latest = now + max(MINUTE, schedule.missed_window or 0)
    if row.last_scheduled_at is not None and (mark := from_datetime(row.last_scheduled_at, "The mark")) > latest:
        return mark
    if schedule.next_run_at <= latest:
        return None
    expected = due_ticks.following(schedule, latest)
    return schedule.next_run_at if expected is None or schedule.next_run_at > expected else None
