"""start: claimed attempts begin."""

from __future__ import annotations

import pytest

from penstock.domain.instant import to_datetime
from penstock.domain.job import Held
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump

pytestmark = pytest.mark.usefixtures("sound")


def test_a_claimed_attempt_begins(kit: Kit) -> None:
    job_id = kit.create()
    kit.claim(start=False)
    kit.advance(2)

    assert kit.run(jobs.start([kit.held(job_id, 1)])) == []

    assert kit.job(job_id).started_at == to_datetime(kit.now)
    assert kit.events(job_id) == ["job.enqueued", "job.started"]


def test_an_attempt_begins_only_once(kit: Kit) -> None:
    job_id = kit.create()
    kit.claim(start=False)
    kit.run(jobs.start([kit.held(job_id, 1)]))
    kit.advance(2)
    before = dump(kit.store)

    assert kit.run(jobs.start([kit.held(job_id, 1)])) == []

    assert dump(kit.store) == before


def test_many_begin_in_one_call_and_those_that_lost_their_job_are_given_back(kit: Kit) -> None:
    made = [kit.create() for _ in range(5)]
    held = [kit.held(each) for each in kit.claim(start=False)]
    kit.settle(held[1], Trigger.RELEASE)
    strangers = [kit.held(made[3], 7), Held(kit.new_id(), 1, kit.worker())]

    refused = kit.run(jobs.start([*held[:3], *strangers]))

    assert refused == [held[1], *strangers]
    assert [kit.job(job_id).started_at is not None for job_id in made] == [True, False, True, False, False]


def test_the_same_job_under_an_old_and_its_own_fence(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)
    kit.claim(start=False)

    refused = kit.run(jobs.start([kit.held(claimed, 1), kit.held(claimed, 2)]))

    assert refused == [kit.held(claimed, 1)]


def test_a_job_that_is_to_be_cancelled_may_still_begin(kit: Kit) -> None:
    job_id = kit.create()
    kit.claim(start=False)
    kit.run(control.cancel([job_id]))

    assert kit.run(jobs.start([kit.held(job_id, 1)])) == []

    assert kit.status(job_id) is Status.CANCELLING


def test_nothing_to_start_is_no_work(kit: Kit) -> None:
    assert kit.run(jobs.start([])) == []
