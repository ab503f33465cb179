"""The control port: what operators do to jobs and definitions.

Jobs are locked first, the table of transitions decides about each, and one statement changes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.domain import event as kinds
from penstock.domain.definition import check_priority
from penstock.domain.errors import Conflict, Hint, InvalidInput, NotFound
from penstock.domain.instant import to_datetime
from penstock.domain.job_json import iso
from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Statement, Steps, reads, writes, writes_once
from penstock.domain.states import BY_CODE, Status, Trigger, allowed
from penstock.storage.commands import audit, hooks, limits, undeclared
from penstock.storage.commands.definition_controls import enable as enable
from penstock.storage.commands.definition_controls import override as override
from penstock.storage.commands.definition_controls import pause as pause
from penstock.storage.commands.filters import filters
from penstock.storage.commands.undeclared import remove_definition as remove_definition
from penstock.storage.commands.undeclared import retire_definition as retire_definition

_BEFORE_ALL_IDS = "00000000-0000-0000-0000-000000000000"
_AFTER_ALL_PHASES = 2**31 - 1
_ADVICE = {
    Status.RUNNING: "Cancel it first, or wait until it has ended.",
    Status.CANCELLING: "Wait until it is cancelled.",
    Status.REVIEW_NEEDED: "Approve or reject it.",
    Status.SUCCEEDED: "Create another job instead.",
    Status.FAILED: "Retry it.",
    Status.CANCELLED: "Retry it.",
    Status.STALE: "Retry it.",
}


@dataclass(frozen=True, slots=True)
class _LockedJob:
    """A locked job."""

    job_id: str
    status: Status
    stored: Status
    fence: int
    priority: int
    due_at: int
    generation: int
    limit_key: str | None
    unique_key: str | None
    definition: str
    now: int
    lane: int
    hooked: bool


@dataclass(frozen=True, slots=True)
class _Move:
    """A change of a locked job, and the events about it."""

    job: _LockedJob
    status: Status
    events: tuple[str, ...]
    due: int | None = None
    renewed: bool = False
    facts: Mapping[str, object] | None = None
    error: Mapping[str, object] = field(default_factory=dict)
    """Additional data of a failure for hooks."""


@writes
def cancel(job_ids: Sequence[str], *, by: str | None = None) -> Steps[dict[str, Status]]:
    found = yield from _hold(job_ids)
    moves = [
        _Move(job, target, (kinds.CANCELLING if target is Status.CANCELLING else kinds.CANCELLED,))
        for job in found
        for target in allowed(job.status, Trigger.CANCEL)
        if target is not None and target is not job.status
    ]
    yield from _carry_out(moves, "job.cancel", by)
    return _statuses(job_ids, found, moves)


@writes
def reschedule(
    job_id: str, *, due: int | None = None, delay: int = 0, priority: int | None = None, by: str | None = None
) -> Steps[Status]:
    if priority is not None:
        check_priority(priority, "The job")
    job = yield from _hold_one(job_id)
    _check(job, Trigger.RESCHEDULE, "be given another time")
    if priority is not None:
        yield from _reprioritise([job], priority, by)
    at = max(job.now + delay if due is None else due, job.now)
    target = Status.SCHEDULED if at > job.now else Status.QUEUED
    move = _Move(job, target, (kinds.RESCHEDULED,), due=at, facts={"runAt": iso(to_datetime(at))})
    yield from _carry_out([move], "job.reschedule", by)
    return target


@writes
def reprioritise(job_ids: Sequence[str], priority: int, *, by: str | None = None) -> Steps[list[str]]:
    check_priority(priority, "The job")
    found = yield from _hold(job_ids)
    waiting = [job for job in found if allowed(job.status, Trigger.RESCHEDULE)]
    if not waiting:
        return []
    yield from _reprioritise(waiting, priority, by)
    changed = {job.job_id for job in waiting}
    return [job_id for job_id in dict.fromkeys(job_ids) if job_id in changed]


@writes
def retry(
    job_ids: Sequence[str], *, from_position: int | None = None, by: str | None = None
) -> Steps[dict[str, Status]]:
    found = yield from _hold(job_ids)
    again = [job for job in found if allowed(job.status, Trigger.RETRY)]
    if not again:
        return _statuses(job_ids, found, [])
    yield from undeclared.check_declared((job.lane for job in again), "no job of it can be retried")
    yield from _check_unique(again)
    position = _AFTER_ALL_PHASES if from_position is None else from_position
    yield Statement("forget_phases", {"position": position}, columns={"id": [job.job_id for job in again]})
    moves = [
        _Move(
            job, Status.QUEUED, (kinds.ENQUEUED,), due=job.now, renewed=True, facts={"generation": job.generation + 1}
        )
        for job in again
    ]
    yield from _carry_out(moves, "job.retry", by)
    return _statuses(job_ids, found, moves)


@writes_once
def approve(
    job_id: str, *, by: str, note: str | None = None, result: str | None = None, finished: bool
) -> Steps[Status]:
    job = yield from _hold_one(job_id)
    _check(job, Trigger.APPROVE, "be approved")
    yield _decision(job, "approved", by, note, result)
    if finished:
        move = _Move(job, Status.SUCCEEDED, (kinds.APPROVED, kinds.SUCCEEDED), facts=_note(note))
    else:
        move = _Move(job, Status.QUEUED, (kinds.APPROVED,), due=job.now, facts=_note(note))
    yield from _carry_out([move], "job.approve", by)
    return move.status


@writes_once
def reject(job_id: str, *, by: str, note: str | None = None) -> Steps[Status]:
    job = yield from _hold_one(job_id)
    _check(job, Trigger.REJECT, "be rejected")
    yield _decision(job, "rejected", by, note, None)
    error = {"error": (note or "Rejected.")[:500], "errorType": "Rejected"}
    move = _Move(job, Status.FAILED, (kinds.REJECTED, kinds.FAILED), facts=_note(note), error=error)
    yield from _carry_out([move], "job.reject", by)
    return move.status


@writes_once
def delete(job_ids: Sequence[str], *, by: str | None = None) -> Steps[list[str]]:
    wanted = list(dict.fromkeys(job_ids))
    if not wanted:
        return []
    gone = {job_id: BY_CODE[status] for job_id, _, status in (yield Statement("delete_jobs", columns={"id": wanted}))}
    deleted = [job_id for job_id in wanted if job_id in gone]
    if by is not None and deleted:
        yield audit.entries(by, "job.delete", [(job_id, {"status": gone[job_id]}, None) for job_id in deleted])
    return deleted


@reads
def select(which: JobFilter, limit: int, after: str | None = None) -> Steps[list[str]]:
    if which.searches:
        raise InvalidInput(
            "Changes in bulk cannot search errors or parameters: a search looks through the newest jobs only.",
            hint=Hint(
                "Read the jobs first, and give their ids: job_id=[...].",
                cli="List the jobs with `penstock jobs list --quiet` and the same options, and name their ids.",
                http="List the jobs with GET /v1/jobs, and send their ids as jobId in the filter.",
            ),
        )
    parts, values = filters(which)
    values |= {"limit": limit, "after": after or _BEFORE_ALL_IDS}
    return [job_id for (job_id,) in (yield Statement("select_jobs", values, parts=parts))]


def _reprioritise(waiting: Sequence[_LockedJob], priority: int, by: str | None) -> Steps[None]:
    yield Statement("reprioritise_jobs", {"priority": priority}, columns={"id": [job.job_id for job in waiting]})
    yield _events([(job, kinds.RESCHEDULED, {"priority": priority}) for job in waiting], by)
    if by is not None:
        changes = [(job.job_id, {"priority": job.priority}, {"priority": priority}) for job in waiting]
        yield audit.entries(by, "job.reprioritise", changes)


def _hold(job_ids: Sequence[str]) -> Steps[list[_LockedJob]]:
    """Lock jobs until the transaction ends; those that do not exist are left out."""
    wanted = sorted(set(job_ids))
    if not wanted:
        return []
    found = yield Statement("hold_jobs", columns={"id": wanted})
    return [_LockedJob(job_id, BY_CODE[told], BY_CODE[stored], *rest) for job_id, told, stored, *rest in found]


def _hold_one(job_id: str) -> Steps[_LockedJob]:
    found = yield from _hold([job_id])
    if not found:
        raise NotFound("job", job_id, hint="It was never created here, or it has been deleted.")
    return found[0]


def _check(job: _LockedJob, trigger: Trigger, wish: str) -> None:
    if not allowed(job.status, trigger):
        raise Conflict(
            f"Job {job.job_id} is {job.status} and cannot {wish}.",
            job_id=job.job_id,
            hint=_ADVICE.get(job.status, "Wait until it asks for a review, or cancel it."),
        )


def _check_unique(again: Sequence[_LockedJob]) -> Steps[None]:
    """Raise when an active job, or another one of these, holds the unique key that a job would need."""
    wanted: dict[str, _LockedJob] = {}
    for job in again:
        if job.unique_key is None:
            continue
        if job.unique_key in wanted:
            raise _unique_conflict(job, wanted[job.unique_key].job_id)
        wanted[job.unique_key] = job
    if wanted:
        for key, holder, _ in (yield Statement("find_unique", columns={"unique_key": sorted(wanted)})):
            raise _unique_conflict(wanted[key], holder)


def _unique_conflict(job: _LockedJob, holder: str) -> Conflict:
    return Conflict(
        f"Job {job.job_id} cannot be retried: job {holder} is active under the same unique key.",
        job_id=holder,
        hint="Wait until that one has ended, or cancel it.",
    )


def _carry_out(moves: Sequence[_Move], action: str, by: str | None) -> Steps[None]:
    """Change locked jobs, write their events, and admit the next jobs of their concurrency keys."""
    if not moves:
        return
    yield Statement(
        "move_jobs",
        columns={
            "id": [move.job.job_id for move in moves],
            "before": [move.job.stored.code for move in moves],
            "status": [move.status.code for move in moves],
            "due": [move.due for move in moves],
            "renewed": [move.renewed for move in moves],
        },
    )
    yield _events([(move.job, kind, move.facts) for move in moves for kind in move.events], by)
    yield from hooks.save(
        (move.job.lane, move.job.job_id, move.job.fence, kind, _text({**(move.facts or {}), **move.error}, by))
        for move in moves
        if move.job.hooked
        for kind in move.events
    )
    if by is not None:
        changes = [(move.job.job_id, {"status": move.job.status}, {"status": move.status}) for move in moves]
        yield audit.entries(by, action, changes)
    yield from limits.touch(move.job.limit_key for move in moves)


def _events(news: Iterable[tuple[_LockedJob, str, Mapping[str, object] | None]], by: str | None) -> Statement:
    rows = list(news)
    return Statement(
        "save_events",
        columns={
            "kind": [kind for _, kind, _ in rows],
            "job_id": [job.job_id for job, _, _ in rows],
            "subject": [None] * len(rows),
            "fence": [job.fence or None for job, _, _ in rows],
            "data": [_text(facts, by) for _, _, facts in rows],
        },
    )


def _text(facts: Mapping[str, object] | None, by: str | None) -> str | None:
    """Return facts and actor as JSON; None when there are none."""
    data = {**(facts or {}), **({} if by is None else {"by": by})}
    return json.dumps(data, ensure_ascii=False) if data else None


def _decision(job: _LockedJob, decision: str, by: str, note: str | None, result: str | None) -> Statement:
    facts = {"id": job.job_id, "fence": job.fence, "decision": decision, "by": by, "note": note, "result": result}
    return Statement("decide_review", facts)


def _note(note: str | None) -> dict[str, object] | None:
    return None if note is None else {"note": note[:500]}


def _statuses(job_ids: Sequence[str], found: Sequence[_LockedJob], moves: Sequence[_Move]) -> dict[str, Status]:
    """Return the status that each job has now, in the order of the request."""
    statuses = {job.job_id: job.status for job in found} | {move.job.job_id: move.status for move in moves}
    return {job_id: statuses[job_id] for job_id in dict.fromkeys(job_ids) if job_id in statuses}
