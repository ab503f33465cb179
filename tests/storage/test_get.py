"""get: jobs by id."""

from __future__ import annotations

import pytest

from penstock.domain.instant import DAY, to_datetime
from penstock.domain.job import Job
from penstock.domain.outcome import Failure
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import START, Kit


def test_a_new_job_reads_as_it_was_asked_for(kit: Kit) -> None:
    kit.define("work", version=2, key_concurrency=1)
    parent, origin = kit.create("parent"), kit.create("origin")
    draft = kit.draft(
        params='{"text": "ä\\"b", "n": 12345678901234567890}', priority=3, max_attempts=5, delay=5_000_000,
        idempotency_key="key", unique="one", concurrency_key="a|b", reference_type="order", reference_id="7",
        tags=("red", "blue"), webhook_url="https://example.org/hook", parent=parent, rerun_of=origin,
        schedule="nightly", scheduled_for=START, traceparent="00-1-2-03", actor="eve",
    )  # fmt: skip
    kit.run(jobs.create([draft]))

    assert kit.job(draft.id) == Job(
        id=draft.id, definition_key="work", definition_version=2, status=Status.SCHEDULED, outcome=None,
        params_text=draft.params, result_text=None,
        error=None, error_type=None, attempts=0, max_attempts=5, lost=0, fence=0, generation=1, priority=3,
        progress=None, progress_message=None, current_phase=None, reference_type="order", reference_id="7",
        tags=("red", "blue"), idempotency_key="key", concurrency_key="a|b", unique="one", blocked=False,
        webhook_url="https://example.org/hook", schedule_id="nightly",
        scheduled_for=to_datetime(START), parent_id=parent,
        rerun_of=origin, actor="eve", created_at=to_datetime(START), run_at=to_datetime(START + 5_000_000),
        queued_at=None, started_at=None, finished_at=None, updated_at=to_datetime(START), stale_at=None,
        cancel_requested_at=None, worker_id=None,
    )  # fmt: skip


def test_a_plain_job_has_nothing_that_was_not_asked_for(kit: Kit) -> None:
    job = kit.job(kit.create())

    assert (job.status, job.tags, job.reference_type, job.unique, job.concurrency_key) == (
        Status.QUEUED,
        (),
        None,
        None,
        None,
    )
    assert (job.queued_at, job.run_at) == (to_datetime(START), to_datetime(START))


def test_a_running_job_names_its_worker_and_how_far_it_came(kit: Kit) -> None:
    kit.create()
    kit.advance(3)
    worker = kit.worker()
    (claimed,) = kit.claim(worker)
    kit.advance(2)
    kit.run(jobs.save_progress([(kit.held(claimed), 42.5, "halfway", "read")]))

    job = kit.job(claimed.job_id)

    assert (job.status, job.worker_id, job.fence, job.attempts) == (Status.RUNNING, worker, 1, 1)
    assert job.started_at == to_datetime(START + 3_000_000)
    assert (job.progress, job.progress_message, job.current_phase) == (42.5, "halfway", "read")


def test_a_job_that_succeeded_has_its_result(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(1)
    kit.settle(claimed, result='{"sum": 3}')

    job = kit.job(claimed.job_id)

    assert (job.status, job.outcome, job.result_text, job.error) == (
        Status.SUCCEEDED,
        Status.SUCCEEDED,
        '{"sum": 3}',
        None,
    )
    assert job.finished_at == to_datetime(START + 1_000_000)
    assert job.stale_at == to_datetime(START + 1_000_000 + 7 * DAY)
    assert job.worker_id is None


def test_a_job_that_failed_has_its_error(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, retryable=False, failure=Failure("KeyError", "no such thing", "Traceback", "f"))

    job = kit.job(claimed.job_id)

    assert (job.status, job.outcome, job.result_text) == (Status.FAILED, Status.FAILED, None)
    assert (job.error_type, job.error) == ("KeyError", "no such thing")


def test_a_job_past_its_time_reads_as_stale_and_keeps_its_outcome(kit: Kit) -> None:
    job_id = kit.job_in(Status.FAILED)
    kit.advance(7 * 86_400 - 1)
    assert kit.status(job_id) is Status.FAILED

    kit.advance(1)

    job = kit.job(job_id)
    assert (job.status, job.outcome) == (Status.STALE, Status.FAILED)


def test_what_a_person_rejected_says_so(kit: Kit) -> None:
    with_note, without = kit.job_in(Status.REVIEW_NEEDED), kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.reject(with_note, by="eve", note="not like this"))
    kit.run(control.reject(without, by="eve"))

    assert [(job.error_type, job.error) for job in kit.run(admin.get([with_note, without]))] == [
        ("Rejected", "not like this"),
        ("Rejected", "Rejected."),
    ]


@pytest.mark.parametrize(("edit", "result"), [(None, '"draft"'), ('"edited"', '"edited"')])
def test_what_a_person_approved_has_the_handlers_result_or_the_edit(kit: Kit, edit: str | None, result: str) -> None:
    job_id = kit.job_in(Status.REVIEW_NEEDED)
    kit.run(control.approve(job_id, by="eve", result=edit, finished=True))

    assert kit.job(job_id).result_text == result


def test_a_job_that_failed_and_runs_again_does_not_read_as_failed(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL)
    assert kit.job(claimed.job_id).error == "broken"

    kit.advance(60)
    kit.run(jobs.promote())
    kit.claim()

    job = kit.job(claimed.job_id)
    assert (job.status, job.outcome, job.error) == (Status.RUNNING, None, None)


def test_jobs_come_in_the_order_asked_for(kit: Kit) -> None:
    created = [kit.create() for _ in range(4)]
    wanted = [created[2], created[0], created[3]]

    assert [job.id for job in kit.run(admin.get(wanted))] == wanted


def test_what_does_not_exist_is_left_out(kit: Kit) -> None:
    job_id = kit.create()

    found = kit.run(admin.get([kit.new_id(), job_id, "no id at all", job_id.upper(), "'; --", ""]))

    assert [job.id for job in found] == [job_id]


def test_asking_for_nothing_gives_nothing(kit: Kit) -> None:
    assert kit.run(admin.get([])) == []


def test_the_same_id_twice_gives_the_job_twice(kit: Kit) -> None:
    job_id = kit.create()

    assert [job.id for job in kit.run(admin.get([job_id, job_id]))] == [job_id, job_id]
