"""What maintenance reports: retention, archived jobs, broken rules, clock marks and findings of the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from penstock.domain.attempt import Attempt, Phase, Review, StoredLog
from penstock.domain.event import Event
from penstock.domain.instant import MINUTE, from_datetime, to_datetime
from penstock.domain.job import Job
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.schedule import ScheduleRow


@dataclass(frozen=True, slots=True)
class RetentionBatch:
    """What one batch of retention did."""

    stale: list[str]
    deleted: list[str]


@dataclass(frozen=True, slots=True)
class ArchivedJob:
    """All that there is of a job that retention is about to delete."""

    job: Job
    mark: int
    """Changes with the job, so that it is not deleted in another state than it was read in."""
    secret_fields: tuple[str, ...] | None
    """The parameters of its definition that are secret; None when its definition cannot be read."""
    attempts: Sequence[Attempt]
    phases: Sequence[Phase]
    reviews: Sequence[Review]
    logs: Sequence[StoredLog]
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule between the rows of the store that does not hold."""

    rule: str
    rows: tuple[str, ...]
    """Names of rows that break it."""


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
    expected = due_ticks.next_tick_after(schedule, latest)
    return schedule.next_run_at if expected is None or schedule.next_run_at > expected else None


class Level(StrEnum):
    """How much a finding matters: nothing to do, something that will hurt, something that hurts now."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was seen, and what to do about it."""

    check: str
    level: Level
    message: str
    hint: str = ""


def fine(check: str, message: str) -> Finding:
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, hint: str) -> Finding:
    return Finding(check, Level.WARNING, message, hint)


def error(check: str, message: str, hint: str) -> Finding:
    return Finding(check, Level.ERROR, message, hint)
