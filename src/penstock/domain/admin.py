"""Settings, audit and retention as they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.domain.event import Event
from penstock.domain.job import Attempt, Job, Phase, Review, StoredLog


@dataclass(frozen=True, slots=True)
class Setting:
    """One stored setting."""

    name: str
    value: str
    revision: int
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that an operator made."""

    seq: int
    at: datetime
    actor: str
    action: str
    target: str
    before: str | None
    after: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one batch of retention did."""

    stale: list[str]
    deleted: list[str]


@dataclass(frozen=True, slots=True)
class Remains:
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
class Unsound:
    """A rule between the rows of the store that does not hold."""

    rule: str
    rows: tuple[str, ...]
    """Names of rows that break it."""
