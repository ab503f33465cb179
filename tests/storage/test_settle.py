"""settle: the endings of attempts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain.instant import DAY, SECOND, to_datetime
from penstock.domain.job import Claimed, Held
from penstock.domain.outcome import RETURNED_NOTHING, Failure, Settlement, Usage
from penstock.domain.states import ENDINGS, Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")


def test_a_job_that_returned_has_succeeded(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(5)

    report = kit.settle(claimed, result='{"sum": 3}')

    job = kit.job(claimed.job_id)
    assert (report.applied, report.repeated, report.refused) == ([claimed.job_id], [], [])
    assert job.status is job.outcome is Status.SUCCEEDED
    assert job.result_text == '{"sum": 3}'
    assert (job.finished_at, job.worker_id, job.attempts) == (to_datetime(kit.now), None, 1)
    assert kit.events(claimed.job_id) == ["job.enqueued", "job.started", "job.succeeded"]


def test_an_ended_job_goes_stale_when_its_definition_says(kit: Kit) -> None:
    kit.define(stale_after=2 * DAY)
    claimed = kit.running()

    kit.settle(claimed)

    assert kit.job(claimed.job_id).stale_at == to_datetime(kit.now + 2 * DAY)
    kit.advance(2 * 86_400)
    job = kit.job(claimed.job_id)
    assert (job.status, job.outcome) == (Status.STALE, Status.SUCCEEDED)


def test_a_failed_attempt_waits_for_its_backoff(kit: Kit) -> None:
    claimed = kit.running(max_attempts=3)

    kit.settle(claimed, Trigger.FAIL)

    job = kit.job(claimed.job_id)
    assert (job.status, job.attempts, job.lost) == (Status.SCHEDULED, 1, 0)
    assert job.run_at == to_datetime(kit.now + 10 * SECOND)
    assert (job.error, job.error_type, job.finished_at) == ("broken", "ValueError", None)
    assert kit.events(claimed.job_id)[-1] == "job.retrying"


def test_the_last_attempt_that_fails_fails_the_job(kit: Kit) -> None:
    claimed = kit.running(max_attempts=2)
    kit.settle(claimed, Trigger.FAIL)
    kit.advance(10)
    kit.run(jobs.promote())
    (again,) = kit.claim()

    kit.settle(again, Trigger.FAIL)

    job = kit.job(claimed.job_id)
    assert (job.status, job.attempts, job.error) == (Status.FAILED, 2, "broken")
    assert kit.events(claimed.job_id)[-3:] == ["job.retrying", "job.started", "job.failed"]


def test_a_failure_that_must_not_be_retried_is_final(kit: Kit) -> None:
    claimed = kit.running(max_attempts=3)

    kit.settle(claimed, Trigger.FAIL, retryable=False)

    assert kit.job(claimed.job_id).status is Status.FAILED


def test_a_handler_may_say_how_long_to_wait(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, Trigger.FAIL, delay=77 * SECOND)

    assert kit.job(claimed.job_id).run_at == to_datetime(kit.now + 77 * SECOND)


def test_a_snoozed_job_comes_back_and_gets_its_attempt_back(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, Trigger.SNOOZE, delay=30 * SECOND)

    job = kit.job(claimed.job_id)
    assert (job.status, job.attempts, job.fence) == (Status.SCHEDULED, 0, 1)
    assert job.run_at == to_datetime(kit.now + 30 * SECOND)
    assert kit.events(claimed.job_id)[-1] == "job.snoozed"


def test_a_released_job_is_queued_again_at_its_old_place_and_gets_its_attempt_back(kit: Kit) -> None:
    claimed = kit.running()
    due = kit.now
    kit.advance(3)
    behind = kit.create()

    kit.settle(claimed, Trigger.RELEASE)

    job = kit.job(claimed.job_id)
    assert (job.status, job.attempts, job.worker_id) == (Status.QUEUED, 0, None)
    assert (job.queued_at, job.run_at) == (to_datetime(kit.now), to_datetime(due))
    assert kit.events(claimed.job_id)[-1] == "job.released"
    assert [each.job_id for each in kit.claim()] == [claimed.job_id, behind]


def test_losses_are_counted_apart_and_the_third_in_a_row_is_final(kit: Kit) -> None:
    claimed = kit.running(max_attempts=1)
    standings = []
    for _ in range(3):
        kit.settle(claimed, Trigger.LOSE)
        job = kit.job(claimed.job_id)
        standings.append((job.status, job.attempts, job.lost))
        kit.advance(60)
        kit.run(jobs.promote())
        claimed = next(iter(kit.claim()), claimed)

    assert standings == [(Status.SCHEDULED, 0, 1), (Status.SCHEDULED, 0, 2), (Status.FAILED, 1, 3)]
    assert kit.events(claimed.job_id).count("job.lost") == 2
    assert kit.events(claimed.job_id)[-1] == "job.failed"


def lost_twice(kit: Kit, **options: Any) -> Claimed:
    """An attempt at a job that was lost two times before."""
    claimed = kit.running(**options)
    for _ in range(2):
        kit.settle(claimed, Trigger.LOSE)
        kit.advance(60)
        kit.run(jobs.promote())
        (claimed,) = kit.claim()
    assert claimed.lost == 2
    return claimed


@pytest.mark.parametrize(
    ("trigger", "facts"),
    [
        (Trigger.SUCCEED, {}),
        (Trigger.SUCCEED, {"result": "1"}),
        (Trigger.SNOOZE, {"delay": SECOND}),
        (Trigger.FAIL, {}),
        (Trigger.FAIL, {"retryable": False}),
        (Trigger.ASK_REVIEW, {"note": "look"}),
    ],
    ids=["returned nothing", "returned", "snoozed", "retried", "failed", "review"],
)
def test_an_attempt_that_ends_without_a_crash_clears_the_losses(
    kit: Kit, trigger: Trigger, facts: dict[str, Any]
) -> None:
    claimed = lost_twice(kit)

    kit.settle(claimed, trigger, **facts)

    assert kit.job(claimed.job_id).lost == 0


def test_many_successes_in_one_statement_clear_the_losses(kit: Kit) -> None:
    claimed = lost_twice(kit)
    worker = kit.held(claimed).worker
    lone = Settlement(claimed.job_id, claimed.fence, RETURNED_NOTHING, Status.SUCCEEDED, lane=claimed.lane, lone=True)

    kit.run(jobs.settle(worker, [lone]))

    assert kit.job(claimed.job_id).lost == 0


def test_a_released_job_keeps_its_losses(kit: Kit) -> None:
    claimed = lost_twice(kit)

    kit.settle(claimed, Trigger.RELEASE)
    (again,) = kit.claim()
    kit.run(jobs.release_unheld(str(kit.job(again.job_id).worker_id), []))

    assert kit.job(claimed.job_id).lost == 2


def test_a_job_that_snoozes_between_its_losses_never_fails_by_them(kit: Kit) -> None:
    claimed = kit.running()
    for _ in range(4):
        kit.settle(claimed, Trigger.LOSE)
        kit.advance(60)
        kit.run(jobs.promote())
        (claimed,) = kit.claim()
        kit.settle(claimed, Trigger.SNOOZE, delay=SECOND)
        kit.advance(1)
        kit.run(jobs.promote())
        (claimed,) = kit.claim()

    assert (kit.status(claimed.job_id), claimed.lost) == (Status.RUNNING, 0)


def test_the_first_loss_delays_a_job_by_a_second_at_most(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, Trigger.LOSE)

    assert kit.job(claimed.job_id).run_at <= to_datetime(kit.now + SECOND)


def test_a_job_that_asks_for_review_waits_and_holds_nothing(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, Trigger.ASK_REVIEW, note="Is it right?", data='{"n": 1}', result='"draft"')

    job = kit.job(claimed.job_id)
    (review,) = kit.run(admin.reviews(claimed.job_id))
    assert (job.status, job.worker_id, job.finished_at, job.result_text) == (Status.REVIEW_NEEDED, None, None, None)
    assert (review.note, review.data_text, review.result_text, review.decision) == (
        "Is it right?",
        '{"n": 1}',
        '"draft"',
        None,
    )
    assert kit.events(claimed.job_id)[-1] == "job.review_needed"


@pytest.mark.parametrize("trigger", sorted(ENDINGS))
def test_a_cancelling_job_is_cancelled_however_its_attempt_ended(kit: Kit, trigger: Trigger) -> None:
    claimed = kit.running()
    kit.run(control.cancel([claimed.job_id]))

    report = kit.settle(claimed, trigger, result='"kept"')

    job = kit.job(claimed.job_id)
    (attempt,) = kit.run(admin.attempts(claimed.job_id))
    assert report.applied == [claimed.job_id]
    assert (job.status, job.result_text, job.worker_id) == (Status.CANCELLED, None, None)
    assert job.finished_at == to_datetime(kit.now)
    assert (attempt.status, attempt.result_text) == (Status.CANCELLED, '"kept"')
    assert kit.events(claimed.job_id)[-2:] == ["job.cancelling", "job.cancelled"]
    assert kit.run(admin.reviews(claimed.job_id)) == []


# What stays of an attempt


@pytest.mark.parametrize("trigger", sorted(ENDINGS))
def test_every_ending_leaves_one_attempt_on_record(kit: Kit, trigger: Trigger) -> None:
    kit.define()
    worker = kit.worker()
    kit.create()
    (claimed,) = kit.claim(worker)
    started = kit.now
    kit.advance(4)

    kit.run(jobs.settle(worker, [kit.ending(claimed, trigger)]))

    (attempt,) = kit.run(admin.attempts(claimed.job_id))
    assert (attempt.fence, attempt.number, attempt.worker_id) == (1, 1, worker)
    assert (attempt.started_at, attempt.finished_at) == (to_datetime(started), to_datetime(kit.now))
    assert attempt.status is kit.status(claimed.job_id)


def test_an_attempt_keeps_its_error_and_what_it_used_up(kit: Kit) -> None:
    claimed = kit.running()
    failure = Failure("ZeroDivisionError", "by\nzero", 'File "x.py"\n  1/0', "f1")
    usage = Usage(exit_code=3, signal=9, peak_memory=2**40, cpu_seconds=1.5)

    kit.settle(claimed, Trigger.FAIL, failure=failure, usage=usage)

    (attempt,) = kit.run(admin.attempts(claimed.job_id))
    assert (attempt.error_type, attempt.error) == (failure.type, failure.message)
    assert (attempt.traceback, attempt.fingerprint) == (failure.traceback, failure.fingerprint)
    assert (attempt.exit_code, attempt.signal) == (3, 9)
    assert (attempt.peak_memory, attempt.cpu_seconds) == (2**40, 1.5)


def test_the_event_of_a_failure_tells_what_and_how_long(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle(claimed, Trigger.FAIL)

    event = kit.run(feed.of_job(claimed.job_id))[-1]
    assert (event.type, event.fence) == ("job.retrying", 1)
    assert json.loads(event.data_text or "") == {"error": "broken", "errorType": "ValueError", "delaySeconds": 10.0}


# Settling again, settling late


@pytest.mark.parametrize("trigger", sorted(ENDINGS))
def test_settling_an_attempt_that_is_on_record_is_success_and_changes_nothing(kit: Kit, trigger: Trigger) -> None:
    claimed = kit.running()
    kit.settle(claimed, trigger)
    before = dump(kit.store)

    report = kit.settle(claimed, trigger)

    assert (report.applied, report.repeated, report.refused) == ([], [claimed.job_id], [])
    assert dump(kit.store) == before


def test_an_ending_that_came_too_late_is_refused_and_writes_nothing(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(60)
    kit.run(jobs.reclaim(0, 0.5))
    kit.advance(60)
    kit.run(jobs.promote())
    (other,) = kit.claim()
    before = dump(kit.store)

    never = kit.held(claimed, 2 + other.fence)

    report = kit.settle(never)

    assert report.refused == [never]
    assert dump(kit.store) == before


def test_an_attempt_that_was_counted_as_lost_cannot_succeed_any_more(kit: Kit) -> None:
    """It is on record, as lost: that ending stands, and whoever hands in another one need not try again."""
    claimed = kit.running()
    kit.advance(60)
    kit.run(jobs.reclaim(0, 0.5))
    before = dump(kit.store)

    report = kit.settle(claimed, Trigger.SUCCEED, result="1")

    assert report.applied == []
    assert dump(kit.store) == before
    assert kit.status(claimed.job_id) is Status.SCHEDULED


def test_a_job_that_is_gone_is_refused(kit: Kit) -> None:
    kit.define()
    stranger = Held(kit.new_id(), 1, kit.worker())

    assert kit.settle(stranger).refused == [stranger]


def test_no_settlements_are_no_work(kit: Kit) -> None:
    report = kit.run(jobs.settle(kit.worker(), []))

    assert (report.applied, report.repeated, report.refused) == ([], [], [])


# Many in one call


def test_many_endings_of_all_kinds_in_one_call(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    triggers = [*sorted(ENDINGS), Trigger.SUCCEED]
    kit.run(jobs.create([kit.draft(concurrency_key=f"k{n}") for n, _ in enumerate(triggers)]))
    claimed = kit.claim(limit=len(triggers))
    kit.settle(claimed[2], triggers[2])
    kit.run(control.cancel([claimed[0].job_id]))
    stranger = Held(kit.new_id(), 1, kit.held(claimed[0]).worker)
    endings = [kit.ending(each, trigger) for each, trigger in zip(claimed, triggers, strict=True)]

    report = kit.run(jobs.settle(stranger.worker, [*endings, kit.ending(stranger)]))

    ids = [each.job_id for each in claimed]
    assert report.applied == [*ids[:2], *ids[3:]]
    assert (report.repeated, report.refused) == ([ids[2]], [stranger])
    expected = [each.status for each in endings]
    expected[0] = Status.CANCELLED
    assert [kit.status(job_id) for job_id in ids] == expected


def test_an_old_and_the_present_attempt_of_one_job_in_one_call(kit: Kit) -> None:
    worker = kit.worker()
    claimed = kit.running(worker=worker)
    kit.settle(claimed, Trigger.RELEASE)
    (again,) = kit.claim(worker)
    never = Held(claimed.job_id, 0, worker)

    report = kit.run(
        jobs.settle(worker, [kit.ending(claimed, Trigger.RELEASE), kit.ending(again), kit.ending(never, Trigger.LOSE)])
    )

    assert report.applied == [again.job_id]
    assert report.repeated == [claimed.job_id]
    assert report.refused == [never]
    job = kit.job(claimed.job_id)
    assert (job.status, job.attempts, job.lost) == (Status.SUCCEEDED, 1, 0)


def test_the_same_ending_twice_in_one_call_is_applied_once(kit: Kit) -> None:
    claimed = kit.running()

    kit.settle_all([kit.ending(claimed), kit.ending(claimed)])

    assert kit.status(claimed.job_id) is Status.SUCCEEDED
    assert kit.events(claimed.job_id).count("job.succeeded") == 1


def test_successes_after_different_numbers_of_attempts_in_one_call(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(6)]))
    worker = kit.worker()
    first = kit.claim(worker, limit=6)
    for each in first[3:]:
        kit.settle(each, Trigger.RELEASE)
    second = kit.claim(worker, limit=3)
    kit.settle(second[2], Trigger.RELEASE)
    (third,) = kit.claim(worker)
    kit.settle(first[0])
    # One is on record already, one belongs to a later attempt by now.
    endings = [*first[:3], *second, third]

    report = kit.settle_all([kit.ending(each, result=str(n)) for n, each in enumerate(endings)])

    assert report.applied == [each.job_id for each in (*first[1:3], *second[:2], third)]
    assert (report.repeated, report.refused) == ([first[0].job_id], [kit.held(second[2])])
    kept = "SELECT fence, result FROM {s}attempt WHERE cause = 'returned' AND result <> 'null' ORDER BY fence, result"
    assert query(kit.store, kept) == [(1, "1"), (1, "2"), (2, "3"), (2, "4"), (3, "6")]


def test_a_thousand_endings_in_one_call(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(1000)]))
    claimed = kit.claim(limit=1000)

    report = kit.settle_all([kit.ending(each, result=str(n)) for n, each in enumerate(claimed)])

    assert report.applied == [each.job_id for each in claimed]
    assert query(kit.store, "SELECT count(*) FROM {s}job WHERE status = {succeeded}") == [(1000,)]
    assert query(kit.store, "SELECT count(DISTINCT result) FROM {s}attempt") == [(1000,)]


# A loss leaves progress and phases for the next attempt


def test_progress_and_finished_phases_survive_a_retry(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="[1]"))
    kit.run(jobs.save_progress([(held, 50.0, "half", "load")]))

    kit.settle(claimed, Trigger.FAIL)

    job = kit.job(claimed.job_id)
    assert (job.progress, job.current_phase) == (50.0, "load")
    assert [(each.name, each.result_text) for each in kit.run(jobs.phases(claimed.job_id))] == [("load", "[1]")]


def test_an_ending_that_comes_after_the_attempt_was_given_up_as_lost_is_refused(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(60)
    assert kit.run(jobs.reclaim(1_000_000, 0.5)).lost == [claimed.job_id]

    report = kit.settle(claimed, result='"too late"')

    assert report.refused == [kit.held(claimed)]
    assert kit.job(claimed.job_id).status is Status.SCHEDULED
