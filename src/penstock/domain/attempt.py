"""Attempts: the task that a process receives, and the stored attempt with its phases, logs and reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.domain import payload
from penstock.domain.job import Job
from penstock.domain.states import Status

if TYPE_CHECKING:
    from penstock.domain.json_value import JsonObject, JsonValue


@dataclass(slots=True)
class Task:
    """One attempt at a job, as its process receives it."""

    job_id: str
    key: str
    version: int
    fence: int
    attempt: int
    max_attempts: int
    params: str
    reference: tuple[str, str] | None = None
    tags: tuple[str, ...] = ()
    scheduled_for: int | None = None
    schedule: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    """Results of finished phases by name, as JSON text."""
    review: Mapping[str, Any] | None = None
    """The last decision: verdict, by, note, note_asked, result (JSON text), and the phase that had asked."""
    log_level: str | None = None
    """The lowest level of lines that are kept, where it is not info."""
    hook: str | None = None
    """The hook to be called instead of the handler, such as `on_fail`."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of a hook: status, result, error."""

    def to_json(self) -> dict[str, Any]:
        """What is not at its default."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value not in (None, (), {})}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Task:
        facts = dict(data)
        for name in ("tags", "reference"):
            if name in facts:
                facts[name] = tuple(facts[name])
        return Task(**facts)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An ended attempt at a job; the running one is read from the job itself."""

    job_id: str
    fence: int
    number: int
    worker_id: str | None
    status: Status
    cause: str
    started_at: datetime | None
    finished_at: datetime
    result_text: str | None
    """As the JSON text that is stored."""
    error_type: str | None
    error: str | None
    traceback: str | None
    fingerprint: str | None
    exit_code: int | None
    signal: int | None
    peak_memory: int | None
    cpu_seconds: float | None
    phases: tuple[Phase, ...] = ()
    """The phases that it began, in their order, without their results."""

    @property
    def result(self) -> JsonValue:
        """What the handler returned in this attempt."""
        return payload.value_of(self.result_text)


def count_pruned(attempts: Sequence[Attempt]) -> int:
    """Return how many attempts before these were deleted: each fence was one."""
    return attempts[0].fence - 1 if attempts else 0


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a job, as an attempt left it; a completed phase keeps its result."""

    job_id: str
    name: str
    position: int
    status: str
    progress: float
    message: str | None
    result_text: str | None
    """As the JSON text that is stored."""
    error: str | None
    fence: int
    """The attempt that began it last; 0: none has."""
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def completed_at(self) -> datetime | None:
        return self.finished_at if self.status == "completed" else None

    def with_progress_of(self, job: Job, phases: int) -> Phase:
        """Return the phase with its progress: while it runs, progress is stored for the job as a whole."""
        if self.status != "running" or job.progress is None:
            return self
        within = min(100.0, max(0.0, (job.progress / 100 * phases - self.position) * 100))
        said = job.progress_message if job.current_phase == self.name else None
        return replace(self, progress=round(within, 3), message=self.message if said is None else said)

    @property
    def result(self) -> JsonValue:
        """What the phase returned."""
        return payload.value_of(self.result_text)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log line of an attempt."""

    level: str
    message: str
    at: int | None = None
    phase: str | None = None
    details: str | None = None
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One stored log line of a job."""

    seq: int
    fence: int
    at: datetime
    level: str
    phase: str | None
    message: str
    details_text: str | None
    """As the JSON text that is stored."""
    duration: int | None

    @property
    def details(self) -> JsonObject:
        """The details of the line; may be empty."""
        return payload.object_of(self.details_text)


@dataclass(frozen=True, slots=True)
class Review:
    """A review: the handler's question and the decision."""

    job_id: str
    fence: int
    note: str | None
    data_text: str | None
    """As the JSON text that is stored."""
    asked_at: datetime
    decision: str | None
    decided_by: str | None
    decided_note: str | None
    decided_at: datetime | None
    result_text: str | None
    """As the JSON text that is stored."""

    @property
    def data(self) -> JsonValue:
        """What the handler gave for the person to look at."""
        return payload.value_of(self.data_text)

    @property
    def result(self) -> JsonValue:
        """The result if the review is approved without another one."""
        return payload.value_of(self.result_text)
