"""The phases of a job as they are shown: all of them, from the moment it is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.job import Job, Phase
from penstock.core.transitions import Status

PENDING = "pending"
ONLY = "run"
"""The phase of a job that has no phases."""
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
        return replace(phase, status="cancelled")
    if phase.status != "running":
        return phase
    if mine and job.outcome is Status.SUCCEEDED:
        return replace(phase, status="completed", progress=100.0, result=job.result, completed_at=job.finished_at)
    if mine and job.outcome is Status.FAILED:
        return replace(phase, status="failed", error=job.error)
    if mine and job.status in _WORKED_ON:
        return phase.told_by(job, total)
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
        result=job.result if done else None,
        error=job.error,
        fence=job.fence,
        started_at=job.started_at,
        completed_at=job.finished_at if done else None,
    )
