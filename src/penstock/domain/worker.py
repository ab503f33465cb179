"""Workers: who claims jobs, and until when the store believes that they live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from penstock.domain.job import Held

LOAD = "load"
"""The duty of a worker to have its application loaded; while it cannot be, the duty has a last error."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker that introduces itself; its id is new at every start."""

    id: str
    name: str
    host: str
    pid: int
    lanes: tuple[int, ...]
    slots: int = 1
    code_version: str = ""


@dataclass(frozen=True, slots=True)
class Duty:
    """How it goes with one thing that a worker does again and again."""

    name: str
    last_success_age: float | None
    """How many seconds ago it last went well; None: it never did."""
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
    """How it ended: `stopped` or `lost`; None while nobody has said so."""
    duties: tuple[Duty, ...] = ()
    """What it said of its duties with one of its last heartbeats; the ages are those of now."""
    lease_expires_at: datetime | None = None
    """When its lease ends, or ended, by the store's clock; None: in an earlier boot of its host."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What it has counted by itself since it started: claims and the seconds they took, writes refused, forks."""

    @property
    def cannot_load(self) -> bool:
        """Whether it lives and cannot start its application."""
        return self.live and any(each.name == LOAD and each.last_error is not None for each in self.duties)


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat: the lease goes on, and these jobs shall be cancelled."""

    cancels: list[Held]
    controls: int
    """Rises whenever an operator changed something that workers must look at."""
    newest_schema: int
    workers: int
    """How many live ones there are, this one among them."""
    leads: bool
    """Whether none of them has been there longer."""


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What became of the jobs of workers whose lease had ended."""

    workers: list[str]
    lost: list[str]
    released: list[str]
    cancelled: list[str]
    failed: list[str]


@dataclass(frozen=True, slots=True)
class HookCall:
    """One hook to be called: what happened to which job. Whoever has taken it is the only one who has it."""

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
    """What became of the endings that were handed in; nothing was written for those refused."""

    applied: list[str]
    repeated: list[str]
    """Recorded before: the answer to an earlier settle was lost. That is success."""
    refused: list[Held]
    """The attempt no longer owned its job."""
