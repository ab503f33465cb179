"""Changes jobs, one by one or in bulk."""

from __future__ import annotations

from functools import partial

from penstock.domain import payload
from penstock.domain.definition import check_priority
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.job import Job, Phase
from penstock.domain.states import Status, Trigger, allowed
from penstock.operations.bulk import BulkChange
from penstock.operations.job_reading import GONE, known_definition, stored_job
from penstock.operations.session import ApplicationSession, Errand, Talk, not_inside_a_job
from penstock.storage.commands import control
from penstock.storage.commands import jobs as commands
from penstock.surface import enqueue_options as given
from penstock.surface.jobs import (
    ApproveJob,
    Bulk,
    CancelJob,
    ChangeInBulk,
    DeleteJob,
    RejectJob,
    ReprioritiseJob,
    RescheduleJob,
    RetryJob,
)


def cancel_job(session: ApplicationSession, asked: CancelJob) -> Talk[Status]:
    job_id = given.job_id(asked.job_id)
    errands = session.errands
    if errands is not None:
        if asked.by is not None:
            raise not_inside_a_job("app.jobs.cancel with by=")
        status: Status = yield Errand(partial(errands.cancel, job_id))
        return status
    actor = given.actor(asked.by)
    job = yield from stored_job(job_id)
    if job.status.terminal:
        raise _ended(job_id, job.status)
    statuses: dict[str, Status] = yield control.cancel([job_id], by=actor)
    if job_id not in statuses:
        raise NotFound("job", job_id, hint=GONE)
    status = statuses[job_id]
    if status.terminal and status is not Status.CANCELLED:
        # It has ended between these two steps.
        raise _ended(job_id, status)
    session.connections.ring()
    return status


def retry_job(session: ApplicationSession, asked: RetryJob) -> Talk[Status]:
    if asked.fresh and asked.from_phase is not None:
        raise InvalidInput("Give from_phase or fresh, not both.")
    job = yield from stored_job(asked.job_id)
    position = 0 if asked.fresh else None
    if asked.from_phase is not None:
        position = yield from _position(session, job, asked.from_phase)
    if not allowed(job.status, Trigger.RETRY):
        raise _cannot(job, "be retried")
    statuses: dict[str, Status] = yield control.retry([job.id], from_position=position, by=given.actor(asked.by))
    if job.id not in statuses:
        raise NotFound("job", job.id, hint=GONE)
    session.connections.guarded_queue.publish([job.id])
    return statuses[job.id]


def approve_job(session: ApplicationSession, asked: ApproveJob) -> Talk[Status]:
    text = None if asked.result is ... else payload.encode(asked.result, "result")
    job = yield from stored_job(asked.job_id)
    finished = yield from _in_last_phase(session, job)
    by = given.operator(asked.by)
    status: Status = yield control.approve(job.id, by=by, note=given.note(asked.note), result=text, finished=finished)
    session.connections.guarded_queue.publish([job.id])
    return status


def reject_job(session: ApplicationSession, asked: RejectJob) -> Talk[Status]:
    by = given.operator(asked.by)
    status: Status = yield control.reject(given.job_id(asked.job_id), by=by, note=given.note(asked.note))
    session.connections.ring()
    return status


def delete_job(_: ApplicationSession, asked: DeleteJob) -> Talk[None]:
    job_id = given.job_id(asked.job_id)
    gone: list[str] = yield control.delete([job_id], by=given.actor(asked.by))
    if not gone:
        raise _cannot((yield from stored_job(job_id)), "be deleted")


def reschedule_job(session: ApplicationSession, asked: RescheduleJob) -> Talk[Status]:
    due, later = given.due(asked.run_at, asked.delay)
    job_id = given.job_id(asked.job_id)
    if asked.priority is not None:
        check_priority(asked.priority, job_id)
    actor = given.actor(asked.by)
    status: Status = yield control.reschedule(job_id, due=due, delay=later, priority=asked.priority, by=actor)
    session.connections.guarded_queue.publish([job_id])
    return status


def reprioritise_job(_: ApplicationSession, asked: ReprioritiseJob) -> Talk[None]:
    job_id = given.job_id(asked.job_id)
    check_priority(asked.priority, job_id)
    changed: list[str] = yield control.reprioritise([job_id], asked.priority, by=given.actor(asked.by))
    if not changed:
        raise _cannot((yield from stored_job(job_id)), "be given another priority")


def change_in_bulk(session: ApplicationSession, asked: ChangeInBulk) -> Talk[Bulk]:
    change = BulkChange(asked)
    total = Bulk(0, 0, 0)
    after: str | None = None
    while (room := change.room(total)) > 0:
        matched: list[str] = yield control.select(change.which, room, after)
        if not matched:
            break
        after = matched[-1]
        fit: list[str] = yield control.select(change.fitting(matched), len(matched))
        changed = len(fit) if asked.dry_run else (yield from _change(session, change, fit))
        total = total.plus(len(matched), changed)
    return total


def _position(session: ApplicationSession, job: Job, phase: str) -> Talk[int]:
    row = yield from known_definition(session, job.definition_key, job.definition_version)
    names = row.definition.phases
    if phase not in names:
        raise InvalidInput(f"{job.definition_key} has no phase {phase!r:.80}.", hint=f"There are: {', '.join(names)}.")
    return names.index(phase)


def _in_last_phase(session: ApplicationSession, job: Job) -> Talk[bool]:
    """Whether no phase is left after the job's current one.

    The phases on record decide; the current phase alone may be a stage that the handler made up.
    """
    row = yield from known_definition(session, job.definition_key, job.definition_version)
    names = row.definition.phases
    if len(names) == 1:
        return True
    kept: list[Phase] = yield commands.phases(job.id)
    if kept:
        return sum(each.status == "completed" for each in kept) >= len(names) - 1
    return job.current_phase == names[-1]


def _change(session: ApplicationSession, change: BulkChange, job_ids: list[str]) -> Talk[int]:
    """Change one batch; a job that a unique key keeps from being retried must not keep the others."""
    if not job_ids:
        return 0
    try:
        changed = change.changed((yield change.plan(job_ids)))
    except Conflict:
        if len(job_ids) == 1:
            return 0
        count = 0
        for each in job_ids:
            count += yield from _change(session, change, [each])
        return count
    if changed and change.action == "retry":
        session.connections.guarded_queue.publish(changed)
    elif changed:
        session.connections.ring()
    return len(changed)


def _ended(job_id: str, status: Status) -> Conflict:
    return Conflict(f"Job {job_id} has ended as {status}.", job_id=job_id, hint="There is nothing to cancel.")


def _cannot(job: Job, wish: str) -> Conflict:
    """The error for a job whose status does not allow a change."""
    hint = "Wait until it has ended, or cancel it first."
    if job.status.terminal:
        hint = "Run it again as another job: jobs.rerun."
    return Conflict(f"Job {job.id} is {job.status} and cannot {wish}.", job_id=job.id, hint=hint)
