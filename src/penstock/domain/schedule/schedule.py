"""Schedules: when jobs of a definition are created automatically."""

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
    """The kind of a schedule's expression."""

    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"


class Missed(StrEnum):
    """What to do about ticks that were missed because no scheduler ran."""

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
    """A schedule as code or an operator declares it."""

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
    """`code` or `operator`: code updates and removes only its own schedules."""
    origin: str = ""
    """The code that declared it, such as `myproject.jobs:app`; it removes its schedules that it no longer declares."""
    concurrency_key: str | None = None
    next_run_at: int | None = None
    """The next tick; None: there is none."""

    def __post_init__(self) -> None:
        if not self.key or len(self.key) > 200 or "\x00" in self.key:
            raise InvalidSchedule(f"{self.key!r} cannot be a schedule's key.", hint="Use 1 to 200 characters.")
        if self.missed_max < 1 or self.jitter < 0:
            raise InvalidSchedule(f"{self.key}: missed_max must be at least 1 and jitter not negative.")

    @property
    def params(self) -> JsonObject:
        """The parameters of its jobs. A new object on every access."""
        return payload.object_of(self.params_text)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A stored schedule."""

    schedule: Schedule
    revision: int
    pause: Pause | None
    last_scheduled_at: datetime | None
    """The newest tick that was made or passed over: no tick at or before it is made again."""
    created_at: datetime
    updated_at: datetime
    error: str | None = None
    """Why the stored row is unreadable; then `schedule` has little more than the key, and never ticks."""


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
    """A tick with its job and its overlap policy."""

    tick: Tick
    draft: Draft | None
    """None: the instant is passed over."""
    overlap: str


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of a tick: `made`, `skipped` (overlap), `missed` (passed over), `taken` (another process made it)."""

    verdict: str
    job_id: str | None = None
