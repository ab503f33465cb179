"""delete: ended jobs and everything that belongs to them."""

from __future__ import annotations

import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query

_CHILDREN = ("job_detail", "job_tag", "attempt", "phase", "progress", "review", "log")


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.STALE])
def test_an_ended_job_is_gone(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)

    assert kit.run(control.delete([job_id])) == [job_id]

    assert query(kit.store, "SELECT id FROM {s}job") == []
    assert kit.events(job_id)[-1] == "job.deleted"
    check_soundness(kit.store)


@pytest.mark.parametrize("status", [each for each in Status if not each.terminal])
def test_an_active_job_is_left(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id), kit.events(job_id)

    assert kit.run(control.delete([job_id])) == []

    assert (kit.job(job_id), kit.events(job_id)) == before


def test_everything_that_belongs_to_the_job_goes_with_it_and_nothing_else(kit: Kit) -> None:
    gone = _rich_job(kit)
    kept = _rich_job(kit)

    kit.run(control.delete([gone]))

    for table in _CHILDREN:
        column = "id" if table in ("job_detail", "job_tag") else "job_id"
        assert {each[0] for each in query(kit.store, f"SELECT CAST({column} AS text) FROM {{s}}{table}")} == {kept}, (
            table
        )
    check_soundness(kit.store)


def test_idempotency_keys_and_events_stay(kit: Kit) -> None:
    job_id = _rich_job(kit, idempotency_key="once")
    events = kit.events(job_id)

    kit.run(control.delete([job_id]))

    assert kit.events(job_id) == [*events, "job.deleted"]
    (answer,) = kit.run(jobs.create([kit.draft(idempotency_key="once")]))
    assert (answer.job_id, answer.created) == (job_id, False)


def test_the_event_says_what_the_job_was(kit: Kit) -> None:
    job_id = kit.job_in(Status.FAILED)

    kit.run(control.delete([job_id]))

    ((data,),) = query(kit.store, "SELECT data FROM {s}event WHERE kind = 'job.deleted'")
    assert data.replace(" ", "") == '{"definitionKey":"work","status":"failed"}'


def test_many_are_deleted_at_once_and_the_rest_is_left_out(kit: Kit) -> None:
    failed, done, running = kit.job_in(Status.FAILED), kit.job_in(Status.SUCCEEDED), kit.job_in(Status.RUNNING)

    assert kit.run(control.delete([running, done, kit.new_id(), failed, done], by="ann")) == [done, failed]

    assert query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit ORDER BY seq") == [
        ("ann", "job.delete", done, '{"status": "succeeded"}', None),
        ("ann", "job.delete", failed, '{"status": "failed"}', None),
    ]
    check_soundness(kit.store)


def test_nothing_to_delete_is_fine(kit: Kit) -> None:
    assert kit.run(control.delete([])) == []


def _rich_job(kit: Kit, **options: str) -> str:
    claimed = kit.running(tags=("red", "blue"), **options)
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "run", 0, "completed", result="1"))
    kit.run(jobs.save_progress([(held, 50.0, None, "run")]))
    kit.run(jobs.save_logs(held, [LogLine("info", "hello")]))
    kit.settle(claimed, Trigger.ASK_REVIEW)
    kit.run(control.reject(claimed.job_id, by="ann"))
    return claimed.job_id
