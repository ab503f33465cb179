"""reprioritise: another priority for jobs that wait."""

from __future__ import annotations

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.job_list import JobFilter
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query


def test_a_job_with_a_higher_priority_goes_first(kit: Kit) -> None:
    first, second, third = (kit.create() for _ in range(3))

    assert kit.run(control.reprioritise([third], 20)) == [third]

    assert kit.job(third).priority == 20
    assert [each.job_id for each in kit.claim()] == [third, first, second]


def test_jobs_keep_their_place_in_time(kit: Kit) -> None:
    first = kit.create(priority=3)
    kit.advance(1)
    second = kit.create(priority=7)
    kit.advance(1)

    assert kit.run(control.reprioritise([second, first], 5)) == [second, first]

    assert [each.job_id for each in kit.claim()] == [first, second]


def test_a_scheduled_job_has_its_new_priority_when_it_is_due(kit: Kit) -> None:
    scheduled = kit.create(delay=10_000_000)
    kit.run(control.reprioritise([scheduled], 11))
    kit.advance(20)
    queued = kit.create()

    kit.run(jobs.promote())

    assert [each.job_id for each in kit.claim()] == [scheduled, queued]


@pytest.mark.parametrize("which", [JobFilter(tag="blue"), JobFilter(schedule_id="hourly")])
def test_lists_by_priority_follow(kit: Kit, which: JobFilter) -> None:
    first, second, third = (kit.create(tags=("red", "blue"), schedule="hourly", scheduled_for=n) for n in range(3))

    kit.run(control.reprioritise([first], 11))
    kit.run(control.reprioritise([second], 2))

    assert [each.id for each in kit.run(admin.page(which, sort="-priority")).jobs] == [first, third, second]
    assert [each.id for each in kit.run(admin.page(which, sort="priority")).jobs] == [second, third, first]
    check_soundness(kit.store)


@pytest.mark.parametrize("status", [each for each in Status if each not in (Status.SCHEDULED, Status.QUEUED)])
def test_a_job_that_does_not_wait_is_left_alone(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id)

    assert kit.run(control.reprioritise([job_id, kit.new_id()], 1)) == []

    assert kit.job(job_id) == before


@pytest.mark.parametrize("priority", [-1, 21, True])
def test_a_priority_is_a_number_from_0_to_20(kit: Kit, priority: int) -> None:
    job_id = kit.create()

    with pytest.raises(InvalidInput, match="0 to 20"):
        kit.run(control.reprioritise([job_id], priority))

    assert kit.job(job_id).priority == 10


def test_the_change_is_told_and_written_down(kit: Kit) -> None:
    job_id = kit.create()

    kit.run(control.reprioritise([job_id], 4, by="ann"))

    assert kit.events(job_id) == ["job.enqueued", "job.rescheduled"]
    assert query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit") == [
        ("ann", "job.reprioritise", job_id, '{"priority": 10}', '{"priority": 4}')
    ]
    check_soundness(kit.store)
