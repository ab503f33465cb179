"""The outcome of an attempt, and the decision that follows for its job: retry, fail, at most three losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from penstock.domain.instant import SECOND
from penstock.domain.retry import RetryPolicy
from penstock.domain.states import Status, Trigger

MAX_LOSSES = 3
FIRST_LOSS_DELAY = SECOND


class Cause(StrEnum):
    """The cause of an attempt's end."""

    RETURNED = "returned"
    RAISED = "raised"
    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    CANCELLED = "cancelled"
    SNOOZED = "snoozed"
    REVIEW = "review"
    RELEASED = "released"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of an attempt, already sanitised."""

    type: str
    message: str
    traceback: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that an attempt used."""

    exit_code: int | None = None
    signal: int | None = None
    peak_memory: int | None = None
    cpu_seconds: float | None = None


_UNKNOWN = Usage()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, before the decision about its job."""

    trigger: Trigger
    cause: Cause
    result: str | None = None
    failure: Failure | None = None
    retryable: bool = True
    delay: int | None = None
    """Microseconds requested by the handler (`Retry(after=)`, `Snooze(delay)`); None: the policy decides."""
    note: str | None = None
    data: str | None = None
    usage: Usage = _UNKNOWN


RETURNED_NOTHING = Outcome(Trigger.SUCCEED, Cause.RETURNED, result="null")
"""The most common outcome: success without a result."""


@dataclass(frozen=True, slots=True)
class AttemptCounters:
    """The counters of a job that the decision about an outcome needs."""

    attempt: int
    max_attempts: int
    lost: int


class Settlement(NamedTuple):
    """The decided end of one attempt: what the store writes if the fence still matches."""

    job_id: str
    fence: int
    outcome: Outcome
    status: Status
    delay: int = 0
    attempt_back: int = 0
    lost: int = 0
    """The consecutive losses of the job; an attempt that ends without a loss resets them."""
    lane: int = 0
    """The job's lane; set for successes."""
    lone: bool = False
    """Nothing follows from a success: the job has no hooks and no concurrency key."""


def decide(
    job_id: str, fence: int, outcome: Outcome, job: AttemptCounters, policy: RetryPolicy, random: float
) -> Settlement:
    """Decide what follows from `outcome` for a running job; the store ends a cancelling job as cancelled in any
    case."""
    match outcome.trigger:
        case Trigger.SUCCEED:
            return Settlement(job_id, fence, outcome, Status.SUCCEEDED)
        case Trigger.ASK_REVIEW:
            return Settlement(job_id, fence, outcome, Status.REVIEW_NEEDED)
        case Trigger.SNOOZE:
            return Settlement(job_id, fence, outcome, Status.SCHEDULED, delay=outcome.delay or 0, attempt_back=1)
        case Trigger.RELEASE:
            return Settlement(job_id, fence, outcome, Status.QUEUED, attempt_back=1, lost=job.lost)
        case Trigger.LOSE:
            return _lose(job_id, fence, outcome, job, policy, random)
        case Trigger.FAIL:
            return _fail(job_id, fence, outcome, job, policy, random)
        case other:
            raise ValueError(f"{other} is not an ending of an attempt")


def _fail(
    job_id: str, fence: int, outcome: Outcome, job: AttemptCounters, policy: RetryPolicy, random: float
) -> Settlement:
    if not outcome.retryable or job.attempt >= job.max_attempts:
        return Settlement(job_id, fence, outcome, Status.FAILED)
    delay = outcome.delay
    if delay is None:
        delay = round(policy.delay(job.attempt - 1, random) * SECOND)
    return Settlement(job_id, fence, outcome, Status.SCHEDULED, delay=delay)


def _lose(
    job_id: str, fence: int, outcome: Outcome, job: AttemptCounters, policy: RetryPolicy, random: float
) -> Settlement:
    lost = job.lost + 1
    if lost >= MAX_LOSSES:
        return Settlement(job_id, fence, _last_loss(outcome, lost), Status.FAILED, lost=lost)
    delay = FIRST_LOSS_DELAY
    if job.lost > 0:
        delay = max(delay, round(policy.delay(job.lost - 1, random) * SECOND))
    return Settlement(job_id, fence, outcome, Status.SCHEDULED, delay=delay, attempt_back=1, lost=lost)


def _last_loss(outcome: Outcome, lost: int) -> Outcome:
    if outcome.failure is None:
        return outcome
    text = f"{outcome.failure.message} The job was lost {lost} times in a row, so it is not tried again."
    return replace(outcome, failure=replace(outcome.failure, message=text))
