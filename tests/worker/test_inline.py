"""Jobs inside of the worker: its lease does not depend on its loop, and without a lease it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.worker.heartbeat import EXIT_UNTRUSTED
from tests.services import PostgresServer
from tests.waiting import wait_until
from tests.worker.faults import LEASE, Script, outage
from tests.worker.fleet import Stage, gone

STUBBORN = """
import asyncio, contextlib, os
from penstock import Penstock
app = Penstock(os.environ["PENSTOCK_TEST_STORE"])

@app.job("stubborn", isolation="inline")
async def stubborn() -> None:
    open(os.path.join(os.path.dirname(__file__), "began"), "w").close()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
"""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Callable[[], PostgresServer]:
    """The server of the stage, which a stage on SQLite does not start."""
    return lambda: request.getfixturevalue("postgres")


# On SQLite a lease is extended next to a file that is locked.
@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_a_worker_that_cannot_prove_its_lease_ends_with_its_inline_jobs(
    stage: Stage, server: Callable[[], PostgresServer]
) -> None:
    worker = stage.worker()
    job = stage.enqueue("inline", [["sleep", 60]])
    beside = stage.enqueue("script", [["tick_before", 2, 60]])
    stage.noted(job, "begin")
    child = stage.noted(beside, "tick")[0]["pid"]

    with outage(stage, server):
        code = worker.wait(LEASE + 1)
        stage.eventually(lambda: gone(child), "nothing that it ran is left", 2)

    assert code == EXIT_UNTRUSTED == 75
    stage.worker()
    stage.until(job, "running")
    stage.eventually(lambda: job.refresh().fence == 2, "it is run again")
    assert job.job.lost == 1
    assert len(stage.noted(job, "begin", 2)) == 2


def test_of_inline_jobs_with_the_same_time_those_that_take_longer_time_out(stage: Stage) -> None:
    stage.worker()
    first = stage.enqueue("inline_short", [["sleep", 60]])
    quick = [stage.enqueue("inline_short", [["return", n]]) for n in range(20)]
    stage.noted(first, "begin")
    second = stage.enqueue("inline_short", [["sleep", 60]])

    assert [stage.end(job).status for job in quick] == ["succeeded"] * 20
    for job in (first, second, stage.enqueue("inline_short", [["sleep", 60]])):
        assert stage.end(job).status == "failed"
        (attempt,) = stage.attempts(job)
        assert (attempt.cause, attempt.error_type) == ("timed_out", "Timeout")
        assert "took longer than 1 s." in str(attempt.error)


def test_an_inline_job_that_is_asked_to_stop_is_given_back(stage: Stage) -> None:
    worker = stage.worker("--drain", "0.1")
    job = stage.enqueue("inline", [["sleep", 60]])
    stage.noted(job, "begin")

    assert worker.stop() == 0

    ended = job.refresh()
    assert (ended.status, ended.attempts, ended.lost) == ("queued", 0, 0)
    assert len(stage.journal(job, "end")) == 1


def test_a_worker_ends_although_an_inline_job_does_not(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    stage = Stage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    worker = stage.worker("--drain", "0.1", target=f"{tmp_path}/stubborn.py:app")
    job = stage.app.enqueue("stubborn")
    # It is running as soon as it is claimed, and would be given back if it had not begun.
    wait_until((tmp_path / "began").exists, "the handler runs")

    code = worker.stop()

    assert code == EXIT_UNTRUSTED
    assert (job.refresh().status, job.job.attempts) == ("queued", 0)
    assert [row.ended for row in stage.app.workers.list()] == ["stopped"]
    stage.close()


def test_an_inline_job_has_phases_logs_and_secrets_like_any_other(stage: Stage) -> None:
    stage.worker()
    job = stage.app.enqueue("inline_phased", {"password": "sesame-open"})

    ended = stage.end(job)

    assert (ended.status, ended.result, ended.attempts) == ("succeeded", 42, 2)
    assert [each.status for each in stage.app.jobs.phases(job.id)] == ["completed", "completed"]
    assert [line["results"] for line in stage.journal(job, "second")] == [{"inline_first": 41}] * 2
    (line,) = [each for each in stage.logs(job) if "password" in each.message]
    assert (line.message, line.phase) == ("the password is ***", "inline_first")
    assert stage.attempts(job)[0].error == "not with ***"


def test_a_handler_that_raises_a_cancellation_that_nothing_asked_for_has_failed(stage: Stage) -> None:
    stage.worker()
    scripts: list[Script] = [[["cancel_self"]], [["cancel_task"]]]
    scripts += [[["sleep", 0.01], *script] for script in scripts]
    jobs = [stage.enqueue(key, script) for key in ("coroutine", "inline") for script in scripts]

    ended = [(stage.end(job).status, stage.attempts(job)[0].cause) for job in jobs]

    assert ended == [("failed", "raised")] * 8
