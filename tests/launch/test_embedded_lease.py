"""A worker in a program of somebody else loses its lease: its jobs run elsewhere, and the program goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services import PostgresServer
from tests.waiting import wait_until
from tests.worker.faults import outage
from tests.worker.fleet import PATIENCE, ROOT, Gate, JobFolder, Stage, WorkerProcess, gone

PROGRAM = """
import asyncio, logging, os, sys
from penstock.launch.embedded import Engine
from penstock.config.worker_settings import WorkerSettings

async def main(folder, store, schema, end):
    settings = WorkerSettings(allow_root=os.getuid() == 0, poll=0.2, heartbeat=0.5, lease=3, stop_grace=1)
    engine = Engine(folder, store, name="jobs", schema=schema, settings=settings)
    await engine.load()
    print("it runs now", flush=True)
    while not os.path.exists(end):
        await asyncio.sleep(0.05)
    await engine.shutdown(0.1)
    print("shut down", flush=True)

logging.basicConfig()
asyncio.run(main(*sys.argv[1:]))
"""

PROCESS = """
import os, time
def run(ctx):
    if ctx.fence == 1:
        with open({path!r}, "w") as file:
            file.write(str(os.getpid()))
        time.sleep(60)
"""
INLINE = """
import asyncio, contextlib, os, time
isolation = "inline"
async def run(ctx):
    {text}
"""


class Program:
    """A program with an engine in it, and the folder of its job files."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.jobs = JobFolder(stage)
        self.end = stage.folder / "end"
        self.jobs.save("process.py", PROCESS.format(path=str(stage.folder / "pid")))

    def start(self) -> WorkerProcess:
        command = [sys.executable, "-c", PROGRAM, str(self.jobs.path), self.stage.url, self.stage.schema, str(self.end)]
        started = WorkerProcess(command, self.stage.environment, self.stage.folder / "program.log", ROOT)
        self.stage.workers.append(started)
        return started.ready()

    def child(self) -> int:
        """The process of the job `process`."""
        path = self.stage.folder / "pid"
        return int(wait_until(lambda: path.exists() and path.read_text(), "the job has begun", PATIENCE))


@pytest.fixture
def program(stage: Stage) -> Program:
    return Program(stage)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Callable[[], PostgresServer]:
    """The server of the stage, which a stage on SQLite does not start."""
    return lambda: request.getfixturevalue("postgres")


def test_a_program_that_blocks_its_loop_loses_its_jobs_and_goes_on(program: Program, tmp_path: Path) -> None:
    stage, gate = program.stage, Gate(tmp_path)
    program.jobs.save("blocks.py", INLINE.format(text=f"if ctx.fence > 1: return\n    {gate.text}"))
    running = program.start()
    jobs = [stage.app.enqueue("process")]
    child = program.child()
    jobs.append(stage.app.enqueue("blocks"))
    gate.wait()
    program.jobs.worker()

    ended = [stage.end(job).status for job in jobs]

    assert ended == ["succeeded"] * 2
    for job in jobs:
        assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "lost"), (2, "returned")]
    assert gone(child)
    assert running.alive
    assert f"inline job {jobs[1].id} of blocks runs in it" in running.output
    gate.open()
    program.end.touch()
    assert running.wait() == 0, running.output


# On SQLite a lease is extended next to a file that is locked.
@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_a_program_whose_store_is_away_runs_its_inline_jobs_again_when_it_is_back(
    program: Program, server: Callable[[], PostgresServer], tmp_path: Path
) -> None:
    stage, begun = program.stage, tmp_path / "begun"
    text = f"open({str(begun)!r}, 'a').write('x')\n    await asyncio.sleep(60 if ctx.fence == 1 else 0)"
    program.jobs.save("waits.py", INLINE.format(text=text))
    running = program.start()
    jobs = [stage.app.enqueue("process"), stage.app.enqueue("waits")]
    child = program.child()
    wait_until(begun.exists, "the inline job has begun")

    with outage(stage, server):
        stage.eventually(lambda: "lost its lease" in running.output, "the lease is lost")
        stage.eventually(lambda: gone(child), "the process of the job is gone")

    assert [stage.end(job).status for job in jobs] == ["succeeded"] * 2
    assert begun.read_text() == "xx"
    program.end.touch()
    assert running.wait() == 0, running.output


def test_a_program_outlives_an_inline_job_that_does_not_stop(quiet_stage: Stage, tmp_path: Path) -> None:
    program, begun, gate = Program(quiet_stage), tmp_path / "begun", tmp_path / "gate"
    program.jobs.save("stubborn.py", INLINE.format(
        text=f"open({str(begun)!r}, 'w').close()\n"
        f"    while not os.path.exists({str(gate)!r}):\n"
        "        with contextlib.suppress(asyncio.CancelledError):\n"
        "            await asyncio.sleep(0.05)"
    ))  # fmt: skip
    running = program.start()
    job = quiet_stage.app.enqueue("stubborn")
    wait_until(begun.exists, "the inline job has begun")

    program.end.touch()
    quiet_stage.eventually(lambda: "shut down" in running.output or not running.alive, "the engine has stopped", 60)
    gate.touch()

    assert running.wait() == 0, running.output
    assert job.refresh().status == "queued"
