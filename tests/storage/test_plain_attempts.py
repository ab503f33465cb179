"""Attempts that returned nothing: they have no row of their own, and nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.attempt import Attempt
from penstock.domain.instant import DAY
from penstock.domain.job import Claimed
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Outcome, Settlement, Usage
from penstock.domain.plan import Plan, Statement, Steps
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, query

pytestmark = pytest.mark.usefixtures("sound")


def attempts(kit: Kit, job_id: str) -> list[Attempt]:
    return kit.run(admin.attempts(job_id))


def rows(kit: Kit) -> int:
    """How many attempts have a row of their own."""
    ((count,),) = query(kit.store, "SELECT count(*) FROM {s}attempt")
    return int(count)


def done(kit: Kit, **options: object) -> Claimed:
    """A job whose first attempt has just returned nothing."""
    claimed = kit.running(**options)  # type: ignore[arg-type]
    kit.advance(2)
    kit.settle(claimed)
    return claimed


def test_what_is_read_of_it_is_all_that_a_row_would_tell(kit: Kit) -> None:
    worker = kit.worker()
    plain, told = kit.running(worker=worker), kit.running("other", worker=worker)
    kit.advance(2)
    kit.run(jobs.settle(worker, [kit.ending(plain), kit.ending(told, result="1")]))

    (one,), (other,) = attempts(kit, plain.job_id), attempts(kit, told.job_id)

    assert rows(kit) == 1
    assert (one.worker_id, one.status, one.cause, one.result_text) == (worker, Status.SUCCEEDED, "returned", "null")
    assert (one.fence, one.number) == (other.fence, other.number) == (1, 1)
    assert (one.started_at, one.finished_at, one.worker_id) == (other.started_at, other.finished_at, other.worker_id)
    assert (one.error, one.traceback, one.exit_code, one.peak_memory) == (None, None, None, None)
    assert (kit.job(plain.job_id).result_text, kit.job(plain.job_id).worker_id) == ("null", None)


def test_one_after_others_is_the_last_of_them(kit: Kit) -> None:
    first = kit.running()
    kit.settle(first, Trigger.FAIL)
    kit.advance(11)
    kit.run(jobs.promote())
    (second,) = kit.claim()
    kit.settle(second)

    assert [(each.fence, each.number, each.cause) for each in attempts(kit, first.job_id)] == [
        (1, 1, "raised"), (2, 2, "returned"),
    ]  # fmt: skip
    assert rows(kit) == 1


def test_said_again_it_is_on_record_and_another_ending_is_refused(kit: Kit) -> None:
    claimed = done(kit)

    again = kit.settle(claimed)
    otherwise = kit.settle(claimed, Trigger.FAIL)
    later = kit.settle(claimed._replace(fence=2))

    assert (again.repeated, again.refused) == ([claimed.job_id], [])
    assert len(otherwise.refused) == len(later.refused) == 1
    assert [each.cause for each in attempts(kit, claimed.job_id)] == ["returned"]


def test_one_that_was_to_be_cancelled_has_a_row(kit: Kit) -> None:
    worker = kit.worker()
    claimed, beside = kit.running(worker=worker), kit.running("other", worker=worker)
    kit.run(control.cancel([claimed.job_id]))

    kit.run(jobs.settle(worker, [kit.ending(claimed), kit.ending(beside)]))

    assert (kit.status(claimed.job_id), kit.status(beside.job_id)) == (Status.CANCELLED, Status.SUCCEEDED)
    (attempt,) = attempts(kit, claimed.job_id)
    assert (attempt.status, attempt.cause, attempt.result_text) == (Status.CANCELLED, "returned", "null")
    assert rows(kit) == 1


def lone(claimed: Claimed) -> Settlement:
    """What a worker hands in that knows of no hook and no limit."""
    return Settlement(claimed.job_id, claimed.fence, RETURNED_NOTHING, Status.SUCCEEDED, lane=claimed.lane, lone=True)


def test_those_from_which_nothing_follows_are_ended_by_one_statement(kit: Kit) -> None:
    worker = kit.worker()
    first, second = kit.running(worker=worker), kit.running("other", worker=worker)
    plan = jobs.settle(worker, [lone(first), lone(second)])
    statements = [each.name for each in _carried_out(kit, plan)]

    assert statements == ["settle_done"]
    assert {kit.status(first.job_id), kit.status(second.job_id)} == {Status.SUCCEEDED}
    assert attempts(kit, first.job_id)[0].worker_id == worker
    assert kit.events(second.job_id)[-1] == "job.succeeded"


def test_of_two_endings_of_one_job_in_a_batch_the_first_is_applied(kit: Kit) -> None:
    worker = kit.worker()
    claimed, other = kit.running(worker=worker), kit.running("other", worker=worker)
    again = lone(claimed)._replace(outcome=Outcome(Trigger.SUCCEED, Cause.RETURNED, result="1"), lone=False)

    report = kit.run(jobs.settle(worker, [lone(claimed), lone(other), again]))

    assert (report.applied, report.repeated, report.refused) == (
        [claimed.job_id, other.job_id], [claimed.job_id], []
    )  # fmt: skip
    assert attempts(kit, claimed.job_id)[0].result_text == "null"


def test_what_follows_is_done_although_the_worker_knew_nothing_of_it(kit: Kit) -> None:
    hooked = kit.define("hooked", hooks=("on_success",))
    kit.define("limited", key_concurrency=1)
    worker = kit.worker()
    plain, told = kit.running(worker=worker), kit.running("hooked", worker=worker)
    kept = kit.running("limited", worker=worker, concurrency_key="one")
    behind = kit.create("limited", concurrency_key="one")
    cancelled, stranger = kit.running("other", worker=worker), kit.running("another", worker=worker)
    kit.run(control.cancel([cancelled.job_id]))
    assert kit.job(behind).blocked

    report = kit.run(
        jobs.settle(worker, [*map(lone, (plain, told, kept, cancelled)), lone(stranger._replace(fence=7))])
    )

    assert sorted(report.applied) == sorted(each.job_id for each in (plain, told, kept, cancelled))
    assert [each.job_id for each in report.refused] == [stranger.job_id]
    assert [(each.job_id, each.kind) for each in kit.run(jobs.take_hooks([hooked], 10))] == [
        (told.job_id, "job.succeeded")
    ]
    assert not kit.job(behind).blocked
    assert kit.status(cancelled.job_id) is Status.CANCELLED
    assert rows(kit) == 1
    again = kit.run(jobs.settle(worker, [lone(plain), lone(told)]))
    assert (again.applied, again.repeated) == ([], [plain.job_id, told.job_id])


def _carried_out(kit: Kit, plan: Plan[Any]) -> list[Statement]:
    """Carry out a plan; the statements that it consisted of."""
    seen: list[Statement] = []

    def watched() -> Steps[Any]:
        steps = plan.steps()
        answer: Any = None
        while True:
            try:
                seen.append(steps.send(answer))
            except StopIteration as end:
                return end.value
            answer = yield seen[-1]

    kit.run(replace(plan, steps=watched))
    return seen


def test_one_whose_process_told_what_it_used_has_a_row(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, usage=Usage(exit_code=0, peak_memory=5))

    assert rows(kit) == 1
    assert attempts(kit, claimed.job_id)[0].peak_memory == 5


def test_a_stale_job_that_is_retried_keeps_it(kit: Kit) -> None:
    kit.define(stale_after=DAY)
    claimed = done(kit)
    before = attempts(kit, claimed.job_id)
    kit.advance(2 * 86_400)
    assert kit.status(claimed.job_id) is Status.STALE

    kit.run(control.retry([claimed.job_id]))

    assert attempts(kit, claimed.job_id) == before
    assert (kit.job(claimed.job_id).result_text, rows(kit)) == (None, 1)
    (again,) = kit.claim()
    kit.settle(again)
    assert [each.fence for each in attempts(kit, claimed.job_id)] == [1, 2]
    assert kit.events(claimed.job_id)[-2:] == ["job.started", "job.succeeded"]


def test_it_goes_into_the_archive_and_away_with_its_job(kit: Kit) -> None:
    kit.define(stale_after=DAY, delete_after=DAY)
    claimed = done(kit)
    before = attempts(kit, claimed.job_id)
    kit.advance(2 * 86_400)
    kit.run(admin.retire(delete=False))
    kit.advance(2 * 86_400)

    (remains,) = kit.run(admin.take_for_archive())

    assert [replace(each, phases=()) for each in remains.attempts] == before
    assert [[(phase.name, phase.status) for phase in each.phases] for each in remains.attempts] == [
        [("run", "completed")]
    ]
    assert [each.type for each in remains.events] == kit.events(claimed.job_id)
    assert kit.run(admin.delete_archived({claimed.job_id: remains.mark})) == [claimed.job_id]
    assert attempts(kit, claimed.job_id) == []
    assert "job.succeeded" in kit.events(claimed.job_id)


def test_jobs_of_many_definitions_are_kept_as_long_as_each_of_them_says(kit: Kit) -> None:
    keys = [f"kind-{n}" for n in range(7)]
    for place, key in enumerate(keys):
        kit.define(key, stale_after=(place + 1) * DAY)
    worker = kit.worker()
    held = [(key, kit.running(key, worker=worker)) for key in (*keys, *reversed(keys))]
    for known in (True, False):
        part = held[: len(keys)] if known else held[len(keys) :]
        kit.run(
            jobs.settle(
                worker,
                [
                    Settlement(each.job_id, 1, RETURNED_NOTHING, Status.SUCCEEDED, lane=each.lane if known else 0)
                    for _, each in part
                ],
            )
        )

    for key, each in held:
        job = kit.job(each.job_id)
        assert job.finished_at is not None
        assert job.stale_at is not None
        assert (job.stale_at - job.finished_at).days == keys.index(key) + 1


def test_a_row_beside_it_is_unsound(kit: Kit) -> None:
    claimed = done(kit)
    assert kit.run(admin.check_integrity()) == []
    change(
        kit.store,
        "INSERT INTO {s}attempt (job_id, fence, number, status, cause, ended_at)"
        f" VALUES ('{claimed.job_id}', 1, 1, 5, 'returned', 1)",
    )

    (broken,) = kit.run(admin.check_integrity())

    assert broken.rows == (claimed.job_id,)
    change(kit.store, "DELETE FROM {s}attempt")
