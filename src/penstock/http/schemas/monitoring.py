"""Shapes of events, stats, errors, alerts, the audit and health."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, Payload, ResponseModel
from penstock.http.schemas.jobs import JobWithPhases, StatusName


class Durations(ResponseModel):
    """Durations in seconds."""

    average: float
    p95: float = Field(description="Estimated from a histogram.")
    sample: int = Field(description="Number of measurements.")


class Flow(ResponseModel):
    """Number of jobs that entered these states; a retried job starts again."""

    queued: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    retried: int = Field(description="Attempts that failed and were retried.")
    lost: int = Field(description="Attempts whose worker's lease ended.")


class DefinitionStats(ResponseModel):
    """Figures of one definition, all versions together."""

    definition_key: str
    counts: dict[StatusName, int]
    flow: Flow
    oldest_run_at: Moment | None = Field(description="When its longest-waiting ready job was due.")
    durations: Durations | None = Field(description="Of attempts that succeeded.")
    waits: Durations | None = Field(description="From the queue to the claim.")
    failed_last_day: int = Field(description="Jobs that failed in the last 24 hours, independent of `since`.")


class MinuteStats(ResponseModel):
    """Figures of one minute, or hour."""

    minute: Moment
    flow: Flow


class Stats(ResponseModel):
    """Figures of the store."""

    at: Moment
    since: Moment
    counts: dict[StatusName, int]
    flow: Flow
    depth: int = Field(description="Number of queued jobs.")
    throughput: float = Field(description="Jobs that ended per minute.")
    durations: Durations | None
    waits: Durations | None
    definitions: list[DefinitionStats]
    step: Literal[60, 3600] = Field(description="Seconds in each entry of `minutes`.")
    minutes: list[MinuteStats]


class ErrorGroup(ResponseModel):
    """Failures with the same cause."""

    fingerprint: str
    definition_key: str
    type: str | None
    message: str = Field(description="The first line of the newest error.")
    jobs: int
    attempts: int
    first_at: Moment
    last_at: Moment
    job_id: str = Field(description="The job with the newest error.")


class ErrorList(ResponseModel):
    """One page of errors, the newest first."""

    errors: list[ErrorGroup]
    next_cursor: str | None
    capped: bool = Field(description="Only the newest failures were examined.")


class Alert(ResponseModel):
    """A problem that needs attention."""

    id: str
    kind: str
    subject: str = Field(description="The key of a definition or a schedule, the id of a job or an endpoint, or `*`.")
    message: str
    severity: Literal["warning", "critical"]
    since: Moment | None


class AlertList(ResponseModel):
    """The active alerts, critical ones first."""

    alerts: list[Alert]


class PastAlert(Alert):
    """An alert that was raised, and when it was cleared."""

    seq: int
    raised_at: Moment
    cleared_at: Moment | None = Field(description="null: it is active.")


class AlertHistory(ResponseModel):
    """One page of alerts that were raised, the newest first."""

    alerts: list[PastAlert]
    next_cursor: str | None


class AuditEntry(ResponseModel):
    """One change by an actor."""

    seq: int
    at: Moment
    actor: str
    action: str
    target: str
    before: Payload
    after: Payload
    request_id: str | None


class AuditList(ResponseModel):
    """One page of changes, the newest first."""

    audit: list[AuditEntry]
    next_cursor: str | None


class Event(ResponseModel):
    """One event."""

    seq: int = Field(description="Rises within one job.")
    type: str
    at: Moment
    job_id: str | None
    subject: str | None = Field(description="The schedule, worker or alert that it is about, if it is not about a job.")
    fence: int | None = Field(description="The fence of its attempt.")
    attempt: int | None = Field(description="The number of the attempt with that fence, while it is kept.")
    duration: float | None = Field(description="Seconds that the attempt took, if it or the job ended.")
    source: str | None = Field(description="The file of the job's handler, such as its job file.")
    schedule_id: str | None = Field(description="The schedule that made the job.")
    schedule_expression: str | None = Field(
        description="The current expression of that schedule; null if it was deleted."
    )
    data: Payload
    job: JobWithPhases | None = Field(description="The job as it is now.")
    deleted_job_id: str | None = Field(description="The id of the job, if the job was deleted.")


class EventList(ResponseModel):
    """Events in order. `nextCursor` continues after them; a page may have few or no events although more follow."""

    events: list[Event]
    next_cursor: str
    more: bool = Field(description="Whether more events exist already.")


class Alive(ResponseModel):
    """The process answers."""

    status: Literal["ok"]


class Ready(ResponseModel):
    """The store accepts writes."""

    status: Literal["ready"]
