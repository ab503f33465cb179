"""Fences: an attempt that no longer owns its job can write nothing, whatever it tries to write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.errors import LeaseLost
from penstock.domain.job import Claimed, Held
from penstock.domain.outcome import RETURNED_NOTHING, Settlement
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import LEASE, Kit
from tests.storage.tables import change, dump

pytestmark = pytest.mark.usefixtures("sound")

# What names an attempt in the signature of a verb.
ATTEMPT = ("Held", "Settlement", "Progress")
# It is handed what the worker holds, so as to leave that alone; everything else is taken from the worker.
TAKES_NO_FENCE = {"release_unheld"}


@contextmanager
def refused() -> Iterator[None]:
    with pytest.raises(LeaseLost):
        yield


def _lone(held: Held | Claimed, lane: int = 1) -> Settlement:
    """The commonest ending of all, which one statement writes."""
    return Settlement(held.job_id, held.fence, RETURNED_NOTHING, Status.SUCCEEDED, lane=lane, lone=True)


def _start(kit: Kit, held: Held) -> None:
    assert kit.run(jobs.start([held])) == [held]


def _settle(kit: Kit, held: Held) -> None:
    for trigger in (Trigger.SUCCEED, Trigger.FAIL, Trigger.RELEASE, Trigger.SNOOZE, Trigger.ASK_REVIEW, Trigger.LOSE):
        report = kit.settle(held, trigger, result="1")
        assert report.applied == []
        assert report.repeated == [held.job_id] or report.refused == [held]
    for ending in (_lone(held), _lone(held)._replace(lane=0, lone=False)):
        report = kit.run(jobs.settle(held.worker, [ending]))
        assert report.applied == []
        assert report.repeated == [held.job_id] or report.refused == [held]


def _save_progress(kit: Kit, held: Held) -> None:
    assert kit.run(jobs.save_progress([(held, 50.0, "half", "load")])) == [held]


def _save_phase(kit: Kit, held: Held) -> None:
    for status in ("running", "completed", "failed"):
        with refused():
            kit.run(jobs.save_phase(held, "load", 0, status, result="1"))


def _save_logs(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.save_logs(held, [LogLine("info", "late")]))


def _emit_many(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.emit_many(held, [("late", "{}"), ("later", None)]))


def _emit(kit: Kit, held: Held) -> None:
    with refused():
        kit.run(jobs.emit(held, "late", "{}"))


WRITES: dict[str, Callable[[Kit, Held], None]] = {
    "start": _start,
    "settle": _settle,
    "save_progress": _save_progress,
    "save_phase": _save_phase,
    "save_logs": _save_logs,
    "emit": _emit,
    "emit_many": _emit_many,
}


def _running_elsewhere(kit: Kit, held: Held) -> None:
    """The lease ended, and another worker has the job now."""
    kit.advance(60)
    assert kit.run(jobs.reclaim(0, 0.5)).lost == [held.job_id]
    kit.advance(60)
    kit.run(jobs.promote())
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (held.job_id, held.fence + 1)


def _waiting(kit: Kit, held: Held) -> None:
    """The lease ended, and nobody has the job yet."""
    kit.advance(60)
    assert kit.run(jobs.reclaim(0, 0.5)).lost == [held.job_id]


def _ended(kit: Kit, held: Held) -> None:
    kit.settle(held, result='"the one outcome"')
    assert kit.status(held.job_id) is Status.SUCCEEDED


def _cancelled(kit: Kit, held: Held) -> None:
    kit.run(control.cancel([held.job_id]))
    kit.settle(held)
    assert kit.status(held.job_id) is Status.CANCELLED


def _in_review(kit: Kit, held: Held) -> None:
    kit.settle(held, Trigger.ASK_REVIEW)
    assert kit.status(held.job_id) is Status.REVIEW_NEEDED


def _running_in_a_new_generation(kit: Kit, held: Held) -> None:
    kit.settle(held, Trigger.FAIL, retryable=False)
    kit.run(control.retry([held.job_id]))
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (held.job_id, held.fence + 1)


def _deleted(kit: Kit, held: Held) -> None:
    kit.settle(held)
    assert kit.run(control.delete([held.job_id])) == [held.job_id]


def _running_elsewhere_under_the_same_fence(kit: Kit, held: Held) -> None:
    """The database was set back to before the claim, by a restore or a standby that lagged; then another claimed it."""
    before = "fence = 0, attempt = 0, status = {queued}, worker = NULL, started_at = NULL"
    change(kit.store, f"UPDATE {{s}}job SET {before} WHERE id = '{held.job_id}'")
    change(kit.store, "UPDATE {s}tally_delta SET n = 0 WHERE status = {running} OR n < 0")
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (held.job_id, held.fence)


LOST: dict[str, Callable[[Kit, Held], None]] = {
    "running elsewhere": _running_elsewhere,
    "running elsewhere under the same fence": _running_elsewhere_under_the_same_fence,
    "waiting": _waiting,
    "ended": _ended,
    "cancelled": _cancelled,
    "in review": _in_review,
    "retried by hand": _running_in_a_new_generation,
    "deleted": _deleted,
}


def test_every_write_that_an_attempt_can_make_is_tried_here() -> None:
    verbs = {
        name: " ".join(str(parameter.annotation) for parameter in inspect.signature(verb).parameters.values())
        for name, verb in inspect.getmembers(JobsPort, inspect.isfunction)
        if not name.startswith("_")
    }

    taking = {name for name, types in verbs.items() if any(word in types for word in ATTEMPT)}

    assert taking - TAKES_NO_FENCE == set(WRITES)


def test_of_two_workers_with_the_same_fence_the_one_that_the_job_names_writes_all_and_the_other_nothing(
    kit: Kit,
) -> None:
    stale = kit.held(kit.running())
    _running_elsewhere_under_the_same_fence(kit, stale)
    owner = kit.held(stale.job_id, stale.fence)
    assert owner != stale
    assert kit.run(jobs.start([stale, owner])) == [stale]
    reports = [(owner, 10.0, "mine", "load"), (stale, 90.0, "stale", "save")]
    assert kit.run(jobs.save_progress(reports)) == [stale]
    kit.run(jobs.save_phase(owner, "load", 0, "completed", result="1"))
    kit.run(jobs.save_logs(owner, [LogLine("info", "mine")]))
    kit.run(jobs.emit(owner, "mine", None))
    kit.run(jobs.emit_many(owner, [("mine", None)]))
    kit.run(control.cancel([owner.job_id]))
    assert kit.run(jobs.heartbeat(owner.worker, LEASE)).cancels == [owner]
    assert kit.run(jobs.heartbeat(stale.worker, LEASE)).cancels == []
    assert kit.run(jobs.release_unheld(stale.worker, [])) == []
    assert kit.run(jobs.release_unheld(owner.worker, [owner])) == []

    assert kit.settle(stale).refused == [stale]
    assert kit.settle(owner).applied == [owner.job_id]

    assert kit.settle(owner).repeated == [owner.job_id]
    assert kit.settle(stale).refused == [stale]
    job = kit.job(owner.job_id)
    assert (job.status, job.progress, job.progress_message) == (Status.CANCELLED, 10.0, "mine")
    assert [each.worker_id for each in kit.run(admin.attempts(owner.job_id))] == [owner.worker]


@pytest.mark.parametrize("result", ["null", "1"])
def test_an_ending_that_is_on_record_is_success_for_the_worker_that_ran_it_and_for_no_other(
    kit: Kit, result: str
) -> None:
    stale = kit.held(kit.running())
    _running_elsewhere_under_the_same_fence(kit, stale)
    owner = kit.held(stale.job_id, stale.fence)
    kit.settle(owner, result=result)
    before = dump(kit.store)

    assert kit.settle(owner, result=result).repeated == [owner.job_id]
    assert kit.settle(stale, result=result).refused == [stale]
    assert kit.run(jobs.settle(stale.worker, [_lone(stale)])).refused == [stale]
    assert dump(kit.store) == before


def test_endings_of_jobs_in_a_row_leave_out_the_one_that_another_worker_holds(kit: Kit) -> None:
    mine, other = kit.worker(), kit.worker()
    claimed = [kit.running(worker=each) for each in (mine, mine, other, mine)]
    foreign = kit.held(claimed[2])
    endings = [_lone(each, each.lane) for each in claimed]

    report = kit.run(jobs.settle(mine, endings))

    assert report.applied == [each.job_id for each in claimed if each is not claimed[2]]
    assert report.refused == [foreign._replace(worker=mine)]
    assert kit.job(foreign.job_id).worker_id == foreign.worker
    assert kit.run(jobs.settle(mine, endings[:2])).repeated == [each.job_id for each in claimed[:2]]


@pytest.mark.parametrize("state", LOST)
@pytest.mark.parametrize("write", WRITES)
def test_an_attempt_that_lost_its_job_writes_nothing(kit: Kit, write: str, state: str) -> None:
    claimed = kit.running()
    held = kit.held(claimed)
    LOST[state](kit, held)
    before = dump(kit.store)

    WRITES[write](kit, held)

    assert dump(kit.store) == before


@pytest.mark.parametrize("write", sorted(set(WRITES) - {"settle"}))
def test_a_fence_that_was_never_given_out_opens_nothing(kit: Kit, write: str) -> None:
    claimed = kit.running()
    before = dump(kit.store)

    for fence in (0, claimed.fence + 1, 2**31 - 1):
        WRITES[write](kit, kit.held(claimed)._replace(fence=fence))

    assert dump(kit.store) == before
