"""save_progress: how far attempts have come."""

from __future__ import annotations

import json

import pytest

from penstock.domain.job import Held
from penstock.domain.states import Trigger
from penstock.storage.commands import control, feed, jobs
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


def test_progress_is_kept_with_its_message_and_phase(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed)

    assert kit.run(jobs.save_progress([(held, 41.5, 'the "half"', "load")])) == []

    job = kit.job(held.job_id)
    assert (job.progress, job.progress_message, job.current_phase) == (41.5, 'the "half"', "load")
    event = kit.run(feed.of_job(held.job_id))[-1]
    assert (event.type, event.fence) == ("job.progress", 1)
    assert json.loads(event.data_text or "") == {"percent": 41.5, "message": 'the "half"', "phase": "load"}


def test_a_job_that_has_reported_nothing_has_no_progress(kit: Kit) -> None:
    claimed = kit.running()

    assert kit.job(claimed.job_id).progress is None


@pytest.mark.parametrize(("given", "kept"), [(-5, 0), (0, 0), (100, 100), (250.5, 100), (float("nan"), 0)])
def test_progress_is_clamped(kit: Kit, given: float, kept: float) -> None:
    claimed = kit.running()

    kit.run(jobs.save_progress([(kit.held(claimed, 1), given, None, None)]))

    assert kit.job(claimed.job_id).progress == kept


def test_a_report_without_a_message_keeps_the_last_one(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed, 1)
    kit.run(jobs.save_progress([(held, 10, "begun", "load")]))

    kit.run(jobs.save_progress([(held, 20, None, None)]))

    job = kit.job(held.job_id)
    assert (job.progress, job.progress_message, job.current_phase) == (20, "begun", "load")


def test_the_message_of_an_earlier_attempt_is_not_kept(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(jobs.save_progress([(kit.held(claimed, 1), 10, "begun", "load")]))
    kit.settle(claimed, Trigger.RELEASE)
    (again,) = kit.claim()

    kit.run(jobs.save_progress([(kit.held(again), 5, None, None)]))

    job = kit.job(again.job_id)
    assert (job.progress, job.progress_message, job.current_phase) == (5, None, None)


def test_many_report_in_one_call_and_those_that_lost_their_job_are_given_back(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(3)]))
    held = [kit.held(each) for each in kit.claim()]
    kit.settle(held[1])
    stranger = Held(kit.new_id(), 1, kit.worker())

    refused = kit.run(jobs.save_progress([(each, 50, None, None) for each in [*held, stranger]]))

    assert refused == [held[1], stranger]
    assert [kit.job(each.job_id).progress for each in held] == [50, 100, 50]


def test_of_two_reports_of_one_attempt_in_one_call_the_later_holds(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed, 1)

    assert kit.run(jobs.save_progress([(held, 10, "first", None), (held, 20, "second", None)])) == []

    job = kit.job(held.job_id)
    assert (job.progress, job.progress_message) == (20, "second")


def test_an_old_and_the_present_attempt_of_one_job_in_one_call(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)
    kit.claim()
    old, present = kit.held(claimed, 1), kit.held(claimed, 2)

    refused = kit.run(jobs.save_progress([(old, 10, "old", None), (present, 20, "present", None)]))

    job = kit.job(claimed.job_id)
    assert refused == [old]
    assert (job.progress, job.progress_message) == (20, "present")


def test_a_cancelling_job_may_still_report(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(control.cancel([claimed.job_id]))

    assert kit.run(jobs.save_progress([(kit.held(claimed, 1), 50, None, None)])) == []


def test_no_reports_are_no_work(kit: Kit) -> None:
    assert kit.run(jobs.save_progress([])) == []
