"""select: the jobs that a filter speaks of."""

from __future__ import annotations

import pytest

from penstock.domain.job_list import JobFilter
from penstock.domain.outcome import Failure
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control
from tests.storage.kit import Kit


def test_without_conditions_every_job_is_meant_in_order_of_id(kit: Kit) -> None:
    ids = [kit.create() for _ in range(3)]

    assert _select(kit) == ids == sorted(ids)


def test_the_next_batch_begins_after_the_last_id(kit: Kit) -> None:
    ids = [kit.create() for _ in range(5)]

    assert kit.run(control.select(JobFilter(), 2)) == ids[:2]
    assert kit.run(control.select(JobFilter(), 2, after=ids[1])) == ids[2:4]
    assert kit.run(control.select(JobFilter(), 2, after=ids[4])) == []


@pytest.mark.parametrize("status", list(Status))
def test_a_job_is_found_by_the_status_that_it_reads_as(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)

    found = [each for each in Status if job_id in _select(kit, status=(each,))]

    assert found == [status]


def test_several_statuses_may_be_asked_for(kit: Kit) -> None:
    old_failed = kit.job_in(Status.FAILED)
    kit.advance(8 * 86_400)
    running, queued, failed = kit.job_in(Status.RUNNING), kit.job_in(Status.QUEUED), kit.job_in(Status.FAILED, "other")

    assert _select(kit, status=(Status.QUEUED, Status.RUNNING)) == [running, queued]
    assert _select(kit, status=(Status.FAILED, Status.STALE)) == [old_failed, failed]
    assert _select(kit, status=(Status.STALE, Status.QUEUED)) == [old_failed, queued]


def test_jobs_are_found_by_their_ids(kit: Kit) -> None:
    first, _, third = (kit.create() for _ in range(3))

    assert _select(kit, job_id=(third, first, kit.new_id())) == [first, third]
    assert _select(kit, job_id=()) == []


def test_jobs_are_found_by_their_definition_whatever_its_version(kit: Kit) -> None:
    kit.define("report", version=1)
    old = kit.create("report")
    kit.define("report", version=2)
    new = kit.create("report")
    kit.create("work")

    assert _select(kit, definition_key="report") == [old, new]
    assert _select(kit, definition_key="unknown") == []


def test_jobs_are_found_by_what_they_refer_to(kit: Kit) -> None:
    order = kit.create(reference_type="order", reference_id="7")
    other = kit.create(reference_type="order", reference_id="8")
    kit.create(reference_type="user", reference_id="7")

    assert _select(kit, reference_type="order") == [order, other]
    assert _select(kit, reference_type="order", reference_id="7") == [order]


def test_jobs_are_found_by_tag_schedule_and_parent(kit: Kit) -> None:
    parent = kit.create(tags=("red",))
    child = kit.create(tags=("red", "blue"), parent=parent, schedule="nightly")

    assert _select(kit, tag="red") == [parent, child]
    assert _select(kit, tag="blue") == [child]
    assert _select(kit, parent_id=parent) == [child]
    assert _select(kit, schedule_id="nightly") == [child]


def test_jobs_are_found_by_when_they_were_created(kit: Kit) -> None:
    kit.create()
    kit.advance(1)
    wanted, begin = kit.create(), kit.now
    kit.advance(1)
    kit.create()

    assert _select(kit, created_from=begin, created_to=kit.now) == [wanted]


def test_jobs_are_found_by_how_an_attempt_failed(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, failure=Failure("KeyError", "'x'", fingerprint="f1"))
    kit.job_in(Status.FAILED)

    assert _select(kit, fingerprint="f1") == [claimed.job_id]


def test_conditions_are_all_to_be_met(kit: Kit) -> None:
    wanted = kit.job_in(Status.FAILED, tags=("red",))
    kit.job_in(Status.FAILED)
    kit.job_in(Status.CANCELLED, tags=("red",))

    assert _select(kit, status=(Status.FAILED,), tag="red", definition_key="work") == [wanted]


def _select(kit: Kit, **conditions: object) -> list[str]:
    return kit.run(control.select(JobFilter(**conditions), 100))  # type: ignore[arg-type]
