"""Hooks: called after the state was saved, at most once, and whatever they do changes nothing."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fleet import Stage, gone
from tests.worker.scripted import hooked

pytestmark = pytest.mark.xdist_group("engine-hooks")


def test_a_stuck_hook_is_killed_and_holds_nothing_up(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("stuck", [["return", 1]])

    ended = shared_stage.end(job)

    (stuck,) = shared_stage.noted(job, "on_success")
    assert (ended.status, ended.result) == ("succeeded", 1)
    shared_stage.noted(job, "on_end")
    shared_stage.eventually(lambda: gone(stuck["pid"]), "the hook is dead")
    shared_stage.eventually(
        lambda: (
            f"on_success of stuck for job {job.id} failed: it took longer than 1 s" in shared_stage.workers[0].output
        ),
        "the worker says so",
    )
    assert shared_stage.end(shared_stage.enqueue("script", [["return", 2]])).result == 2


@pytest.mark.parametrize("ending", ["success", "failure", "cancel"])
def test_the_hook_of_an_outcome_has_ended_before_on_end_is_called(shared_stage: Stage, ending: str) -> None:
    steps: dict[str, list[Any]] = {"success": ["return", 1], "failure": ["raise", "no good"], "cancel": ["sleep", 60]}
    job = shared_stage.enqueue("ordered", [["note", "at work"], steps[ending]])
    shared_stage.noted(job, "at work")

    if ending == "cancel":
        job.cancel()
    shared_stage.end(job)

    shared_stage.noted(job, "on_end")
    called = [line["what"] for line in shared_stage.journal(job) if line["what"].split()[0] in ("outcome", "on_end")]
    assert called == ["outcome begins", "outcome has ended", "on_end"]


def test_a_hook_can_create_and_read_jobs_beside_those_of_its_handler(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("followed", [["enqueue", 1], ["return", 1]])

    (told,) = shared_stage.noted(job, "follow_up")

    assert shared_stage.end(told["child"]).parent_id == job.id
    assert told["known"] == "succeeded"
    assert len(shared_stage.app.jobs.list(parent_id=job.id).jobs) == 2


def test_a_hook_that_raises_is_told_of_in_the_log_and_nothing_else(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("broken", [["raise", "no good"]])

    ended = shared_stage.end(job)

    shared_stage.noted(job, "broken hook", 2)
    shared_stage.noted(job, "on_end")
    assert (ended.status, ended.error) == ("failed", "no good")
    shared_stage.eventually(
        lambda: shared_stage.workers[0].output.count("RuntimeError: this hook is broken") >= 2, "the worker says so"
    )


def test_a_hook_that_is_called_for_a_failure_gets_the_error(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("hooked", [["raise", "no good"]])

    (told,) = shared_stage.noted(job, "on_fail")

    assert told["error"] == "no good"


def test_hooks_run_in_processes_of_their_own(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("hooked", [["return", 1]])
    shared_stage.hooks(job, "on_start", "on_success", "on_end")

    pids = {line["pid"] for line in shared_stage.journal(job)}

    assert len(pids) == 4
    assert os.getpid() not in pids
    assert shared_stage.workers[0].pid not in pids


def test_the_folder_of_a_hook_does_not_stay(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("messy_hook", [["return", 1]])

    (mess,) = shared_stage.noted(job, "hook folder")

    shared_stage.eventually(lambda: not (Path(mess["cwd"]) / "file").exists(), "the file is gone")


def test_a_hook_that_was_due_when_its_worker_died_is_called_by_the_next(stage: Stage) -> None:
    worker = stage.worker()
    job = stage.enqueue("hooked", [["note", "at work"], ["kill_supervisor"]])
    stage.noted(job, "at work")
    worker.wait()

    stage.app.jobs.cancel(job.id)
    stage.worker()
    ended = stage.end(job)

    assert ended.status == "cancelled"
    assert stage.hooks(job, "on_cancel", "on_end")[:2] == ["on_cancel", "on_end"]
    assert len(stage.journal(job, "on_end")) == 1


def test_of_many_hooks_that_are_due_at_once_none_is_lost_for_want_of_descriptors(stage: Stage) -> None:
    worker = stage.worker()
    stage.app.definitions.pause("hooked", "so that they wait")
    stage.app.enqueue_many([hooked.order(script=[]) for _ in range(120)])
    used = len(os.listdir(f"/proc/{worker.pid}/fd"))
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (used + 300, used + 300))

    assert stage.app.jobs.bulk("cancel", definition_key="hooked").changed == 120

    def called(name: str) -> list[str]:
        return [line["job"] for line in stage.journal(what=name)]

    stage.eventually(lambda: len(called("on_cancel")) >= 120, "on_cancel was called for all")
    stage.eventually(lambda: len(called("on_end")) >= 120, "on_end was called for all")
    assert [len(set(called(name))) for name in ("on_cancel", "on_end")] == [120, 120]
    assert "could not be called" not in worker.output
