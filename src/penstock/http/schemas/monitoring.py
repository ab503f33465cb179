"""Shapes of events, stats, errors, alerts, the audit and health."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, Payload, ResponseModel
from penstock.http.schemas.jobs import JobWithPhases, StatusName


class Durations(ResponseModel):
    """How long something took, in seconds."""

    average: float
    p95: float = Field(description="From the buckets that lengths are counted in.")
    sample: int = Field(description="How many were measured.")


class Flow(ResponseModel):
    """How many jobs came into these states; a job that is tried again starts again."""

    queued: int
    started: int
    succeeded: int
    failed: int
    cancelled: int
    retried: int = Field(description="Attempts that failed and were followed by another one.")
    lost: int = Field(description="Attempts whose worker's lease ended.")


class DefinitionStats(ResponseModel):
    """One definition, all its versions together."""

    definition_key: str
    counts: dict[StatusName, int]
    flow: Flow
    oldest_run_at: Moment | None = Field(description="When the longest waiting of its jobs that are ready was due.")
    durations: Durations | None = Field(description="Of attempts that succeeded.")
    waits: Durations | None = Field(description="From the queue to the claim.")
    failed_last_day: int = Field(description="Jobs that failed in the last 24 hours, whatever `since` says.")


class MinuteStats(ResponseModel):
    """One minute, or hour, in which something happened."""

    minute: Moment
    flow: Flow


class Stats(ResponseModel):
    """The figures of the store at one moment."""

    at: Moment
    since: Moment
    counts: dict[StatusName, int]
    flow: Flow
    depth: int = Field(description="How many jobs stand in the queue.")
    throughput: float = Field(description="How many jobs came to an end per minute.")
    durations: Durations | None
    waits: Durations | None
    definitions: list[DefinitionStats]
    step: Literal[60, 3600] = Field(description="How many seconds each of `minutes` is long.")
    minutes: list[MinuteStats]


class ErrorGroup(ResponseModel):
    """Failures that look alike."""

    fingerprint: str
    definition_key: str
    type: str | None
    message: str = Field(description="The first line of the newest one.")
    jobs: int
    attempts: int
    first_at: Moment
    last_at: Moment
    job_id: str = Field(description="The job that had the newest one.")


class ErrorList(ResponseModel):
    """One page of errors, the newest first."""

    errors: list[ErrorGroup]
    next_cursor: str | None
    capped: bool = Field(description="There were more failures than are looked at: the newest are counted.")


class Alert(ResponseModel):
    """One thing that somebody should look at."""

    id: str
    kind: str
    subject: str = Field(description="The key of a definition or a schedule, the id of a job or an endpoint, or `*`.")
    message: str
    severity: Literal["warning", "critical"]
    since: Moment | None


class AlertList(ResponseModel):
    """All that holds now, the critical first."""

    alerts: list[Alert]


class PastAlert(Alert):
    """An alert as it was raised, and whether it was cleared."""

    seq: int
    raised_at: Moment
    cleared_at: Moment | None = Field(description="null: it stands.")


class AlertHistory(ResponseModel):
    """One page of alerts that were raised, the newest first."""

    alerts: list[PastAlert]
    next_cursor: str | None


class AuditEntry(ResponseModel):
    """One change that somebody made."""

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
    """One thing that happened."""

    seq: int = Field(description="Rises within one job.")
    type: str
    at: Moment
    job_id: str | None
    subject: str | None = Field(
        description="The schedule, worker or alert that it is about, when it is not about a job."
    )
    fence: int | None = Field(description="Of the attempt that it comes from.")
    attempt: int | None = Field(description="The number of the attempt with that fence, while it is kept.")
    duration: float | None = Field(description="Seconds that the attempt took, where it or the job ended.")
    source: str | None = Field(description="The file that the job's handler is in, such as its job file.")
    schedule_id: str | None = Field(description="The schedule that made the job.")
    schedule_expression: str | None = Field(description="When that schedule runs now; null when it was removed.")
    data: Payload
    job: JobWithPhases | None = Field(description="The job as it is now.")
    deleted_job_id: str | None = Field(description="The job that it was about, when there is no such job any more.")


class EventList(ResponseModel):
    """Events in order. `nextCursor` goes on behind them; there may be few or none of them and yet more to come."""

    events: list[Event]
    next_cursor: str
    more: bool = Field(description="Whether there is more already: ask again at once.")


class Alive(ResponseModel):
    """The process answers."""

    status: Literal["ok"]


class Ready(ResponseModel):
    """The store takes what is written."""

    status: Literal["ready"]
