"""Workers: their leases, duties and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from penstock.domain.job import Held

LOAD = "load"
"""The duty of a worker to have its application loaded; while it cannot be, the duty has a last error."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker that registers; its id is new at every start."""

    id: str
    name: str
    host: str
    pid: int
    lanes: tuple[int, ...]
    slots: int = 1
    code_version: str = ""


@dataclass(frozen=True, slots=True)
class Duty:
    """The health of one duty of a worker."""

    name: str
    last_success_age: float | None
    """Seconds since it last succeeded; None: it never did."""
    errors: int
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the store sees it."""

    id: str
    name: str
    host: str
    pid: int
    lanes: tuple[int, ...]
    slots: int
    code_version: str
    started_at: datetime
    heartbeat_at: datetime
    live: bool
    ended: str | None
    """How it ended: `stopped` or `lost`; None: it has not ended."""
    duties: tuple[Duty, ...] = ()
    """Its duties as reported with a recent heartbeat; the ages are current."""
    lease_expires_at: datetime | None = None
    """When its lease ends, or ended, by the store's clock; None: in an earlier boot of its host."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Its counters since it started: claims and their seconds, refused writes, forks."""

    @property
    def cannot_load(self) -> bool:
        """Whether it lives and cannot start its application."""
        return self.live and any(each.name == LOAD and each.last_error is not None for each in self.duties)


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat: the lease is extended, and these jobs are to be cancelled."""

    cancels: list[Held]
    controls: int
    """Rises with every change of an operator that workers must read."""
    newest_schema: int
    workers: int
    """The number of live workers, this one included."""
    leads: bool
    """Whether this worker is the leader: none started earlier."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The jobs of workers whose lease ended, by what happened to them."""

    workers: list[str]
    lost: list[str]
    released: list[str]
    cancelled: list[str]
    failed: list[str]


@dataclass(frozen=True, slots=True)
class HookCall:
    """One hook to call: what happened to which job. Only one worker takes it."""

    job_id: str
    lane: int
    fence: int
    """The newest attempt's; 0 when there was none."""
    kind: str
    """The kind of the event that it is about."""
    data: str | None
    """JSON text: `error` and `errorType` of a failure; `definitionKey`, `status`, `referenceType` and `referenceId` of
    a job that is gone."""
    at: datetime


@dataclass(frozen=True, slots=True)
class SettleReport:
    """The result of settling attempts; nothing was written for those refused."""

    applied: list[str]
    repeated: list[str]
    """Recorded before: the answer to an earlier settle was lost. That is success."""
    refused: list[Held]
    """The attempt no longer owned its job."""
