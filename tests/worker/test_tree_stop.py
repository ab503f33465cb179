"""Stopping a whole process tree: the signal reaches the worker, its zygote and all jobs, as systemd sends it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from penstock import JobHandle
from tests.worker.fleet import JobFolder, Stage, WorkerProcess, command, gone

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda each: each.name)
HANDLERS = pytest.mark.parametrize("definition", ["script", "coroutine"])


def begun(stage: Stage, definition: str, script: list[list[Any]]) -> JobHandle[Any]:
    """A job whose first attempt runs."""
    job = stage.enqueue(definition, script)
    stage.noted(job, "begin")
    return job


def standing(job: JobHandle[Any]) -> tuple[str, int, int]:
    found = job.refresh()
    return found.status, found.attempts, found.lost


@SIGNALS
@HANDLERS
def test_a_job_that_ends_within_the_drain_succeeds(stage: Stage, definition: str, number: int) -> None:
    worker = stage.worker("--drain", "60")
    job = begun(stage, definition, [["sleep", 2], ["return", "done"]])

    worker.send_to_tree(number)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("succeeded", 1, 0)
    assert job.job.result == "done"


@SIGNALS
@HANDLERS
def test_a_job_longer_than_the_drain_is_asked_to_stop_and_given_back(
    stage: Stage, definition: str, number: int
) -> None:
    worker = stage.worker("--drain", "0.3")
    job = begun(stage, definition, [["sleep", 600]])

    worker.send_to_tree(number)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("queued", 0, 0)
    assert stage.kinds(job)[-1] == "job.released"
    assert stage.journal(job, "end"), "it could clean up"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_three_restarts_in_a_row_cost_a_long_job_nothing(stage: Stage, number: int) -> None:
    job: JobHandle[Any] | None = None
    for fence in (1, 2, 3):
        worker = stage.worker("--drain", "0.3")
        job = job or stage.enqueue("script", [["sleep_before", 4, 600], ["return", "done"]])
        stage.noted(job, "begin", fence)
        worker.send_to_tree(number)
        assert worker.wait(60) == 0, worker.output
        assert standing(job) == ("queued", 0, 0)

    stage.worker()

    assert job is not None
    ended = stage.end(job)
    assert (ended.status, ended.attempts, ended.lost) == ("succeeded", 1, 0)


@pytest.mark.parametrize("order", ["parents first", "children first"])
def test_a_job_whose_program_dies_of_the_signal_is_given_back(stage: Stage, order: str) -> None:
    worker = stage.worker("--drain", "60")
    job = begun(stage, "script", [["run_program", 600]])
    (started,) = stage.noted(job, "program")
    tree = [worker.pid, worker.zygote, started["pid"], started["program"]]

    for pid in tree if order == "parents first" else reversed(tree):
        os.kill(pid, signal.SIGTERM)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("queued", 0, 0)
    assert [each.cause for each in stage.attempts(job)] == ["released"]


def test_a_job_that_dies_of_the_signal_is_given_back(stage: Stage) -> None:
    worker = stage.worker("--drain", "60")
    job = begun(stage, "script", [["take_default", signal.SIGTERM], ["note", "mortal"], ["sleep", 600]])
    stage.noted(job, "mortal")

    worker.send_to_tree(signal.SIGTERM)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("queued", 0, 0)


def test_a_job_that_fails_by_itself_while_its_worker_drains_has_failed(stage: Stage) -> None:
    worker = stage.worker("--drain", "60")
    job = begun(stage, "script", [["run_program", 600]])
    (started,) = stage.noted(job, "program")

    worker.send(signal.SIGTERM)
    stage.eventually(lambda: "stopping" in worker.output, "the worker drains")
    os.kill(started["program"], signal.SIGKILL)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("failed", 1, 0)


def test_a_signal_that_only_the_job_gets_changes_nothing(stage: Stage) -> None:
    worker = stage.worker()
    job = begun(stage, "script", [["sleep", 1], ["return", "done"]])
    (child,) = {line["pid"] for line in stage.journal(job, "begin")}

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(child, number)
        os.kill(worker.zygote, number)

    assert stage.end(job).status == "succeeded"
    assert worker.alive


def test_ctrl_c_in_a_terminal_drains(stage: Stage) -> None:
    worker = stage.worker("--drain", "60")
    job = begun(stage, "script", [["sleep", 1], ["return", "done"]])

    os.killpg(worker.pid, signal.SIGINT)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("succeeded", 1, 0)


@pytest.mark.parametrize("name", ["serve", "dev"])
def test_a_server_that_runs_jobs_stops_in_the_same_way(stage: Stage, name: str) -> None:
    folder = JobFolder(stage)
    folder.save("long.py", "def run(ctx):\n    print('begun', flush=True)\n    import time\n    time.sleep(600)\n")
    flags = ["--port", "0", *(["--drain", "0.3"] if name == "serve" else [])]
    server = command(
        stage, name, "--jobs", str(folder.path), "--store", stage.url, *flags, wait=False, root=name == "serve"
    )
    stage.eventually(lambda: " runs " in server.output or not server.alive, "it has a worker", 60)
    assert server.alive, server.output
    job: JobHandle[Any] = stage.app.enqueue("long")
    stage.eventually(lambda: stage.logs(job), "the job runs")
    below = server.children()

    server.send_to_tree(signal.SIGTERM)

    assert server.wait(60) == 0, server.output
    assert standing(job) == ("queued", 0, 0)
    assert all(gone(pid) for pid in below)


def test_a_pass_that_is_stopped_while_it_drains_gives_its_jobs_back(stage: Stage) -> None:
    folder, place = JobFolder(stage), ("--jobs", str(stage.folder / "jobs"), "--store", stage.url)
    folder.save("long.py", "def run(ctx):\n    print('begun', flush=True)\n    import time\n    time.sleep(600)\n")
    assert command(stage, "tick", *place, wait=False).wait(60) == 0
    (stage.folder / "penstock.toml").write_text("[worker]\ndrain = 0.3\n")
    job: JobHandle[Any] = stage.app.enqueue("long")
    cron = command(stage, "tick", *place, "--drain", wait=False)
    stage.eventually(lambda: stage.logs(job), "the job runs")

    cron.send_to_tree(signal.SIGTERM)

    assert cron.wait(60) == 0, cron.output
    assert standing(job) == ("queued", 0, 0)


def test_a_second_signal_to_the_tree_goes_straight_to_the_kill(stage: Stage) -> None:
    worker = stage.worker("--drain", "600")
    job = begun(stage, "script", [["swallow", 600]])

    worker.send_to_tree(signal.SIGTERM)
    stage.eventually(lambda: "stopping" in worker.output, "the first signal was heard")
    worker.send_to_tree(signal.SIGTERM)

    assert worker.wait(60) == 0, worker.output
    assert standing(job) == ("queued", 0, 0)


def worker_that_loads(stage: Stage) -> WorkerProcess:
    worker = stage.project("import time\ntime.sleep(600)\n", wait=False)
    stage.eventually(lambda: worker.zygote, "its zygote loads the code")
    return worker


def test_a_tree_that_still_loads_its_code_ends_at_once(stage: Stage) -> None:
    worker = worker_that_loads(stage)
    zygote = worker.zygote

    worker.send_to_tree(signal.SIGTERM)

    worker.wait(10)
    stage.eventually(lambda: gone(zygote), "its zygote is gone")
