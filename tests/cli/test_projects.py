"""`penstock init` makes a project that runs and overwrites nothing; `penstock dev` runs it and loads what changes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Penstock, Status
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("cli-projects")

PATIENCE = 60


class Dev:
    """One `penstock dev` in a folder; ended at the end, whatever happens."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self._log = folder / "dev.log"
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                _command("dev", "--port", "0", *flags), cwd=folder, env=_environment(), stdout=file, stderr=file
            )

    @property
    def output(self) -> str:
        return self._log.read_text()

    def until(self, pattern: str) -> str:
        """Wait until it has printed something."""
        wait_until(lambda: re.search(pattern, self.output) or not self.alive, f"it prints {pattern}", PATIENCE)
        assert re.search(pattern, self.output), self.output
        return self.output

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        if self.alive:
            self._process.send_signal(signal.SIGINT)
        return self._process.wait(PATIENCE)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def started() -> Iterator[list[Dev]]:
    made: list[Dev] = []
    yield made
    for each in made:
        each.kill()


def test_the_project_that_init_makes_runs_and_follows_its_files(tmp_path: Path, started: list[Dev]) -> None:
    made = _run(tmp_path, "init", "shop")
    folder = tmp_path / "shop"

    dev = Dev(folder)
    started.append(dev)
    dev.until(r"penstock serving on http://127\.0\.0\.1:\d+(.|\n)* runs 2 definition")
    app = Penstock(f"sqlite:///{folder}/jobs.db")
    hello = app.enqueue("hello", {"name": "Ada"})
    prices = app.enqueue("import_prices")

    assert made.stdout.splitlines()[-1] == "next: cd shop && penstock dev"
    assert app.jobs.wait(hello.id, PATIENCE).result == "Hello Ada"
    ended = app.jobs.wait(prices.id, PATIENCE)
    assert (ended.status, ended.attempts) == (Status.SUCCEEDED, 2)
    assert [phase.fence for phase in app.jobs.phases(prices.id)] == [1, 2, 2]
    assert f"hello {hello.id}: attempt 1 of 3 returned -> succeeded" in dev.until(hello.id)
    assert {row.schedule.key for row in app.schedules.list()} == {"import_prices"}

    (folder / "jobs" / "second.py").write_text("def run(ctx):\n    return 2\n")
    dev.until("reloaded: 3 definition")
    assert app.jobs.wait(app.enqueue("second").id, PATIENCE).result == 2
    app.close()
    assert dev.stop() == 0, dev.output


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "hello.py").write_text("mine")
    (tmp_path / ".gitignore").write_text("jobs.db*\nbuild")

    _run(tmp_path, "init")
    again = _run(tmp_path, "init")

    assert (tmp_path / "jobs" / "hello.py").read_text() == "mine"
    assert (tmp_path / ".gitignore").read_text() == "jobs.db*\nbuild\n__pycache__/\n"
    assert again.stdout.count("kept ") == 3
    assert again.stdout.splitlines()[-1] == "next: penstock dev"


def test_a_folder_with_an_odd_name_makes_a_project_all_the_same(tmp_path: Path) -> None:
    _run(tmp_path, "init", 'a "b" ü')

    shown = _run(tmp_path / 'a "b" ü', "tick", "--allow-root")

    assert json.loads(shown.stdout)["errors"] == 0


def test_a_place_that_cannot_be_written_to_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = _run(tmp_path, "init", "file", good=False)

    assert "cannot be created" in done.stderr
    assert "Traceback" not in done.stderr


def test_dev_without_jobs_says_how_to_make_some(tmp_path: Path) -> None:
    done = _run(tmp_path, "dev", good=False)

    assert "penstock init" in done.stderr


def test_dev_needs_no_configuration_for_a_folder_of_jobs(tmp_path: Path, started: list[Dev]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "one.py").write_text("def run(ctx, secret_text: str):\n    raise ValueError(secret_text)\n")

    dev = Dev(tmp_path, "--log-format", "json")
    started.append(dev)
    dev.until(" runs 1 definition")
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    job = app.enqueue("one", {"secret_text": "canary"}, max_attempts=1)
    app.jobs.wait(job.id, PATIENCE)
    app.close()
    dev.until(r"-> failed")
    assert dev.stop() == 0

    lines = [json.loads(line) for line in dev.output.splitlines() if line.startswith("{")]
    (told,) = [line for line in lines if line["logger"] == "penstock.jobs"]
    assert told["jobId"] == job.id
    assert "ValueError" in told["message"]
    assert "canary" not in dev.output


@pytest.mark.parametrize("command", ["serve", "worker", "tick", "dev", "demo"])
def test_an_unknown_log_format_is_refused(command: str, tmp_path: Path) -> None:
    done = _run(tmp_path, command, "--log-format", "xml", good=False)

    assert done.returncode == 2
    assert "xml" in done.stderr


def _run(folder: Path, *arguments: str, good: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        _command(*arguments), cwd=folder, env=_environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode == 0) is good, done.stdout + done.stderr
    return done


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", *arguments]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
