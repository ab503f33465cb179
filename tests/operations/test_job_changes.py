"""What can be done to a job that is there, from Python, in either colour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Conflict, InvalidInput, InvalidPayload, JobHandle, NotFound, Penstock, Status
from penstock.domain.attempt import LogLine
from penstock.domain.outcome import Cause, Failure, Outcome
from penstock.domain.states import Trigger
from penstock.storage.commands import admin, jobs
from tests.applications import NewApp
from tests.definitions import shapes
from tests.operations.hand import Hand

UNKNOWN = "0199a000-0000-7000-8000-000000000000"
BROKEN = Failure("ValueError", "It broke.")
REVIEW = Outcome(Trigger.ASK_REVIEW, Cause.REVIEW, note="Look at it.", data='"draft"')
LATER = datetime(2040, 1, 1, tzinfo=UTC)


class Bell:
    """A queue that keeps what was published."""

    def __init__(self) -> None:
        self.published: list[str] = []

    def publish(self, job_ids: Any) -> None:
        self.published += job_ids


def failed(app: Penstock, to: str = "x", **options: Any) -> JobHandle[Any]:
    """A job that has failed."""
    job = _work(app).options(**options).enqueue(to)
    Hand(app).fail(job.id, BROKEN)
    return job


def in_review(app: Penstock, data: str | None = None) -> JobHandle[Any]:
    """A job that has asked for a review."""
    job = _work(app).enqueue("x")
    Hand(app).ask_review(job.id, data)
    return job


def test_a_failed_job_is_retried_and_can_succeed(app: Penstock) -> None:
    job = failed(app)

    assert app.retry_job(job.id, by="ann") is Status.QUEUED

    assert job.refresh().generation == 2
    Hand(app).succeed(job.id, "5")
    assert job.result(10) == 5
    assert [(entry.actor, entry.action) for entry in app.store.run(admin.audit())] == [("ann", "job.retry")]


async def test_the_handle_and_the_event_loop_retry_too(app: Penstock) -> None:
    first, second, third = failed(app), failed(app), failed(app)

    assert first.retry() is Status.QUEUED
    assert await second.aretry() is Status.QUEUED
    assert await app.aretry_job(third.id) is Status.QUEUED
    assert second.status is Status.QUEUED


def test_only_what_ended_without_success_is_retried(app: Penstock) -> None:
    waiting = _work(app).enqueue("x")

    with pytest.raises(Conflict, match=f"Job {waiting.id} is queued and cannot be retried") as raised:
        app.retry_job(waiting.id)
    Hand(app).succeed(waiting.id)
    with pytest.raises(Conflict, match="is succeeded and cannot be retried") as ended:
        waiting.retry()

    assert raised.value.job_id == waiting.id
    assert "rerun_job" in ended.value.hint


def test_finished_phases_are_kept_unless_asked_otherwise(app: Penstock) -> None:
    handle = _three(app)

    def kept(**how: Any) -> list[str]:
        job, hand = handle.enqueue("x"), Hand(app)
        claimed = hand.claim_one(job.id)
        hand.complete(claimed, "first", "second")
        hand.end(claimed, Outcome(Trigger.FAIL, Cause.RAISED, failure=BROKEN, retryable=False))
        job.retry(**how)
        left = [phase.name for phase in app.phases(job.id) if phase.status == "completed"]
        job.cancel()
        return left

    assert kept() == ["first", "second"]
    assert kept(from_phase="second") == ["first"]
    assert kept(from_phase="third") == ["first", "second"]
    assert kept(fresh=True) == []


def test_a_retry_from_a_phase_that_is_not_there_is_refused(app: Penstock) -> None:
    job = _three(app).enqueue("x")
    job.cancel()

    with pytest.raises(InvalidInput, match="three has no phase 'fourth'") as raised:
        job.retry(from_phase="fourth")
    with pytest.raises(InvalidInput, match="from_phase or fresh, not both"):
        job.retry(from_phase="first", fresh=True)

    assert "first, second, third" in raised.value.hint
    assert job.refresh().status is Status.CANCELLED


def test_a_rerun_is_another_job_linked_to_the_old_one(app: Penstock) -> None:
    old = failed(app, priority=3, max_attempts=5, tags=["a"], reference=("invoice", "7"), idempotency_key="once")

    new = app.rerun_job(old.id, {"copies": 9}, by="ann")

    assert new.created
    seen = new.job
    assert (seen.rerun_of, seen.actor, seen.status) == (old.id, "ann", Status.QUEUED)
    assert seen.params == {"to": "x", "copies": 9}
    assert (seen.priority, seen.max_attempts, seen.tags) == (3, 5, ("a",))
    assert (seen.reference_type, seen.reference_id, seen.idempotency_key) == ("invoice", "7", None)
    assert old.refresh().status is Status.FAILED


async def test_a_rerun_takes_options_and_checks_the_parameters(app: Penstock) -> None:
    old = _work(app).enqueue("x")

    new = await old.arerun({"to": "y"}, priority=1, delay=60)
    again = old.rerun()

    assert (new.status, (await new.arefresh()).priority) == (Status.SCHEDULED, 1)
    assert again.job.params == {"to": "x"}
    with pytest.raises(InvalidPayload, match="/copies"):
        await app.arerun_job(old.id, {"copies": "many"})
    with pytest.raises(InvalidInput, match="mapping by name"):
        app.rerun_job(old.id, [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'colour' is not an option"):
        app.rerun_job(old.id, colour=1)


def test_a_rerun_needs_no_code(new_app: NewApp) -> None:
    there, here = new_app(), new_app()
    keyed = there.job("keyed", concurrency_key=lambda params: params["to"].upper())(shapes.plain)
    old = keyed.enqueue("x")

    new = here.rerun_job(old.id)

    assert new.job.concurrency_key == "X"
    with pytest.raises(InvalidInput, match="Only the code of 'keyed' can compute the concurrency key"):
        here.rerun_job(old.id, {"to": "y"})
    with pytest.raises(InvalidPayload):
        here.rerun_job(old.id, {"two": "y"}, concurrency_key="y")


def test_the_approval_of_a_plain_job_is_its_success(app: Penstock) -> None:
    as_given, edited, emptied = (in_review(app, '"draft"') for _ in range(3))

    assert app.approve_job(as_given.id, by="ann", note="Good.") is Status.SUCCEEDED
    assert edited.approve(result={"better": True}) is Status.SUCCEEDED
    assert emptied.approve(result=None) is Status.SUCCEEDED

    assert (as_given.result(10), edited.result(10), emptied.result(10)) == ("draft", {"better": True}, None)
    (review,) = app.store.run(admin.reviews(as_given.id))
    assert (review.decision, review.decided_by, review.decided_note) == ("approved", "ann", "Good.")
    (review,) = app.store.run(admin.reviews(edited.id))
    assert review.decided_by == "python"


def test_an_approved_phase_goes_on_with_the_next_and_the_last_one_ends_the_job(app: Penstock) -> None:
    handle = _three(app)

    def reviewed_after(*phases: str) -> Status:
        job, hand = handle.enqueue("x"), Hand(app)
        claimed = hand.claim_one(job.id)
        hand.complete(claimed, *phases)
        hand.end(claimed, REVIEW)
        status = job.approve()
        job.cancel()
        return status

    assert reviewed_after() is Status.QUEUED
    assert reviewed_after("first") is Status.QUEUED
    assert reviewed_after("first", "second") is Status.SUCCEEDED


def test_a_stage_that_is_called_like_the_last_phase_does_not_end_the_job(app: Penstock) -> None:
    job, hand = _three(app).enqueue("x"), Hand(app)
    claimed = hand.claim_one(job.id)
    hand.complete(claimed, "first")
    app.store.run(jobs.save_progress([(hand.held(claimed), 50.0, None, "third")]))
    hand.end(claimed, REVIEW)

    assert job.refresh().current_phase == "third"
    assert job.approve() is Status.QUEUED


async def test_a_rejected_job_has_failed(app: Penstock) -> None:
    first, second = in_review(app), in_review(app)

    assert app.reject_job(first.id, by="ann", note="No.") is Status.FAILED
    assert await second.areject(note="Never.") is Status.FAILED

    assert first.refresh().error == "No."
    assert (await second.arefresh()).error == "Never."


async def test_what_is_not_in_review_is_neither_approved_nor_rejected(app: Penstock) -> None:
    job = _work(app).enqueue("x")

    with pytest.raises(Conflict, match="is queued and cannot be approved"):
        await job.aapprove()
    with pytest.raises(Conflict, match="is queued and cannot be rejected"):
        await app.areject_job(job.id)


async def test_an_ended_job_is_deleted(app: Penstock) -> None:
    first, second, active = failed(app), failed(app), _work(app).enqueue("x")

    app.delete_job(first.id, by="ann")
    await app.adelete_job(second.id)
    with pytest.raises(Conflict, match=f"Job {active.id} is queued and cannot be deleted") as raised:
        app.delete_job(active.id)

    assert [job.id for job in app.iter_jobs()] == [active.id]
    assert "cancel it first" in raised.value.hint


async def test_a_job_that_waits_is_given_another_time(app: Penstock) -> None:
    job = _work(app).enqueue("x")

    assert app.reschedule_job(job.id, run_at=LATER) is Status.SCHEDULED
    assert job.refresh().run_at == LATER
    assert await app.areschedule_job(job.id, delay=timedelta(hours=1), by="ann") is Status.SCHEDULED
    assert job.refresh().run_at < LATER
    assert app.reschedule_job(job.id) is Status.QUEUED
    with pytest.raises(InvalidInput, match="`run_at` or `delay`, not both"):
        app.reschedule_job(job.id, run_at=LATER, delay=1)
    with pytest.raises(InvalidInput, match="at has no time zone"):
        app.reschedule_job(job.id, run_at=datetime(2040, 1, 1))


async def test_a_job_that_waits_is_given_another_priority(app: Penstock) -> None:
    ended, job = failed(app), _work(app).enqueue("x")

    app.reprioritise_job(job.id, 20)
    assert job.refresh().priority == 20
    await app.areprioritise_job(job.id, 0, by="ann")
    assert job.refresh().priority == 0
    with pytest.raises(InvalidInput, match="priority must be an integer from 0 to 20"):
        app.reprioritise_job(job.id, 21)
    with pytest.raises(Conflict, match="is failed and cannot be given another priority"):
        app.reprioritise_job(ended.id, 1)


CALLS: list[Callable[[Penstock, str], Any]] = [
    lambda app, job_id: app.cancel_job(job_id),
    lambda app, job_id: app.retry_job(job_id),
    lambda app, job_id: app.rerun_job(job_id),
    lambda app, job_id: app.approve_job(job_id),
    lambda app, job_id: app.reject_job(job_id),
    lambda app, job_id: app.delete_job(job_id),
    lambda app, job_id: app.reschedule_job(job_id),
    lambda app, job_id: app.reprioritise_job(job_id, 1),
    lambda app, job_id: app.attempts(job_id),
    lambda app, job_id: app.logs(job_id),
    lambda app, job_id: app.phases(job_id),
    lambda app, job_id: app.why(job_id),
]


@pytest.mark.parametrize("call", CALLS, ids=[call.__code__.co_names[0] for call in CALLS])
def test_a_job_that_is_not_there_is_not_found(app: Penstock, call: Callable[[Penstock, str], Any]) -> None:
    with pytest.raises(NotFound, match=UNKNOWN):
        call(app, UNKNOWN)
    with pytest.raises(InvalidInput):
        call(app, "no id")


def test_workers_are_told_of_what_may_run_again(memory_app: Penstock) -> None:
    queue = Bell()
    app = Penstock(memory_app.store, queue=queue)  # type: ignore[arg-type]
    retried, approved, moved = failed(app), in_review(app), _work(app).enqueue("b")
    app.reschedule_job(moved.id, delay=60)
    queue.published.clear()

    retried.retry()
    approved.approve()
    app.reschedule_job(moved.id)

    assert queue.published == [retried.id, approved.id, moved.id]


async def test_a_cancel_wakes_every_worker(new_app: NewApp) -> None:
    app, listener = new_app(), new_app()
    job = _work(app).enqueue("x")
    bell = listener.store.doorbell()
    while await bell.wait(0.2):
        """What rang before is of no interest."""

    await app.acancel_job(job.id)

    assert await bell.wait(30)
    await bell.aclose()


async def test_what_an_attempt_left_behind_can_be_read(app: Penstock) -> None:
    job, hand = _three(app).enqueue("x"), Hand(app)
    claimed = hand.claim_one(job.id)
    lines = [LogLine(level, f"{level} line", phase="first") for level in ("debug", "info", "error")]
    app.store.run(jobs.save_logs(hand.held(claimed), lines))
    hand.complete(claimed, "first")
    hand.end(claimed, Outcome(Trigger.FAIL, Cause.RAISED, failure=BROKEN, retryable=False))

    (attempt,) = app.attempts(job.id)
    everything = app.logs(job.id)

    assert (attempt.number, attempt.error, attempt.cause) == (1, "It broke.", "raised")
    assert await app.aattempts(job.id) == [attempt]
    assert [line.message for line in everything] == ["debug line", "info line", "error line"]
    assert [line.level for line in app.logs(job.id, level="info", limit=1)] == ["info"]
    assert await app.alogs(job.id, after=everything[0].seq, attempt=claimed.fence, phase="first") == everything[1:]
    assert [(phase.name, phase.status) for phase in await app.aphases(job.id)] == [
        ("first", "completed"), ("second", "pending"), ("third", "pending")
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="limit must be 1 to 10000, not 0"):
        app.logs(job.id, limit=0)


async def test_counts_workers_and_definitions_can_be_read(app: Penstock) -> None:
    failed(app)
    _work(app).enqueue("x")

    assert app.counts()["work", 1] == {Status.QUEUED: 1, Status.FAILED: 1} == (await app.acounts())["work", 1]
    assert [worker.name for worker in app.workers()] == ["hand"]
    # The end of a lease is told on the wall clock, and that is read anew.
    assert [replace(each, lease_expires_at=None) for each in await app.aworkers()] == [
        replace(each, lease_expires_at=None) for each in app.workers()
    ]
    assert [row.definition.key for row in app.definitions_known()] == ["work"]
    assert await app.adefinitions_known() == app.definitions_known()


async def test_all_definitions_are_registered_when_asked(app: Penstock) -> None:
    assert app.register() == {}
    app.job("one", memory="64MB", cpu=5, environment=["HOME"], on_end=print)(shapes.plain)
    app.job("two", version=2)(shapes.login)

    lanes = app.register()

    rows = {(row.definition.key, row.definition.version): row for row in app.definitions_known()}
    assert lanes == {pair: row.lane for pair, row in rows.items()}
    assert rows.keys() == {("one", 1), ("two", 2)}
    one = rows["one", 1].definition
    assert (one.memory, one.cpu, one.environment, one.hooks) == (64_000_000, 5, ("HOME",), ("on_end",))
    assert "password" in rows["two", 2].definition.schema
    assert await app.aregister() == lanes


def test_a_job_tells_why_it_does_not_run(app: Penstock) -> None:
    job = _work(app).enqueue("x")
    app.pause("work", "The printer is on fire.", by="ann")

    reasons = app.why(job.id)

    assert any("The printer is on fire." in reason.message and reason.by == "ann" for reason in reasons)
    assert job.why() == reasons


def _work(app: Penstock) -> Any:
    known = [each for each in app.definitions if each.key == "work"]
    return known[0] if known else app.job("work")(shapes.plain)


def _three(app: Penstock) -> Any:
    return app.pipeline("three", ("first", shapes.plain), ("second", shapes.plain), ("third", shapes.plain))
