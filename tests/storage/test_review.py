"""approve and reject: what a person says to a job that asks."""

from __future__ import annotations

import pytest

from penstock.domain.errors import Conflict, NotFound
from penstock.domain.instant import DAY, to_datetime
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query

_REVIEW = "SELECT decision, decided_by, decided_note, decided_at, result FROM {s}review"


def test_an_approved_job_without_phases_left_has_succeeded_with_what_the_handler_gave(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.advance(60)

    assert kit.run(control.approve(job_id, by="ann", note="fine", finished=True)) is Status.SUCCEEDED

    job = kit.job(job_id)
    assert (job.status, job.result_text) == (Status.SUCCEEDED, '"draft"')
    assert (job.finished_at, job.stale_at) == (to_datetime(kit.now), to_datetime(kit.now + 7 * DAY))
    assert kit.events(job_id)[-2:] == ["job.approved", "job.succeeded"]
    assert query(kit.store, _REVIEW) == [("approved", "ann", "fine", kit.now, '"draft"')]
    check_soundness(kit.store)


def test_the_approver_may_replace_the_result(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)

    kit.run(control.approve(job_id, by="ann", result='"better"', finished=True))

    assert kit.job(job_id).result_text == '"better"'
    assert query(kit.store, "SELECT result FROM {s}attempt") == [('"draft"',)]


def test_an_approved_job_with_phases_left_goes_on(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.advance(60)

    assert kit.run(control.approve(job_id, by="ann", finished=False)) is Status.QUEUED

    job = kit.job(job_id)
    assert (job.status, job.attempts, job.generation, job.finished_at) == (Status.QUEUED, 1, 1, None)
    assert job.run_at == job.queued_at == to_datetime(kit.now)
    assert kit.events(job_id)[-1] == "job.approved"
    (again,) = kit.claim()
    assert (again.job_id, again.fence) == (job_id, 2)
    check_soundness(kit.store)


def test_an_approved_job_waits_for_a_slot_of_its_concurrency_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    claimed = kit.running(concurrency_key="k")
    kit.settle(claimed, Trigger.ASK_REVIEW)
    other = kit.create(concurrency_key="k")

    kit.run(control.approve(claimed.job_id, by="ann", finished=False))

    assert (kit.job(claimed.job_id).blocked, kit.job(other).blocked) == (True, False)
    check_soundness(kit.store)


def test_a_rejected_job_has_failed_with_the_note_as_its_error(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)

    assert kit.run(control.reject(job_id, by="ann", note="not like this")) is Status.FAILED

    job = kit.job(job_id)
    assert (job.status, job.error, job.error_type, job.result_text) == (
        Status.FAILED,
        "not like this",
        "Rejected",
        None,
    )
    assert kit.events(job_id)[-2:] == ["job.rejected", "job.failed"]
    assert query(kit.store, _REVIEW)[0][:3] == ("rejected", "ann", "not like this")
    check_soundness(kit.store)


def test_the_events_carry_who_and_the_note(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)

    kit.run(control.reject(job_id, by="ann", note="no"))

    assert query(kit.store, "SELECT data FROM {s}event ORDER BY seq DESC LIMIT 2") == [
        ('{"note": "no", "by": "ann"}',), ('{"note": "no", "by": "ann"}',),
    ]  # fmt: skip
    assert query(kit.store, "SELECT actor, action, before, after FROM {s}audit") == [
        ("ann", "job.reject", '{"status": "review_needed"}', '{"status": "failed"}')
    ]


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.REVIEW_NEEDED])
def test_a_job_that_does_not_ask_cannot_be_decided(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id), kit.events(job_id)

    with pytest.raises(Conflict, match=f"{job_id} is {status} and cannot be approved"):
        kit.run(control.approve(job_id, by="ann", finished=True))
    with pytest.raises(Conflict, match=f"{job_id} is {status} and cannot be rejected"):
        kit.run(control.reject(job_id, by="ann"))

    assert (kit.job(job_id), kit.events(job_id)) == before


def test_a_job_that_is_not_there_cannot_be_decided(kit: Kit) -> None:
    with pytest.raises(NotFound):
        kit.run(control.approve(kit.new_id(), by="ann", finished=True))
    with pytest.raises(NotFound):
        kit.run(control.reject(kit.new_id(), by="ann"))


def test_each_attempt_that_asks_is_decided_for_itself(kit: Kit) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.approve(job_id, by="ann", finished=False))
    (again,) = kit.claim()
    kit.settle(again, Trigger.ASK_REVIEW)

    kit.run(control.reject(job_id, by="bob"))

    assert query(kit.store, "SELECT fence, decision, decided_by FROM {s}review ORDER BY fence") == [
        (1, "approved", "ann"), (2, "rejected", "bob"),
    ]  # fmt: skip
