"""`app.worker()`: a worker inside the program that has the application."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from penstock import Conflict, InvalidInput, Penstock
from penstock.domain.states import Status
from tests.worker.fleet import ROOT, Gate, Stage, WorkerProcess

QUICK = "poll=0.2, heartbeat=0.5, lease=3"
HEAD = """
import asyncio, os, sys
from penstock import Penstock

app = Penstock({url!r}, schema={schema!r})
calls = []


@app.job("double")
def double(number: int) -> int:
    return 2 * number


@app.job("here", isolation="inline")
async def here(text: str) -> int:
    calls.append(text)
    return os.getpid()


@app.job("nested")
def nested() -> str:
    try:
        app.worker().__enter__()
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
    return "entered"


@app.job("gated")
def gated() -> None:
    {gate}

"""


class Program:
    """A script with an application, run as a user runs it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.gate = Gate(stage.folder)
        self.path = stage.folder / "program.py"
        self.environment = {
            **stage.environment, "PYTHONPATH": str(ROOT), "PENSTOCK_WORKER_ALLOW_ROOT": "true",
        }  # fmt: skip

    def write(self, text: str) -> None:
        head = HEAD.format(url=self.stage.url, schema=self.stage.schema, gate=self.gate.text)
        self.path.write_text(head + textwrap.dedent(text))

    def run(self, text: str) -> str:
        """What a program prints that does this with the application."""
        self.write(text)
        return printed([str(self.path)], self.stage.folder, self.environment)

    def begin(self, text: str) -> WorkerProcess:
        self.write(text)
        log = self.stage.folder / "program.log"
        started = WorkerProcess([sys.executable, str(self.path)], self.environment, log, self.stage.folder)
        self.stage.workers.append(started)
        return started


def printed(arguments: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def program(stage: Stage) -> Program:
    return Program(stage)


@pytest.fixture
def quiet_program(quiet_stage: Stage) -> Program:
    return Program(quiet_stage)


def test_a_program_runs_its_jobs_in_processes_and_its_inline_jobs_beside_its_own_variables(program: Program) -> None:
    told = program.run(f"""
        if __name__ == "__main__":
            with app.worker({QUICK}) as worker:
                print(double.enqueue(21).result(30), here.enqueue("a").result(30) == os.getpid(), calls)
            with worker:
                print(double.enqueue(4).result(30))
            app.close()
    """)

    assert told == "42 True ['a']\n8\n"
    assert [each.ended for each in program.stage.app.workers.list()] == ["stopped", "stopped"]


def test_a_program_with_an_event_loop_runs_its_jobs_in_it(program: Program) -> None:
    told = program.run(f"""
        async def main():
            async with app.worker({QUICK}):
                job = await double.aenqueue(21)
                inline = await here.aenqueue("a")
                print(await job.aresult(30), await inline.aresult(30) == os.getpid(), calls)
            await app.aclose()

        if __name__ == "__main__":
            asyncio.run(main())
    """)

    assert told == "42 True ['a']\n"


def test_an_error_in_the_block_stops_the_worker_and_goes_on(quiet_program: Program) -> None:
    told = quiet_program.run(f"""
        if __name__ == "__main__":
            try:
                with app.worker({QUICK}):
                    raise KeyError("mine")
            except KeyError as error:
                print(error)
            print(double.enqueue(1).status)
    """)

    assert told == "'mine'\nqueued\n"


def test_a_job_that_outlasts_the_drain_is_given_back(program: Program) -> None:
    told = program.run(f"""
        from tests.waiting import wait_until

        if __name__ == "__main__":
            with app.worker(drain=0, stop_grace=0.2, {QUICK}):
                job = gated.enqueue()
                wait_until(lambda: job.refresh().status == "running", "the job runs", 30)
            print(job.refresh().status, job.job.attempts, job.job.lost)
    """)

    assert told == "queued 0 0\n"


@pytest.mark.parametrize("interrupts", [1, 2])
def test_ctrl_c_ends_the_block_and_a_second_one_does_not_wait_for_jobs(quiet_program: Program, interrupts: int) -> None:
    process = quiet_program.begin(f"""
        import logging, threading

        if __name__ == "__main__":
            logging.basicConfig(level=logging.INFO)
            with app.worker(drain=600, {QUICK}):
                gated.enqueue()
                threading.Event().wait()
    """)
    quiet_program.gate.wait()
    (job,) = quiet_program.stage.app.jobs.list().jobs

    process.send(signal.SIGINT)
    quiet_program.stage.eventually(lambda: "1 job(s) still run" in process.output, "the worker stops")
    if interrupts == 2:
        process.send(signal.SIGINT)
    else:
        quiet_program.gate.open()
    code = process.wait()

    assert code == -signal.SIGINT
    expected = Status.SUCCEEDED if interrupts == 1 else Status.QUEUED
    assert quiet_program.stage.app.jobs.read(job.id).status is expected


def test_the_application_is_found_where_it_is_imported_from_and_its_store_where_the_program_runs(
    tmp_path: Path, quiet_program: Program
) -> None:
    package = tmp_path / "code" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(
        'from penstock import Penstock\napp = Penstock("sqlite:///relative.db")\n\n'
        '@app.job("work")\ndef work() -> str:\n    return "done"\n'
    )
    (package / "__main__.py").write_text(
        'from .tasks import app, work\n\nif __name__ == "__main__":\n    with app.worker():\n'
        "        print(work.enqueue().result(30))\n"
    )
    script = tmp_path / "code" / "script.py"
    script.write_text(
        "from shop.tasks import app, work\n\nif __name__ == '__main__':\n    with app.worker():\n"
        "        print(work.enqueue().result(30))\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    assert printed([str(script)], elsewhere, quiet_program.environment) == "done\n"
    assert printed(["-m", "shop"], script.parent, quiet_program.environment) == "done\n"
    assert (elsewhere / "relative.db").exists()
    assert (script.parent / "relative.db").exists()


def test_an_application_in_a_module_that_is_run_is_found(tmp_path: Path, quiet_program: Program) -> None:
    package = tmp_path / "code" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("greeting = 'hello'\n")
    (package / "run.py").write_text(
        'from penstock import Penstock\nfrom . import greeting\n\napp = Penstock("sqlite:///run.db")\n\n'
        '@app.job("work")\ndef work() -> str:\n    return greeting\n\n'
        'if __name__ == "__main__":\n    with app.worker():\n        print(work.enqueue().result(30))\n'
    )

    assert printed(["-m", "shop.run"], package.parent, quiet_program.environment) == "hello\n"


def test_a_job_cannot_start_a_worker(quiet_program: Program) -> None:
    told = quiet_program.run(f"""
        if __name__ == "__main__":
            with app.worker({QUICK}):
                print(nested.enqueue().result(30))
    """)

    assert told.startswith(f"{Conflict.__name__}: app.worker is not possible inside a job")


def test_a_worker_that_is_started_by_the_import_of_its_module_is_refused(quiet_program: Program) -> None:
    told = quiet_program.run("""
        try:
            with app.worker():
                print("entered")
        except Exception as error:
            if __name__ != "__main__":
                raise
            print(error)
    """)

    assert "'program.py:app' cannot be loaded: app.worker() was called while a worker loads this module" in told
    assert 'below if __name__ == "__main__":' in told


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"slot": 2}, "Did you mean 'slots'"), ({"slots": 0}, "at least 1"), ({"lease": 1}, "too slow for a lease")],
)
def test_settings_that_cannot_be_used_are_refused(
    quiet_stage: Stage, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], problem: str
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "found_here", quiet_stage.app, raising=False)

    with pytest.raises(InvalidInput, match=problem), quiet_stage.app.worker(**options):
        pass


def test_an_application_that_a_worker_cannot_load_is_refused(quiet_stage: Stage) -> None:
    in_no_module = [quiet_stage.app]

    with pytest.raises(InvalidInput, match="not a variable of a module"), in_no_module[0].worker():
        pass
    with pytest.raises(InvalidInput, match="memory") as refused, Penstock("sqlite://").worker():
        pass
    assert "Penstock(" in str(refused.value.hint)


@pytest.mark.skipif(os.getuid() != 0, reason="only root is asked for a user")
def test_root_is_told_how_to_choose_a_user(quiet_program: Program) -> None:
    quiet_program.environment.pop("PENSTOCK_WORKER_ALLOW_ROOT")

    told = quiet_program.run("""
        if __name__ == "__main__":
            try:
                with app.worker():
                    print("entered")
            except Exception as error:
                print(error)
    """)

    assert 'user="nobody"; or allow it: allow_root=True' in told
