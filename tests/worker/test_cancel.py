"""Cancel means cancel: whatever the handler does, its job ends as cancelled and none of its processes goes on."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from penstock.runtime import processes
from tests.worker.fleet import Stage, gone

pytestmark = pytest.mark.xdist_group("engine-cancel")

CANCELLED = ["on_cancel", "on_end", "on_start"]
GRACE = 1.0
"""The grace of the definitions in the scripted application."""


@pytest.mark.parametrize(
    ("definition", "script", "code", "number"),
    [
        pytest.param("hooked", [["sleep", 60]], 0, None, id="plain sleep"),
        pytest.param("hooked_coroutine", [["sleep", 60]], 0, None, id="coroutine"),
        pytest.param("hooked", [["c_sleep", 60]], 0, None, id="sleep in C"),
        pytest.param("hooked", [["ignore"], ["note", "deaf"], ["sleep", 60]], None, 9, id="ignoring the request"),
        pytest.param("hooked", [["swallow", 60]], None, 9, id="swallowing everything"),
        pytest.param("hooked_coroutine", [["c_sleep", 60]], None, 9, id="coroutine that blocks its loop"),
        pytest.param("hooked", [["wait_for_cancel"], ["check"]], 0, None, id="looking at ctx.cancelled"),
    ],
)
def test_a_running_job_is_cancelled_whatever_it_does(
    shared_stage: Stage, definition: str, script: list[list[Any]], code: int | None, number: int | None
) -> None:
    job = shared_stage.enqueue(definition, script)
    (begun,) = shared_stage.noted(job, "begin")
    if ["note", "deaf"] in script:
        shared_stage.noted(job, "deaf")

    assert job.cancel() == "cancelling"
    ended = shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert (ended.status, ended.attempts, ended.result) == ("cancelled", 1, None)
    assert (attempt.cause, attempt.exit_code, attempt.signal) == ("cancelled", code, number)
    how = "killed after its grace" if number else "stopped when it was asked to"
    assert how in (attempt.error or "")
    assert (attempt.peak_memory or 0) > 1_000_000
    assert attempt.cpu_seconds is not None
    assert shared_stage.kinds(job) == ["job.enqueued", "job.started", "job.cancelling", "job.cancelled"]
    assert shared_stage.hooks(job, *CANCELLED) == CANCELLED
    assert gone(begun["pid"])


def test_what_a_cancelled_handler_still_returned_is_kept_with_its_attempt(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("hooked", [["catch_cancel", 60], ["return", "tidied up"]])
    shared_stage.noted(job, "begin")

    job.cancel()
    ended = shared_stage.end(job)

    (attempt,) = shared_stage.attempts(job)
    assert (ended.status, ended.result) == ("cancelled", None)
    assert (attempt.cause, attempt.result) == ("returned", "tidied up")


def test_code_that_cleans_up_after_a_cancel_is_run(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["sleep", 60]])
    shared_stage.noted(job, "begin")

    job.cancel()
    shared_stage.end(job)

    assert shared_stage.journal(job, "end")


def test_a_job_with_attempts_left_is_not_tried_again_after_a_cancel(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("tried_again", [["swallow_cancel_and_raise", 60]])
    shared_stage.noted(job, "begin")

    job.cancel()
    ended = shared_stage.end(job)

    assert (ended.status, ended.attempts) == ("cancelled", 1)
    assert len(shared_stage.journal(job, "begin")) == 1


class TestDaemons:
    """A process that went away from its job as far as it can is found and killed all the same."""

    def test_after_a_normal_end(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked", [["daemonise"], ["return", 1]])

        ended = shared_stage.end(job)

        (daemon,) = shared_stage.journal(job, "daemon")
        assert ended.result == 1
        assert gone(daemon["pid"])

    def test_after_a_cancel(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked", [["daemonise"], ["note", "away"], ["swallow", 60]])
        shared_stage.noted(job, "away")
        (daemon,) = shared_stage.journal(job, "daemon")

        job.cancel()

        shared_stage.eventually(lambda: gone(daemon["pid"]), "the daemon is dead", GRACE + 2)
        assert shared_stage.end(job).status == "cancelled"

    def test_after_a_timeout(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked_short", [["daemonise"], ["ignore"], ["sleep", 60]])

        ended = shared_stage.end(job)

        (daemon,) = shared_stage.journal(job, "daemon")
        assert ended.error_type == "Timeout"
        assert gone(daemon["pid"])

    def test_after_its_job_was_killed(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked", [["daemonise"], ["die", 9]])

        ended = shared_stage.end(job)

        (daemon,) = shared_stage.journal(job, "daemon")
        assert ended.error_type == "Killed"
        assert gone(daemon["pid"])

    def test_after_the_death_of_the_supervisor(self, stage: Stage) -> None:
        worker = stage.worker()
        job = stage.enqueue("script", [["daemonise"], ["note", "away"], ["swallow", 60]])
        stage.noted(job, "away")
        (daemon,) = stage.journal(job, "daemon")
        (begun,) = stage.journal(job, "begin")
        below = processes.descendants(worker.pid)
        assert {daemon["pid"], begun["pid"]} <= set(below)

        worker.send(signal.SIGKILL)

        stage.eventually(lambda: all(gone(pid) for pid in below), "all its processes are dead", GRACE + 2)

    def test_after_the_death_of_a_supervisor_that_had_not_read_all_it_was_told(self, stage: Stage) -> None:
        worker = stage.worker()
        job = stage.enqueue("script", [["daemonise"], ["note", "away"], ["swallow", 60]])
        other = stage.enqueue("script", [["note", "here"], ["sleep", 60]])
        stage.noted(job, "away")
        (there,) = stage.noted(other, "here")
        below = processes.descendants(worker.pid)

        worker.send(signal.SIGSTOP)
        os.kill(there["pid"], signal.SIGKILL)
        stage.eventually(lambda: there["pid"] not in processes.descendants(worker.pid), "the zygote has reaped it")
        worker.send(signal.SIGKILL)

        stage.eventually(lambda: all(gone(pid) for pid in below), "all its processes are dead", GRACE + 2)


def test_a_fork_bomb_is_defused(stage: Stage) -> None:
    worker = stage.worker()
    job = stage.enqueue("few_processes", [["fork_bomb"]])

    ended = stage.end(job)

    assert (ended.status, ended.error_type) == ("failed", "TooManyProcesses")
    assert stage.end(stage.enqueue("script", [["return", 1]])).result == 1
    assert worker.children() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as somebody else")
def test_a_fork_bomb_of_another_user_is_defused_by_the_kernel_or_by_the_worker(stage: Stage) -> None:
    worker = stage.worker("--user", "nobody")
    job = stage.enqueue("few_processes", [["fork_bomb", 3]])

    ended = stage.end(job)

    # Where the kernel refuses the forty-first process the bomb burns out by itself.
    assert (ended.status, ended.error_type in ("TooManyProcesses", "Exit")) == ("failed", True)
    assert stage.end(stage.enqueue("script", [["return", 1]])).result == 1
    assert worker.children() == []
