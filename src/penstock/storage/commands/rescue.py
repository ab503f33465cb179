"""Rescue: frees the jobs of dead workers, and those that a worker does not know it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from penstock.domain import event as kinds
from penstock.domain.definition import with_overrides
from penstock.domain.job import Held
from penstock.domain.outcome import AttemptCounters, Cause, Failure, Outcome, Settlement, decide
from penstock.domain.plan import Rows, Statement, Steps, reads, writes
from penstock.domain.retry import Backoff, RetryPolicy
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import Reclaimed
from penstock.storage.commands import definition_text, endings, rows

_BATCH = 1000
_RELEASED = Outcome(Trigger.RELEASE, Cause.RELEASED)
_LOST = Outcome(
    Trigger.LOSE,
    Cause.LOST,
    failure=Failure(
        "WorkerLost", "The worker that ran this attempt is gone: its lease ended.", fingerprint="worker-lost"
    ),
)


@writes
def release_unheld(worker: str, held: Sequence[Held]) -> Steps[list[str]]:
    known = set(held)
    # More than it holds, so that held jobs cannot crowd out the others.
    found = yield Statement("worker_jobs", {"worker": worker, "limit": len(known) + _BATCH})
    stray = [row for row in found if Held(row[0], row[1], worker) not in known]
    report = yield from endings.settle(worker, [_release(row) for row in stray])
    return report.applied


@reads
def has_expired_workers(grace: int) -> Steps[bool]:
    return bool((yield Statement("has_expired_workers", {"grace": grace})))


@writes
def reclaim(
    grace: int, random: float, limit: int = 10, *, still: Callable[[], bool] = lambda: True
) -> Steps[Reclaimed]:
    answer = Reclaimed([], [], [], [], [])
    expired = yield Statement("expired_workers", {"grace": grace, "limit": limit})
    if not still():
        return answer
    for (worker,) in expired:
        if (yield from _free(worker, random, answer)):
            yield Statement("end_worker", {"worker": worker, "ended": "lost"})
            yield rows.event(kinds.WORKER_LOST, subject=worker)
            answer.workers.append(worker)
    for (worker,) in (yield Statement("ownerless_jobs")):
        yield from _free(worker, random, answer)
    return answer


def _free(worker: str, random: float, answer: Reclaimed) -> Steps[bool]:
    """Free one batch of a worker's jobs; return whether none are left."""
    found = yield Statement("worker_jobs", {"worker": worker, "limit": _BATCH})
    policies = yield from _policies(found)
    decided = [_lose(row, policies, random) if row[5] else _release(row) for row in found]
    report = yield from endings.settle(worker, decided)
    cancelled = set((yield from _cancelled(report.applied)))
    for each in decided:
        if each.job_id in cancelled:
            answer.cancelled.append(each.job_id)
        elif each.status is Status.FAILED:
            answer.failed.append(each.job_id)
        elif each.outcome is _LOST:
            answer.lost.append(each.job_id)
        else:
            answer.released.append(each.job_id)
    return len(found) < _BATCH


def _cancelled(job_ids: Sequence[str]) -> Steps[list[str]]:
    if not job_ids:
        return []
    found = yield Statement("find_jobs", columns={"id": list(job_ids)})
    return [job_id for job_id, status, _ in found if status == Status.CANCELLED.code]


def _policies(found: Rows) -> Steps[dict[int, RetryPolicy]]:
    lanes = sorted({row[6] for row in found})
    if not lanes:
        return {}
    bodies = yield Statement("lane_bodies", columns={"lane": lanes})
    return {lane: _backoff(body, overrides) for lane, body, overrides in bodies}


def _backoff(body: str, overrides: str) -> RetryPolicy:
    """Return the retry policy; the default when the definition is unreadable, so that its jobs are freed."""
    try:
        return with_overrides(definition_text.from_text(body), json.loads(overrides)).backoff
    except Exception:
        return Backoff()


def _lose(row: rows.Row, policies: dict[int, RetryPolicy], random: float) -> Settlement:
    job_id, fence, attempt, max_attempts, lost, _, lane = row
    return decide(job_id, fence, _LOST, AttemptCounters(attempt, max_attempts, lost), policies[lane], random)


def _release(row: rows.Row) -> Settlement:
    return Settlement(row[0], row[1], _RELEASED, Status.QUEUED, attempt_back=1, lost=row[4])
