"""Stopping a worker: it claims nothing more, waits, asks, kills, gives back, and leaves nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from penstock.runtime import processes
from tests.http.servers import serve
from tests.signals import ignored
from tests.storage.tables import change
from tests.worker.fleet import Stage, WorkerProcess, gone


class Leaving:
    """What a worker has while it lives, to look for it afterwards."""

    def __init__(self, stage: Stage, worker: WorkerProcess) -> None:
        self._stage = stage
        self._worker = worker
        self._processes = [worker.pid, *processes.descendants(worker.pid)]
        self._temporary = folders(stage)

    def check(self, code: int = 0) -> None:
        assert self._worker.wait() == code, self._worker.output
        assert self._temporary, "it had a folder for its jobs"
        assert not folders(self._stage)
        assert all(gone(pid) for pid in self._processes)
        assert [row.ended for row in self._stage.app.workers.list()] == ["stopped"]


def folders(stage: Stage) -> list[Path]:
    """The folders in which workers keep those of their jobs; the bell of a SQLite file has one of a longer name."""
    return list((stage.folder / "temporary").glob("penstock-????????"))


def start(stage: Stage, *flags: str) -> WorkerProcess:
    """A worker whose temporary folders are those of this stage alone."""
    temporary = stage.folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return stage.worker(*flags, environment={"TMPDIR": str(temporary)})


def test_an_idle_worker_stops_at_once(stage: Stage) -> None:
    worker = start(stage)
    leaving = Leaving(stage, worker)

    worker.send(signal.SIGTERM)

    worker.wait(5)
    leaving.check()


def test_a_job_that_ends_within_the_drain_succeeds(stage: Stage) -> None:
    worker = start(stage, "--slots", "1", "--ahead", "2")
    jobs = [stage.enqueue("script", [["sleep", 1], ["return", "done"]]) for _ in range(3)]
    stage.noted(jobs[0], "begin")
    stage.eventually(lambda: all(job.refresh().status == "running" for job in jobs), "two are claimed ahead")
    leaving = Leaving(stage, worker)

    worker.send(signal.SIGTERM)

    leaving.check()
    assert [job.refresh().status for job in jobs] == ["succeeded", "queued", "queued"]
    assert [(job.job.attempts, job.job.lost) for job in jobs] == [(1, 0), (0, 0), (0, 0)]
    assert len(stage.journal(what="begin")) == 1


def test_a_job_longer_than_the_drain_is_asked_and_given_back(stage: Stage) -> None:
    worker = start(stage, "--drain", "0.3")
    job = stage.enqueue("script", [["sleep", 60]])
    stage.noted(job, "begin")
    leaving = Leaving(stage, worker)

    worker.send(signal.SIGTERM)

    leaving.check()
    stopped = job.refresh()
    assert (stopped.status, stopped.attempts, stopped.lost) == ("queued", 0, 0)
    assert stage.kinds(job)[-1] == "job.released"
    assert len(stage.journal(job, "end")) == 1, "it could clean up"


def test_a_job_that_ignores_all_is_killed_and_given_back(stage: Stage) -> None:
    worker = start(stage, "--drain", "0.3")
    job = stage.enqueue("script", [["ignore"], ["swallow", 60]])
    stage.noted(job, "begin")
    leaving = Leaving(stage, worker)

    worker.send(signal.SIGTERM)

    leaving.check()
    stopped = job.refresh()
    assert (stopped.status, stopped.attempts, stopped.lost) == ("queued", 0, 0)
    assert not stage.journal(job, "end")


def test_a_second_signal_goes_straight_to_the_kill(stage: Stage) -> None:
    worker = start(stage, "--drain", "60")
    job = stage.enqueue("script", [["swallow", 60]])
    stage.noted(job, "begin")
    leaving = Leaving(stage, worker)

    worker.send(signal.SIGTERM)
    stage.eventually(lambda: "stopping" in worker.output, "the first signal was heard")
    worker.send(signal.SIGTERM)

    worker.wait(10)
    leaving.check()
    stopped = job.refresh()
    assert (stopped.status, stopped.attempts, stopped.lost) == ("queued", 0, 0)


def test_a_worker_started_with_sigint_ignored_is_stopped_by_sigterm_alone(quiet_stage: Stage) -> None:
    with ignored(signal.SIGINT):
        worker = start(quiet_stage)
    leaving = Leaving(quiet_stage, worker)

    worker.send(signal.SIGINT)
    worker.send(signal.SIGINT)

    assert quiet_stage.end(quiet_stage.enqueue("script", [["return", 5]])).status == "succeeded"
    assert "stopping" not in worker.output
    worker.send(signal.SIGTERM)
    leaving.check()


@pytest.mark.parametrize("output", ["", "zygote"], ids=["at-once", "while-loading"])
def test_a_worker_that_is_stopped_while_it_starts_leaves_nothing(stage: Stage, output: str) -> None:
    temporary = stage.folder / "temporary"
    temporary.mkdir()
    worker = stage.worker(wait=False, environment={"TMPDIR": str(temporary)})
    if output:
        stage.eventually(lambda: processes.children(worker.pid), "it has a zygote")
    below = processes.descendants(worker.pid)

    worker.send(signal.SIGTERM)

    assert worker.wait() in (0, -signal.SIGTERM)
    stage.eventually(lambda: all(gone(pid) for pid in below), "its zygote is gone", 5)
    assert not folders(stage)
    assert [row.ended for row in stage.app.workers.list()] in ([], ["stopped"])


def test_the_next_worker_removes_the_folder_of_one_that_was_killed(stage: Stage) -> None:
    killed = start(stage)
    job = stage.enqueue("script", [["tick_before", 2, 60]])
    stage.noted(job, "tick")
    (left,) = folders(stage)

    killed.send(signal.SIGKILL)
    killed.wait()
    assert folders(stage) == [left]
    start(stage)
    start(stage)

    assert len(folders(stage)) == 2
    assert left not in folders(stage)


def test_a_worker_whose_zygote_has_just_died_stops_in_good_order(stage: Stage) -> None:
    worker = start(stage)
    leaving = Leaving(stage, worker)

    processes.kill_tree([worker.zygote])
    worker.send(signal.SIGTERM)

    leaving.check()


_NEWER = {
    dialect: f"INSERT INTO {{s}}migration (version, name, checksum, applied_at) VALUES (2, 'next', 'x', {now})"
    for dialect, now in (("sqlite", "0"), ("postgres", "now()"))
}


@pytest.mark.parametrize("command_line", ["worker", "serve"])
def test_a_worker_next_to_a_newer_schema_claims_nothing_more_and_ends_with_its_own_exit_code(
    stage: Stage, command_line: str
) -> None:
    worker = start(stage, "--slots", "1") if command_line == "worker" else serve(stage, "--slots", "1")
    stage.eventually(stage.app.workers.list, "the worker is registered")
    running = stage.enqueue("script", [["sleep", 4], ["return", "done"]])
    stage.noted(running, "begin")

    change(stage.app.store, _NEWER[stage.app.store.dialect])
    stage.eventually(lambda: "has schema version 2, this penstock knows 1" in worker.output, "it says why")
    waiting = stage.enqueue("script", [["return", 1]])

    assert worker.wait() == 11, worker.output
    assert running.refresh().status == "succeeded"
    assert waiting.refresh().status == "queued"
    assert "Traceback" not in worker.output
    assert stage.worker(wait=False).wait() == 11, "no worker of this version starts there"
