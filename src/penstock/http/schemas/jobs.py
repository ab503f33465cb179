"""Shapes of jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import FailFast, Field, model_validator

from penstock.http.schemas.base import Moment, PatchModel, Payload, PayloadObject, RequestModel, ResponseModel, Seconds

StatusName = Literal[
    "scheduled", "queued", "running", "cancelling", "review_needed", "succeeded", "failed", "cancelled", "stale"
]


class ReferenceRequest(RequestModel):
    """The object in the caller's application that a job is about."""

    type: str
    id: str


class JobRequest(RequestModel):
    """A job to create."""

    definition_key: str
    definition_version: int | None = None
    params: PayloadObject = Field(default_factory=dict)
    priority: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    run_at: Moment | None = None
    delay: Seconds | None = Field(None, description="Seconds from now.")
    reference: ReferenceRequest | None = None
    tags: Annotated[list[str], FailFast()] = Field(default_factory=list)
    webhook_url: str | None = None
    unique: bool | str | None = Field(
        None, description="true: one active job with these parameters; a string: one active job with this key."
    )
    concurrency_key: str | None = None
    parent_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


class BatchRequest(RequestModel):
    """Jobs to create, all or none."""

    jobs: list[JobRequest]


class JobStarted(ResponseModel):
    """The created job; `created` is false if a known key or a unique job answered."""

    job_id: str
    status: StatusName
    created: bool


class BatchStarted(ResponseModel):
    """The created jobs, in the order of the request."""

    jobs: list[JobStarted]


class Reference(ResponseModel):
    """The object in the caller's application that a job is about."""

    type: str
    id: str


class JobError(ResponseModel):
    """Why a job's newest attempt did not succeed."""

    type: str | None
    message: str | None


class Job(ResponseModel):
    """A job."""

    job_id: str
    definition_key: str
    definition_version: int
    status: StatusName
    outcome: StatusName | None
    params: Payload
    result: Payload
    error: JobError | None
    attempts: int
    max_attempts: int
    lost: int
    fence: int
    generation: int
    priority: int
    progress: float | None
    progress_message: str | None
    current_phase: str | None
    reference: Reference | None
    tags: list[str]
    idempotency_key: str | None
    concurrency_key: str | None
    unique: str | None
    schedule_id: str | None
    scheduled_for: Moment | None
    parent_id: str | None
    rerun_of: str | None
    webhook_url: str | None
    webhook_sent: bool | None
    actor: str | None
    created_at: Moment
    run_at: Moment = Field(description="When it is due.")
    queued_at: Moment | None
    started_at: Moment | None
    finished_at: Moment | None
    duration: float | None = Field(
        description="Seconds that the latest attempt took, without waiting; null while it runs or before it begins."
    )
    updated_at: Moment
    stale_at: Moment | None
    cancel_requested_at: Moment | None
    worker_id: str | None


class _AnyPhase(ResponseModel):
    name: str
    position: int
    progress: float
    message: str | None
    started_at: Moment | None
    completed_at: Moment | None = Field(description="When it was completed; null if it ended otherwise.")
    finished_at: Moment | None = Field(description="When it ended, completed or not.")
    error: str | None
    fence: int = Field(description="The fence of the attempt that began it last.")


class Phase(_AnyPhase):
    """A phase of a job, as the last attempt left it."""

    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    result: Payload


class AttemptPhase(_AnyPhase):
    """A phase that one attempt began; `interrupted` if the attempt ended without an error before the phase did."""

    status: Literal["completed", "failed", "cancelled", "interrupted"]


class Review(ResponseModel):
    """A handler's question to a person, and the person's decision."""

    fence: int
    note: str | None
    data: Payload
    asked_at: Moment
    decision: Literal["approved", "rejected"] | None
    decided_by: str | None
    decided_note: str | None
    decided_at: Moment | None


class JobWithPhases(Job):
    """A job with all its phases."""

    phases: list[Phase]


class JobDetail(JobWithPhases):
    """A job with its phases, its reviews and its worker's lease."""

    reviews: list[Review]
    heartbeat_at: Moment | None
    lease_expires_at: Moment | None


class JobList(ResponseModel):
    """One page of jobs; `nextCursor` is null on the last one."""

    jobs: list[Job]
    next_cursor: str | None
    count: int | None = Field(None, description="The total number, if `count=true` was sent.")
    count_capped: bool | None = Field(None, description="Not all jobs were counted: there may be more.")
    searched: int | None = Field(
        None,
        description="Jobs that a search by `error` or `params.…` examined for this page; if `nextCursor` "
        "is set, further jobs were not examined.",
    )


class Attempt(ResponseModel):
    """One ended attempt at a job."""

    fence: int
    number: int
    worker_id: str | None
    status: StatusName
    cause: str
    started_at: Moment | None
    finished_at: Moment
    result: Payload
    error: JobError | None
    traceback: str | None
    fingerprint: str | None
    exit_code: int | None
    signal: int | None
    peak_memory: int | None
    cpu_seconds: float | None
    phases: list[AttemptPhase] = Field(description="The phases that it began, in their order.")


class AttemptList(ResponseModel):
    """The ended attempts at a job that are kept."""

    attempts: list[Attempt]
    earlier: int = Field(description="Number of earlier attempts that are no longer kept.")


class LogLine(ResponseModel):
    """One log line of an attempt."""

    seq: int
    fence: int
    at: Moment
    level: Literal["debug", "info", "warning", "error"]
    phase: str | None
    message: str
    details: Payload
    duration: float | None = Field(description="Seconds.")


class LogList(ResponseModel):
    """Log lines in order; `nextAfter` continues after them, null if there are no more."""

    logs: list[LogLine]
    next_after: int | None


class Reason(ResponseModel):
    """One reason why a job is not running, or what it does now."""

    code: str
    message: str
    until: Moment | None
    by: str | None


class Why(ResponseModel):
    """The reasons why a job is not running, or what it does now."""

    job_id: str
    reasons: list[Reason]


class JobChanged(ResponseModel):
    """The new status of a job."""

    job_id: str
    status: StatusName


class JobPatch(PatchModel):
    """Another priority or time for a waiting job."""

    priority: int | None = None
    run_at: Moment | None = None
    delay: Seconds | None = None


class RetryRequest(RequestModel):
    """How to retry; finished phases are kept by default."""

    from_phase: str | None = None
    fresh: bool = False


class RerunRequest(RequestModel):
    """Parameters that replace the original ones by name, and options of the new job."""

    params: PayloadObject | None = None
    priority: int | None = None
    max_attempts: int | None = None
    idempotency_key: str | None = None
    run_at: Moment | None = None
    delay: Seconds | None = None


class ApproveRequest(RequestModel):
    """An approval; `result` replaces the handler's result."""

    note: str | None = None
    result: Payload = None


class RejectRequest(RequestModel):
    """A rejection."""

    note: str | None = None


class FilterRequest(RequestModel):
    """Selects the jobs of a bulk change: the filters of the list."""

    job_id: list[str] | None = None
    status: list[StatusName] | None = None
    definition_key: str | None = None
    reference_type: str | None = None
    reference_id: str | None = None
    tag: str | None = None
    schedule_id: str | None = None
    created_from: Moment | None = None
    created_to: Moment | None = None
    fingerprint: str | None = None
    parent_id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_search(cls, asked: Any) -> Any:
        if isinstance(asked, dict) and any(name in ("error", "params") or name.startswith("params.") for name in asked):
            raise ValueError(
                "bulk changes cannot search by error or params; list the jobs with GET /v1/jobs, and send their ids "
                "as jobId"
            )
        return asked


class BulkRequest(RequestModel):
    """One change for all jobs that a filter selects."""

    action: Literal["cancel", "retry", "delete", "reprioritise"]
    filter: FilterRequest = Field(default_factory=FilterRequest)
    everything: bool = Field(False, description="Must be true when the filter is empty.")
    dry_run: bool = False
    priority: int | None = None
    limit: int = 100_000


class BulkAnswer(ResponseModel):
    """The result of a bulk change."""

    matched: int
    changed: int
    skipped: int
    dry_run: bool


class Triggered(ResponseModel):
    """The result of one dispatch cycle."""

    processed: int
    errors: int


def given_filter(asked: FilterRequest) -> dict[str, Any]:
    """Return the filter's fields by their names in Python."""
    return {
        "job_id": asked.job_id, "status": asked.status, "definition_key": asked.definition_key,
        "reference_type": asked.reference_type, "reference_id": asked.reference_id, "tag": asked.tag,
        "schedule_id": asked.schedule_id, "created_from": asked.created_from, "created_to": asked.created_to,
        "fingerprint": asked.fingerprint, "parent_id": asked.parent_id,
    }  # fmt: skip
