"""retry: jobs that have ended are queued again by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from penstock.domain.errors import Conflict
from penstock.domain.instant import to_datetime
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from penstock.storage.postgres.store import PostgresStore
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query
from tests.waiting import wait_until

ENDED_BADLY = (Status.FAILED, Status.CANCELLED, Status.STALE)


@pytest.mark.parametrize("status", ENDED_BADLY)
def test_a_job_that_ended_is_queued_for_another_generation(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    fence = kit.job(job_id).fence
    kit.advance(5)

    assert kit.run(control.retry([job_id])) == {job_id: Status.QUEUED}

    job = kit.job(job_id)
    assert (job.status, job.outcome, job.generation) == (Status.QUEUED, None, 2)
    assert (job.attempts, job.lost, job.fence) == (0, 0, fence)
    assert job.run_at == job.queued_at == to_datetime(kit.now)
    assert (job.finished_at, job.stale_at, job.cancel_requested_at) == (None, None, None)
    assert kit.events(job_id)[-1] == "job.enqueued"
    assert query(kit.store, "SELECT data FROM {s}event ORDER BY seq DESC LIMIT 1") == [('{"generation": 2}',)]
    check_soundness(kit.store)


def test_the_new_generation_has_its_full_budget_of_attempts_and_losses(kit: Kit) -> None:
    kit.define()
    job_id = kit.create(max_attempts=1)
    (claimed,) = kit.claim()
    kit.settle(claimed, Trigger.FAIL)
    assert kit.status(job_id) is Status.FAILED
    kit.run(control.retry([job_id]))

    (again,) = kit.claim()

    assert (again.attempt, again.fence, kit.job(job_id).generation) == (1, claimed.fence + 1, 2)
    kit.settle(again, Trigger.SUCCEED, result="2")
    assert (kit.status(job_id), kit.job(job_id).result_text) == (Status.SUCCEEDED, "2")
    assert query(kit.store, "SELECT number, status FROM {s}attempt ORDER BY fence") == [(1, 6), (1, 5)]
    check_soundness(kit.store)


@pytest.mark.parametrize("status", [each for each in Status if each not in ENDED_BADLY])
def test_any_other_job_keeps_its_status(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id), kit.events(job_id)

    assert kit.run(control.retry([job_id, kit.new_id()])) == {job_id: status}

    assert (kit.job(job_id), kit.events(job_id)) == before


def test_the_same_retry_again_changes_nothing(kit: Kit) -> None:
    job_id = kit.job_in(Status.FAILED)
    kit.run(control.retry([job_id]))

    assert kit.run(control.retry([job_id])) == {job_id: Status.QUEUED}

    assert kit.job(job_id).generation == 2


def test_finished_phases_are_kept(kit: Kit) -> None:
    job_id = _failed_in_the_third_phase(kit)

    kit.run(control.retry([job_id]))

    assert _phases(kit, job_id) == ["download", "process", "upload"]
    assert kit.job(job_id).progress == 70


@pytest.mark.parametrize(
    ("position", "kept", "progress"), [(0, [], None), (1, ["download"], 70), (2, ["download", "process"], 70)]
)
def test_phases_are_forgotten_from_a_position_on(
    kit: Kit, position: int, kept: list[str], progress: float | None
) -> None:
    job_id = _failed_in_the_third_phase(kit)
    other = _failed_in_the_third_phase(kit)

    kit.run(control.retry([job_id], from_position=position))

    assert _phases(kit, job_id) == kept
    assert kit.job(job_id).progress == progress
    assert _phases(kit, other) == ["download", "process", "upload"]


def test_the_progress_of_a_job_without_phases_begins_anew(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(jobs.save_progress([(kit.held(claimed), 30.0, "half way", None)]))
    kit.settle(claimed, Trigger.FAIL, retryable=False)

    kit.run(control.retry([claimed.job_id]))

    assert kit.job(claimed.job_id).progress is None


def test_a_retried_job_waits_for_a_slot_of_its_concurrency_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    failed = kit.job_in(Status.FAILED, concurrency_key="k")
    other = kit.create(concurrency_key="k")

    kit.run(control.retry([failed]))
    assert (kit.job(failed).blocked, kit.job(other).blocked) == (True, False)

    kit.run(control.cancel([other]))
    assert not kit.job(failed).blocked
    check_soundness(kit.store)


def test_an_active_job_with_the_same_unique_key_stands_in_the_way(kit: Kit) -> None:
    failed = kit.job_in(Status.FAILED, unique="u")
    harmless = kit.job_in(Status.FAILED)
    holder = kit.create(unique="u")

    with pytest.raises(Conflict, match=f"{failed} cannot be retried: job {holder} is active") as caught:
        kit.run(control.retry([harmless, failed]))

    assert caught.value.job_id == holder
    assert kit.status(harmless) is kit.status(failed) is Status.FAILED
    check_soundness(kit.store)

    kit.run(control.cancel([holder]))
    assert kit.run(control.retry([failed])) == {failed: Status.QUEUED}


def test_of_two_jobs_with_the_same_unique_key_only_one_can_be_retried(kit: Kit) -> None:
    first = kit.job_in(Status.FAILED, unique="u")
    second = kit.job_in(Status.FAILED, unique="u")

    with pytest.raises(Conflict, match=f"{second} cannot be retried: job {first}"):
        kit.run(control.retry([second, first]))

    assert kit.status(first) is kit.status(second) is Status.FAILED


def test_a_unique_key_that_is_taken_in_the_same_moment_is_a_conflict_too(postgres_18_database: str) -> None:
    store = PostgresStore(postgres_18_database, schema="test_retry_race", migrate=True)
    store.open()
    kit = Kit(store)
    failed = kit.job_in(Status.FAILED, unique="u")
    draft = kit.draft(unique="u")

    with psycopg.connect(postgres_18_database) as rival, ThreadPoolExecutor(1) as thread:
        store.run_on(rival, jobs.create([draft]), now=kit.now)
        answer = thread.submit(kit.run, control.retry([failed]))
        wait_until(lambda: _somebody_waits(postgres_18_database), "the retry waits for the rival")
        rival.commit()
        with pytest.raises(Conflict, match=f"job {draft.id} is active"):
            answer.result()

    assert kit.status(failed) is Status.FAILED
    store.close()


def test_who_retried_is_written_down(kit: Kit) -> None:
    job_id = kit.job_in(Status.CANCELLED)

    kit.run(control.retry([job_id], by="ann"))

    assert query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit") == [
        ("ann", "job.retry", job_id, '{"status": "cancelled"}', '{"status": "queued"}')
    ]


def _failed_in_the_third_phase(kit: Kit) -> str:
    claimed = kit.running()
    held = kit.held(claimed)
    for position, (name, status) in enumerate(
        [("download", "completed"), ("process", "completed"), ("upload", "failed")]
    ):
        kit.run(jobs.save_phase(held, name, position, status))
    kit.run(jobs.save_progress([(held, 70.0, None, "upload")]))
    kit.settle(claimed, Trigger.FAIL, retryable=False)
    return claimed.job_id


def _phases(kit: Kit, job_id: str) -> list[str]:
    return [phase.name for phase in kit.run(jobs.phases(job_id))]


def _somebody_waits(url: str) -> Any:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone()
