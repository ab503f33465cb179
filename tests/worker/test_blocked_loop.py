"""A handler that blocks the worker's loop: the worker ends within a lease, and its jobs run elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import JobHandle
from penstock.worker.heartbeat import EXIT_UNTRUSTED
from tests.services import PostgresServer
from tests.worker.faults import Script, outage
from tests.worker.fleet import Stage, gone, overlaps

LONG_AT_FIRST: Script = [["tick_before", 2, 60], ["return", "done"]]

PATIENT = ("--lease", "8", "--heartbeat", "0.5", "--poll", "0.2")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Callable[[], PostgresServer]:
    """The server of the stage, which a stage on SQLite does not start."""
    return lambda: request.getfixturevalue("postgres")


def runs_again_after_a_loss(stage: Stage, job: JobHandle[Any]) -> None:
    ended = stage.end(job)
    assert (ended.status, ended.attempts) == ("succeeded", 1)
    assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "lost"), (2, "returned")]
    assert overlaps(stage.journal(job)) == 1


def test_a_loop_that_is_blocked_for_less_than_its_bound_costs_no_lease(stage: Stage) -> None:
    stage.worker(*PATIENT, quick=False)
    sleepers = [stage.enqueue("inline", [["sleep", 1], ["return", 1]]) for _ in range(20)]
    process = stage.enqueue("script", [["sleep", 5], ["return", 3]])
    for job in (*sleepers, process):
        stage.noted(job, "begin")
    blocker = stage.enqueue("inline", [["note", "blocks"], ["block", 4], ["return", 2]])
    stage.noted(blocker, "blocks")
    other = stage.worker(*PATIENT, quick=False)

    for job in (*sleepers, blocker, process):
        ended = stage.end(job)
        assert (ended.status, ended.fence, ended.lost) == ("succeeded", 1, 0)
    assert "is gone" not in other.output
    assert all(row.live for row in stage.app.workers.list())


@pytest.mark.parametrize("before", [[], [["sleep", 0.01]]], ids=["first-step", "later"])
def test_a_worker_whose_loop_is_blocked_ends_and_its_jobs_run_elsewhere(stage: Stage, before: Script) -> None:
    worker = stage.worker()
    beside, cancelled = (stage.enqueue("script", LONG_AT_FIRST) for _ in range(2))
    children = [stage.noted(job, "tick")[0]["pid"] for job in (beside, cancelled)]
    blocker = stage.enqueue("inline", [*before, ["note", "blocks"], ["sleep_before", 2, 90], ["return", 2]])
    stage.noted(blocker, "blocks")
    cancelled.cancel()
    other = stage.worker()

    code = worker.wait()

    assert code == EXIT_UNTRUSTED
    stage.eventually(lambda: all(map(gone, children)), "nothing that it ran is left")
    for job in (blocker, beside):
        runs_again_after_a_loss(stage, job)
    assert stage.end(cancelled).status == "cancelled"
    assert other.alive
    last = worker.output.rpartition("CRITICAL the lease is lost: ")[2]
    assert f"inline job {blocker.id} of inline runs in it" in last
    assert "_sleep_before" in last, "the stack of the handler"
    assert "WARNING the event loop has not run for" in worker.output


def test_an_inline_job_that_blocks_in_its_first_step_runs_once_although_the_store_is_locked(
    stage: Stage, server: Callable[[], PostgresServer]
) -> None:
    worker = stage.worker()
    job = stage.enqueue("inline", LONG_AT_FIRST)
    stage.noted(job, "tick")

    with outage(stage, server):
        code = worker.wait()
    stage.worker()

    assert code == EXIT_UNTRUSTED
    assert "jobs run inside of this process" in worker.output
    runs_again_after_a_loss(stage, job)


def test_a_call_that_holds_the_interpreter_keeps_no_job_from_its_rescue(stage: Stage) -> None:
    worker = stage.worker()
    beside = stage.enqueue("script", LONG_AT_FIRST)
    stage.noted(beside, "tick")
    holder = stage.enqueue("inline", [["hold_interpreter_before", 2, 10], ["return", 2]])
    stage.noted(holder, "begin")
    stage.worker()

    runs_again_after_a_loss(stage, beside)
    stage.end(holder)
    assert worker.wait() == EXIT_UNTRUSTED
