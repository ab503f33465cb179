"""take_hooks: what handlers' own code is told, kept in the transaction of the change and taken at most once."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from penstock.domain.errors import Conflict
from penstock.domain.instant import DAY, SECOND, to_datetime
from penstock.domain.plan import Plan, Statement, Steps, writes
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import HookCall
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import query

pytestmark = pytest.mark.usefixtures("sound")

HOOKS = ("on_success", "on_fail", "on_end")


@pytest.fixture
def lane(kit: Kit) -> int:
    return kit.define("work", hooks=HOOKS)


def taken(kit: Kit, lane: int) -> list[tuple[str, str]]:
    return [(each.job_id, each.kind) for each in kit.run(jobs.take_hooks([lane], 100))]


@pytest.mark.parametrize(
    ("trigger", "facts", "kinds"),
    [
        (Trigger.SUCCEED, {}, ["job.succeeded"]),
        (Trigger.FAIL, {}, ["job.retrying"]),
        (Trigger.FAIL, {"retryable": False}, ["job.failed"]),
        (Trigger.SNOOZE, {"delay": SECOND}, []),
        (Trigger.RELEASE, {}, []),
        (Trigger.LOSE, {}, []),
        (Trigger.ASK_REVIEW, {}, []),
    ],
)
def test_each_ending_is_told_that_a_hook_can_be_called_for(
    kit: Kit, lane: int, trigger: Trigger, facts: dict[str, Any], kinds: list[str]
) -> None:
    claimed = kit.running()

    kit.settle(claimed, trigger, **facts)

    assert taken(kit, lane) == [(claimed.job_id, kind) for kind in kinds]


@pytest.mark.parametrize("trigger", [Trigger.SUCCEED, Trigger.RELEASE, Trigger.LOSE])
def test_any_ending_of_a_cancelling_job_is_told_as_cancelled(kit: Kit, lane: int, trigger: Trigger) -> None:
    claimed = kit.running()
    kit.run(control.cancel([claimed.job_id]))
    assert taken(kit, lane) == []

    kit.settle(claimed, trigger)

    assert taken(kit, lane) == [(claimed.job_id, "job.cancelled")]


def test_a_call_tells_who_and_when_and_of_a_failure_what(kit: Kit, lane: int) -> None:
    claimed = kit.running()
    kit.advance(3)
    kit.settle(claimed, Trigger.FAIL, retryable=False)

    (call,) = kit.run(jobs.take_hooks([lane], 10))

    assert call == HookCall(claimed.job_id, lane, 1, "job.failed", call.data, to_datetime(kit.now))
    assert json.loads(call.data or "") == {"error": "broken", "errorType": "ValueError"}


def test_a_job_that_fails_because_its_workers_died_is_told_as_failed(kit: Kit, lane: int) -> None:
    claimed = kit.running()
    for fence in (1, 2, 3):
        kit.run(jobs.start([kit.held(claimed, fence)]))
        kit.advance(60)
        kit.run(jobs.reclaim(SECOND, 0.5))
        kit.advance(60)
        kit.run(jobs.promote())
        kit.claim()

    (call,) = kit.run(jobs.take_hooks([lane], 10))

    assert (call.kind, call.fence) == ("job.failed", 3)
    assert json.loads(call.data or "")["errorType"] == "WorkerLost"


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.REVIEW_NEEDED])
def test_a_job_that_is_cancelled_while_it_waits_is_told(kit: Kit, lane: int, status: Status) -> None:
    job_id = kit.job_in(status)
    kit.run(control.cancel([job_id], by="anna"))

    (call,) = kit.run(jobs.take_hooks([lane], 10))

    assert (call.job_id, call.kind, json.loads(call.data or "")) == (job_id, "job.cancelled", {"by": "anna"})
    assert call.fence == (1 if status is Status.REVIEW_NEEDED else 0)


def test_an_approval_that_ends_a_job_is_told_as_success(kit: Kit, lane: int) -> None:
    first = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.approve(first, by="anna", finished=False))
    assert taken(kit, lane) == []
    kit.claim()
    second = kit.job_in(Status.REVIEW_NEEDED)

    kit.run(control.approve(second, by="anna", finished=True))

    assert taken(kit, lane) == [(second, "job.succeeded")]


@pytest.mark.parametrize(("note", "error"), [("too dear", "too dear"), (None, "Rejected.")])
def test_a_rejection_is_told_as_a_failure_with_the_note_as_its_error(
    kit: Kit, lane: int, note: str | None, error: str
) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.reject(job_id, by="anna", note=note))

    (call,) = kit.run(jobs.take_hooks([lane], 10))

    told = json.loads(call.data or "")
    assert (call.job_id, call.kind) == (job_id, "job.failed")
    assert (told["error"], told["errorType"], told["by"]) == (error, "Rejected", "anna")


def test_other_moves_are_not_told(kit: Kit, lane: int) -> None:
    job_id = kit.job_in(Status.FAILED)
    taken(kit, lane)

    kit.run(control.retry([job_id]))
    kit.run(control.reschedule(job_id, delay=SECOND))
    kit.run(control.reprioritise([job_id], 3))

    assert taken(kit, lane) == []


def test_retention_is_told_step_by_step(kit: Kit, lane: int) -> None:
    job_id = kit.job_in(Status.SUCCEEDED, reference_type="order", reference_id="7")
    taken(kit, lane)

    kit.advance(8 * 86_400)
    kit.run(admin.retire())
    assert taken(kit, lane) == [(job_id, "job.stale")]
    kit.advance(8 * 86_400)
    kit.run(admin.retire())

    (call,) = kit.run(jobs.take_hooks([lane], 10))
    assert (call.job_id, call.kind, call.fence) == (job_id, "job.deleted", 1)
    assert json.loads(call.data or "") == {
        "definitionKey": "work", "status": "succeeded", "referenceType": "order", "referenceId": "7",
    }  # fmt: skip


def test_a_deletion_by_hand_is_told(kit: Kit, lane: int) -> None:
    active, ended = kit.create(), kit.job_in(Status.CANCELLED)
    taken(kit, lane)

    kit.run(control.delete([active, ended]))

    assert taken(kit, lane) == [(ended, "job.deleted")]


@pytest.mark.parametrize("hooks", [(), ("on_start",)])
def test_nothing_is_kept_for_a_definition_without_a_hook_to_call(kit: Kit, hooks: tuple[str, ...]) -> None:
    lane = kit.define("work", hooks=hooks, stale_after=1, delete_after=1)
    kit.settle(kit.running())
    kit.settle(kit.running(), Trigger.FAIL, retryable=False)
    kit.job_in(Status.CANCELLED)
    kit.advance(60)
    kit.run(admin.retire())
    kit.run(admin.retire())

    assert query(kit.store, "SELECT count(*) FROM {s}hook") == [(0,)]
    assert taken(kit, lane) == []


def test_each_version_has_its_own_word(kit: Kit) -> None:
    plain = kit.define("work", version=1)
    first = kit.create()
    hooked = kit.define("work", version=2, hooks=HOOKS)
    second = kit.create()

    kit.run(control.cancel([first, second]))

    assert taken(kit, hooked) == [(second, "job.cancelled")]
    assert taken(kit, plain) == []


def test_a_definition_that_gets_its_hooks_later_has_them_from_then_on(kit: Kit) -> None:
    kit.define("work")
    kit.job_in(Status.CANCELLED)
    lane = kit.define("work", hooks=HOOKS)

    job_id = kit.job_in(Status.CANCELLED)

    assert taken(kit, lane) == [(job_id, "job.cancelled")]


def test_only_the_lanes_asked_for_are_taken_the_oldest_first_and_no_more_than_asked(kit: Kit, lane: int) -> None:
    other = kit.define("other", hooks=HOOKS)
    kit.job_in(Status.CANCELLED, "other")
    mine = [kit.job_in(Status.CANCELLED) for _ in range(5)]

    first, second, third = (kit.run(jobs.take_hooks([lane], 3)) for _ in range(3))

    assert [[each.job_id for each in found] for found in (first, second, third)] == [mine[:3], mine[3:], []]
    assert len(kit.run(jobs.take_hooks([lane, other], 3))) == 1
    assert kit.run(jobs.take_hooks([], 3)) == kit.run(jobs.take_hooks([other], 0)) == []


def test_two_takers_never_get_the_same(kit: Kit, lane: int) -> None:
    ids = [kit.create() for _ in range(200)]
    kit.run(control.cancel(ids))
    found: list[list[str]] = [[], []]

    def take(mine: list[str]) -> None:
        while calls := kit.run(jobs.take_hooks([lane], 7)):
            mine += [each.job_id for each in calls]

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(found[0] + found[1]) == sorted(ids)


def test_a_change_that_is_undone_leaves_no_call(kit: Kit, lane: int) -> None:
    claimed = kit.running()

    @writes
    def settle_and_fail() -> Steps[None]:
        yield from jobs.settle(kit.held(claimed).worker, [kit.ending(claimed)]).steps()
        yield Statement("find_jobs", columns={"id": [claimed.job_id]})
        raise Conflict("Something else went wrong.")

    plan: Plan[None] = settle_and_fail()
    with pytest.raises(Conflict):
        kit.run(plan)

    assert kit.status(claimed.job_id) is Status.RUNNING
    assert taken(kit, lane) == []


def test_an_ending_handed_in_twice_is_told_once(kit: Kit, lane: int) -> None:
    claimed = kit.running()

    kit.settle(claimed)
    kit.settle(claimed)

    assert taken(kit, lane) == [(claimed.job_id, "job.succeeded")]


def test_calls_that_nobody_takes_are_tidied_away_in_time(kit: Kit, lane: int) -> None:
    kit.job_in(Status.CANCELLED)
    kit.advance(86_400)
    young = kit.job_in(Status.CANCELLED)
    kit.advance(1)

    assert kit.run(admin.tidy(DAY)) == 1

    assert taken(kit, lane) == [(young, "job.cancelled")]
