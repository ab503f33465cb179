"""promote: scheduled jobs whose time has come stand in the queue."""

from __future__ import annotations

import pytest

from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump

pytestmark = pytest.mark.usefixtures("sound")


def test_a_job_is_queued_when_it_is_due_and_not_before(kit: Kit) -> None:
    job_id = kit.create(delay=10 * SECOND)

    kit.advance(9.999999)
    assert kit.run(jobs.promote()) == []
    kit.advance(0.000001)
    assert kit.run(jobs.promote()) == [job_id]

    job = kit.job(job_id)
    assert job.status is Status.QUEUED
    assert job.queued_at == job.run_at == to_datetime(kit.now)


def test_the_earliest_are_promoted_first_and_never_more_than_asked_for(kit: Kit) -> None:
    late, early, middle = (kit.create(delay=seconds * SECOND) for seconds in (30, 10, 20))
    kit.advance(60)

    first = kit.run(jobs.promote(2))
    assert sorted(first) == sorted([early, middle])
    assert kit.run(jobs.promote(2)) == [late]
    assert kit.run(jobs.promote(2)) == []


def test_promoting_again_changes_nothing(kit: Kit) -> None:
    kit.create(delay=SECOND)
    kit.advance(1)
    kit.run(jobs.promote())
    before = dump(kit.store)

    assert kit.run(jobs.promote()) == []

    assert dump(kit.store) == before


def test_only_scheduled_jobs_are_promoted(kit: Kit) -> None:
    waits = [Status.QUEUED, Status.REVIEW_NEEDED, Status.RUNNING, Status.CANCELLING]
    made = {kit.job_in(status, definition=status.value): status for status in waits}
    made |= {kit.job_in(status): status for status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)}

    assert kit.run(jobs.promote()) == []

    assert {job_id: kit.status(job_id) for job_id in made} == made


def test_a_job_that_was_due_earlier_is_claimed_earlier_however_late_it_was_promoted(kit: Kit) -> None:
    kit.define()
    second = kit.create(delay=20 * SECOND)
    first = kit.create(delay=10 * SECOND)
    kit.advance(60)
    third = kit.create()
    kit.run(jobs.promote())

    assert [claimed.job_id for claimed in kit.claim()] == [first, second, third]


def test_a_failed_attempt_waits_for_its_backoff_and_is_promoted(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, delay=10 * SECOND)

    kit.advance(10)

    assert kit.run(jobs.promote()) == [claimed.job_id]


def test_a_promoted_job_with_a_full_concurrency_key_is_blocked(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    running = kit.running(concurrency_key="k")
    waiting = kit.create(concurrency_key="k", delay=SECOND)
    kit.advance(1)

    kit.run(jobs.promote())
    assert kit.job(waiting).blocked
    kit.settle(running)

    assert not kit.job(waiting).blocked


def test_the_next_due_job_is_the_earliest_scheduled_one(kit: Kit) -> None:
    assert kit.run(jobs.next_due()) is None
    kit.create()
    assert kit.run(jobs.next_due()) is None

    kit.create(delay=30 * SECOND)
    early = kit.create(delay=10 * SECOND)
    assert kit.run(jobs.next_due()) == 10 * SECOND

    kit.run(control.cancel([early]))
    assert kit.run(jobs.next_due()) == 30 * SECOND
