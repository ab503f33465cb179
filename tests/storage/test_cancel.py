"""cancel: what waits ends now, what runs is asked to stop."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.instant import DAY, to_datetime
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import LEASE, Kit
from tests.storage.tables import check_soundness, query


@pytest.mark.parametrize("status", [Status.SCHEDULED, Status.QUEUED, Status.REVIEW_NEEDED])
def test_a_job_that_waits_is_cancelled_at_once(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    kit.advance(5)

    answer = kit.run(control.cancel([job_id]))

    job = kit.job(job_id)
    assert answer == {job_id: Status.CANCELLED}
    assert job.status is Status.CANCELLED
    assert job.finished_at == job.cancel_requested_at == to_datetime(kit.now)
    assert job.stale_at == to_datetime(kit.now + 7 * DAY)
    assert kit.events(job_id)[-1] == "job.cancelled"
    check_soundness(kit.store)


def test_a_running_job_is_cancelling_and_its_worker_hears_of_it(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    job_id = kit.create()
    (claimed,) = kit.claim(worker)

    answer = kit.run(control.cancel([job_id]))

    (told,) = kit.run(jobs.heartbeat(worker, LEASE)).cancels
    assert answer == {job_id: Status.CANCELLING}
    assert (told.job_id, told.fence) == (job_id, claimed.fence)
    assert kit.job(job_id).cancel_requested_at == to_datetime(kit.now)
    assert kit.job(job_id).finished_at is None
    assert kit.events(job_id)[-1] == "job.cancelling"
    check_soundness(kit.store)


def test_a_cancelling_job_keeps_what_it_returned(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(control.cancel([claimed.job_id]))

    kit.settle(claimed, Trigger.SUCCEED, result="1")

    assert kit.status(claimed.job_id) is Status.CANCELLED
    assert query(kit.store, "SELECT status, result FROM {s}attempt") == [(Status.CANCELLED.code, "1")]
    check_soundness(kit.store)


def test_a_second_cancel_changes_and_tells_nothing(kit: Kit) -> None:
    job_id = kit.job_in(Status.CANCELLING)
    asked = kit.job(job_id).cancel_requested_at
    events = kit.events(job_id)
    kit.advance(5)

    assert kit.run(control.cancel([job_id], by="ann")) == {job_id: Status.CANCELLING}

    assert kit.job(job_id).cancel_requested_at == asked
    assert kit.events(job_id) == events
    assert query(kit.store, "SELECT * FROM {s}audit") == []


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.STALE])
def test_a_job_that_has_ended_keeps_its_status(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id), kit.events(job_id)

    assert kit.run(control.cancel([job_id])) == {job_id: status}

    assert (kit.job(job_id), kit.events(job_id)) == before


def test_many_are_cancelled_at_once_and_unknown_ones_are_left_out(kit: Kit) -> None:
    running = kit.job_in(Status.RUNNING)
    done = kit.job_in(Status.SUCCEEDED)
    queued = kit.job_in(Status.QUEUED)

    answer = kit.run(control.cancel([queued, done, kit.new_id(), running, queued]))

    assert list(answer.items()) == [
        (queued, Status.CANCELLED), (done, Status.SUCCEEDED), (running, Status.CANCELLING),
    ]  # fmt: skip
    check_soundness(kit.store)


def test_nothing_to_cancel_is_fine(kit: Kit) -> None:
    assert kit.run(control.cancel([])) == {}


def test_cancelling_a_waiting_job_leaves_no_attempt_and_its_review_undecided(kit: Kit) -> None:
    queued = kit.job_in(Status.QUEUED)
    kit.run(control.cancel([queued]))
    asking = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.cancel([asking]))

    assert query(kit.store, f"SELECT * FROM {{s}}attempt WHERE job_id = '{queued}'") == []
    assert query(kit.store, f"SELECT decision FROM {{s}}review WHERE job_id = '{asking}'") == [(None,)]


def test_cancelling_frees_the_slot_of_a_concurrency_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    first, second, third = (kit.create(concurrency_key="k") for _ in range(3))
    assert [kit.job(each).blocked for each in (first, second, third)] == [False, True, True]

    kit.run(control.cancel([first]))

    assert [kit.job(each).blocked for each in (first, second, third)] == [False, False, True]
    check_soundness(kit.store)


def test_a_running_job_keeps_its_slot_while_it_is_cancelling(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    claimed = kit.running(concurrency_key="k")
    waiting = kit.create(concurrency_key="k")

    kit.run(control.cancel([claimed.job_id]))
    assert kit.job(waiting).blocked

    kit.settle(claimed)
    assert not kit.job(waiting).blocked


def test_cancelling_a_blocked_job_lets_nobody_through(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    first, second, third = (kit.create(concurrency_key="k") for _ in range(3))

    kit.run(control.cancel([second]))

    assert [kit.job(each).blocked for each in (first, second, third)] == [False, False, True]
    check_soundness(kit.store)


def test_who_cancelled_is_written_down(kit: Kit) -> None:
    job_id = kit.job_in(Status.QUEUED)

    kit.run(control.cancel([job_id], by="ann"))

    audited = query(kit.store, "SELECT at, actor, action, target, before, after FROM {s}audit")
    told = query(kit.store, "SELECT data FROM {s}event WHERE kind = 'job.cancelled'")
    assert audited == [(kit.now, "ann", "job.cancel", job_id, '{"status": "queued"}', '{"status": "cancelled"}')]
    assert told == [('{"by": "ann"}',)]


def test_those_who_cancel_the_same_jobs_at_once_do_not_stand_in_each_others_way(shared_store: Any) -> None:
    kit = Kit(shared_store)
    ids = [kit.create() for _ in range(30)]

    with ThreadPoolExecutor(4) as threads:
        orders = [ids, ids[::-1], ids[10:] + ids[:10], ids]
        answers = list(threads.map(lambda order: kit.run(control.cancel(order)), orders))

    assert all(answer == dict.fromkeys(ids, Status.CANCELLED) for answer in answers)
    assert query(shared_store, "SELECT count(*) FROM {s}event WHERE kind = 'job.cancelled'") == [(30,)]
    check_soundness(shared_store)
