"""What events say of the attempt, the file and the schedule that they come from."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.domain.event import Event
from penstock.domain.instant import DAY
from penstock.domain.outcome import Failure
from penstock.domain.schedule.schedule import Kind, Schedule
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs, schedules
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


def told(kit: Kit, job_id: str) -> list[tuple[str, int | None, float | None]]:
    """Kind, attempt and duration of the events of a job; the feed and the job's own list say the same."""
    mine = kit.run(feed.of_job(job_id, limit=1000))
    news = kit.run(feed.read(kit.run(feed.origin()), 5000))
    assert [each for each in news.events if each.job_id == job_id] == mine
    return [(each.type, each.attempt, each.duration) for each in mine]


def last(kit: Kit, job_id: str) -> Event:
    return kit.run(feed.of_job(job_id, limit=1000))[-1]


def again(kit: Kit) -> Any:
    kit.advance(60)
    kit.run(jobs.promote())
    (claimed,) = kit.claim()
    return claimed


def test_events_name_the_attempt_and_endings_how_long_it_took(kit: Kit) -> None:
    claimed = kit.running(max_attempts=2)
    kit.run(jobs.emit(kit.held(claimed), "mail.sent", None))
    kit.advance(3)
    kit.settle(claimed, Trigger.FAIL)
    second = again(kit)
    kit.advance(1.5)
    kit.settle(second, result="1")

    assert told(kit, claimed.job_id) == [
        ("job.enqueued", None, None),
        ("job.started", 1, None),
        ("mail.sent", 1, None),
        ("job.retrying", 1, 3.0),
        ("job.started", 2, None),
        ("job.succeeded", 2, 1.5),
    ]


def test_an_attempt_that_is_given_back_keeps_its_number(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(2)
    kit.settle(claimed, Trigger.SNOOZE)
    second = again(kit)
    kit.settle(second, Trigger.RELEASE)

    assert told(kit, claimed.job_id)[1:] == [
        ("job.started", 1, None),
        ("job.snoozed", 1, 2.0),
        ("job.started", 1, None),
        ("job.released", 1, 0.0),
    ]


@pytest.mark.parametrize("together", [1, 3])
def test_an_attempt_without_a_row_is_named_too(kit: Kit, together: int) -> None:
    ids = [kit.create() for _ in range(together)]
    claimed = kit.claim(limit=together)
    kit.advance(4)
    kit.settle_all([kit.ending(each) for each in claimed])

    for job_id in ids:
        assert told(kit, job_id)[-2:] == [("job.started", 1, None), ("job.succeeded", 1, 4.0)]


def test_after_a_retry_by_hand_attempts_are_counted_from_one(kit: Kit) -> None:
    claimed = kit.running(max_attempts=1)
    kit.advance(1)
    kit.settle(claimed, Trigger.FAIL)
    kit.run(control.retry([claimed.job_id]))
    (second,) = kit.claim()
    kit.advance(2)
    kit.settle(second)

    assert [each[1:] for each in told(kit, claimed.job_id) if each[0] in ("job.started", "job.failed")] == [
        (1, None), (1, 1.0), (1, None),
    ]  # fmt: skip
    assert told(kit, claimed.job_id)[-1] == ("job.succeeded", 1, 2.0)


def test_an_ending_by_hand_tells_how_long_the_last_attempt_took(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(5)
    kit.settle(claimed, Trigger.ASK_REVIEW)
    kit.advance(600)
    kit.run(control.approve(claimed.job_id, by="ada", finished=True))

    assert told(kit, claimed.job_id)[-3:] == [
        ("job.review_needed", 1, 5.0),
        ("job.approved", 1, None),
        ("job.succeeded", 1, 5.0),
    ]
    waiting = kit.create()
    kit.run(control.cancel([waiting]))
    assert told(kit, waiting)[-1] == ("job.cancelled", None, None)


def test_what_is_no_longer_kept_is_not_named(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed)
    kit.run(control.delete([claimed.job_id]))

    assert {each[1:] for each in told(kit, claimed.job_id)} == {(None, None)}


def test_events_name_the_file_and_the_schedule_of_a_job(kit: Kit) -> None:
    kit.define("reports.daily", source="jobs/reports/daily.py")
    kit.run(schedules.save(Schedule("daily", "reports.daily", Kind.CRON, "0 3 * * *"), by="code"))
    job_id, plain = kit.create("reports.daily", schedule="daily", scheduled_for=kit.now), kit.create()

    event = last(kit, job_id)

    assert (event.source, event.schedule_id, event.schedule_expression) == (
        "jobs/reports/daily.py",
        "daily",
        "0 3 * * *",
    )
    assert (last(kit, plain).source, last(kit, plain).schedule_id, last(kit, plain).schedule_expression) == (
        None,
        None,
        None,
    )
    kit.run(schedules.remove("daily", by="code"))
    assert (last(kit, job_id).schedule_id, last(kit, job_id).schedule_expression) == ("daily", None)
    kit.define("reports.daily", source="jobs/daily.py")
    assert last(kit, job_id).source == "jobs/daily.py"


def test_the_archive_has_the_same_events(kit: Kit) -> None:
    kit.define(stale_after=DAY, delete_after=DAY, source="jobs/work.py")
    claimed = kit.running()
    kit.advance(2)
    kit.settle(claimed, Trigger.FAIL, failure=Failure("ValueError", "no"), retryable=False)
    assert kit.status(claimed.job_id) is Status.FAILED
    for _ in range(2):
        kit.advance(2 * 86_400)
        kit.run(admin.retire(delete=False))

    (remains,) = kit.run(admin.take_for_archive())

    assert list(remains.events) == kit.run(feed.of_job(claimed.job_id, limit=100))
    assert ("job.failed", 1, 2.0) in [(each.type, each.attempt, each.duration) for each in remains.events]
