"""Schedules: when a definition runs by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from penstock.domain import payload
from penstock.domain.definition import Pause
from penstock.domain.errors import InvalidSchedule
from penstock.domain.job import Draft

if TYPE_CHECKING:
    from penstock.domain.json_value import JsonObject


class Kind(StrEnum):
    """How a schedule says when."""

    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"


class Missed(StrEnum):
    """What to do about ticks that nobody was there for."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


class Overlap(StrEnum):
    """What to do when the job of an earlier tick has not finished."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a definition runs by itself, and how; what code or an operator declares."""

    key: str
    definition_key: str
    kind: Kind
    expression: str
    definition_version: int | None = None
    params_text: str = "{}"
    """The parameters of its jobs as the JSON text that is stored."""
    priority: int | None = None
    timezone: str = "UTC"
    enabled: bool = True
    missed: Missed = Missed.LATEST
    missed_max: int = 100
    missed_window: int | None = None
    overlap: Overlap = Overlap.ALLOW
    jitter: int = 0
    owner: str = "operator"
    """`code` or `operator`: code updates and removes only what it declared itself."""
    origin: str = ""
    """Which code declared it, such as `myproject.jobs:app`; it removes what it does not declare any more."""
    concurrency_key: str | None = None
    next_run_at: int | None = None
    """The first tick that has not been made; None: there is none to come."""

    def __post_init__(self) -> None:
        if not self.key or len(self.key) > 200 or "\x00" in self.key:
            raise InvalidSchedule(f"{self.key!r} cannot be a schedule's key.", hint="Use 1 to 200 characters.")
        if self.missed_max < 1 or self.jitter < 0:
            raise InvalidSchedule(f"{self.key}: missed_max must be at least 1 and jitter not negative.")

    @property
    def params(self) -> JsonObject:
        """The parameters of its jobs. A new object each time: changing it changes nothing else."""
        return payload.object_of(self.params_text)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as the store has it."""

    schedule: Schedule
    revision: int
    pause: Pause | None
    last_scheduled_at: datetime | None
    """The newest tick that was made or passed over: nothing at or before it is ever made again."""
    created_at: datetime
    updated_at: datetime
    error: str | None = None
    """Why what the store has cannot be read; then `schedule` holds little more than the key, and never ticks."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One instant of a schedule, to be made into a job or passed over."""

    schedule: str
    revision: int
    instant: int
    next_run_at: int | None
    passed_over: int = 0
    """How many earlier instants are skipped by making this one."""


class TickRequest(NamedTuple):
    """A tick with the job that it shall become, and what an unfinished job of its schedule means for it."""

    tick: Tick
    draft: Draft | None
    """None passes the instant over."""
    overlap: str


@dataclass(frozen=True, slots=True)
class TickResult:
    """What became of a tick: `made`, `skipped` (overlap), `missed` (passed over), `taken` (somebody was first)."""

    verdict: str
    job_id: str | None = None
