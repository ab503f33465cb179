"""The phases of a job as they are shown: all of them from its creation on, and those of each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.domain.attempt import Attempt, Phase
from penstock.domain.job import Job
from penstock.domain.states import Status

PENDING = "pending"
ONLY = "run"
"""The phase of a job that has no phases."""
INTERRUPTED = "interrupted"
"""The phase of an attempt that ended before the phase did, without an error: it snoozed or asked for a review."""
_WORKED_ON = (Status.RUNNING, Status.CANCELLING, Status.REVIEW_NEEDED)


def all_phases(job: Job, names: Sequence[str], kept: Sequence[Phase]) -> list[Phase]:
    """The phases of a job whose definition has these names, in their order; `kept` are those that have begun.

    A job of one phase keeps none: the job itself says how far that is."""
    if len(names) == 1 and not kept:
        return [_only(job, names[0])]
    begun = {each.name: each for each in kept}
    shown = [
        _now(job, begun.pop(name), len(names)) if name in begun else _pending(job, name, position)
        for position, name in enumerate(names)
    ]
    # Code may have lost a phase since.
    return [*shown, *(_now(job, each, len(names)) for each in begun.values())]


def _pending(job: Job, name: str, position: int) -> Phase:
    return Phase(job.id, name, position, PENDING, 0.0, None, None, None, 0, None, None)


def _now(job: Job, phase: Phase, total: int) -> Phase:
    """A phase that has begun, as the state of its job has it: what ends an attempt from outside ends its phase."""
    if phase.status == "completed":
        return phase
    mine = phase.fence == job.fence
    if mine and job.outcome is Status.CANCELLED:
        return replace(phase, status="cancelled", finished_at=phase.finished_at or job.finished_at)
    if phase.status != "running":
        return phase
    if mine and job.outcome is Status.SUCCEEDED:
        return replace(
            phase, status="completed", progress=100.0, result_text=job.result_text, finished_at=job.finished_at
        )
    if mine and job.outcome is Status.FAILED:
        return replace(phase, status="failed", error=job.error, finished_at=job.finished_at)
    if mine and job.status in _WORKED_ON:
        return phase.with_progress_of(job, total)
    # Its attempt is over, and another one begins it again.
    return _pending(job, phase.name, phase.position)


def _only(job: Job, name: str) -> Phase:
    if job.started_at is None or (job.outcome is None and job.status not in _WORKED_ON):
        return _pending(job, name, 0)
    status = "running"
    if job.outcome is not None:
        status = {Status.SUCCEEDED: "completed", Status.FAILED: "failed"}.get(job.outcome, "cancelled")
    done = status == "completed"
    return Phase(
        job_id=job.id,
        name=name,
        position=0,
        status=status,
        progress=100.0 if done else job.progress or 0.0,
        message=job.progress_message,
        result_text=job.result_text if done else None,
        error=job.error,
        fence=job.fence,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )


def with_phases(job: Job, attempts: Sequence[Attempt], names: Sequence[str]) -> list[Attempt]:
    """Attempts that have ended, each with the phases that it began; the definition's phases have these names."""
    return [replace(each, phases=tuple(_tries(job, each, names))) for each in attempts]


def _tries(job: Job, attempt: Attempt, names: Sequence[str]) -> list[Phase]:
    kept = attempt.phases
    if len(names) == 1 and not kept and attempt.started_at is not None:
        # Attempts at a job of one phase keep none: the attempt itself says how that went.
        kept = (_begun(attempt, names[0]),)
    last = attempt.fence == job.fence
    return [_ended(attempt, each.with_progress_of(job, len(names)) if last else each) for each in kept]


def _begun(attempt: Attempt, name: str) -> Phase:
    return Phase(attempt.job_id, name, 0, "running", 0.0, None, None, None, attempt.fence, attempt.started_at, None)


def _ended(attempt: Attempt, phase: Phase) -> Phase:
    """A phase that an attempt began, as the attempt's end left it."""
    if phase.status != "running":
        return phase
    status = INTERRUPTED
    if attempt.status is Status.CANCELLED:
        status = "cancelled"
    elif attempt.status is Status.SUCCEEDED:
        return replace(phase, status="completed", progress=100.0, finished_at=attempt.finished_at)
    elif attempt.error is not None or attempt.error_type is not None:
        status = "failed"
    return replace(phase, status=status, error=attempt.error, finished_at=attempt.finished_at)
