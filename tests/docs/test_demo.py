"""`penstock demo` works, keeps its data, can be run again on it, and says clearly when it cannot."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Penstock, Status
from penstock.demo.scenes import SCENES, TICK
from tests.docs.markdown import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("demo")

PATIENCE = 100


def test_every_scene_is_played_to_its_end_and_can_be_played_again(tmp_path: Path) -> None:
    first = _demo(tmp_path, "--exit-when-done")

    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stderr == ""
    rows = {line.split()[1]: line.split()[2] for line in first.stdout.partition("\nJOB ")[2].splitlines()[1:]}
    assert rows == {
        **{scene.definition: scene.ends for scene in SCENES},
        TICK: "succeeded",
        "demo.thumbnail": "succeeded",
    }
    _looks_as_it_says(tmp_path)

    second = _demo(tmp_path, "--exit-when-done")

    assert second.returncode == 0, second.stdout + second.stderr


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        running = subprocess.Popen(_command(tmp_path), stdout=file, stderr=file, env=_environment())
    try:
        wait_until(lambda: "job.review_needed" in log.read_text() or running.poll() is not None, "it shows", PATIENCE)
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 0, log.read_text()
    finally:
        running.kill()
        running.wait()

    assert re.search(r"dashboard +http://127\.0\.0\.1:\d+/", log.read_text())
    assert f"{tmp_path}/data/penstock.db (kept" in log.read_text()


def test_it_says_so_when_it_cannot_work(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")

    done = _demo(tmp_path, "--exit-when-done")

    assert done.returncode != 0
    assert "Name another folder: --data DIR." in done.stderr
    assert "Traceback" not in done.stderr


def test_make_demo_is_this_command() -> None:
    assert re.search(
        r"^demo: .*\n\t@\$\(BIN\)/penstock demo \$\(ARGS\)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )


def _looks_as_it_says(folder: Path) -> None:
    """The store tells of the same: a signal, phases done once, a tick of a schedule."""
    app = Penstock(f"sqlite:///{folder}/data/penstock.db")
    jobs = {job.definition_key: job for job in app.jobs.iterate()}
    (crash,) = app.jobs.attempts(jobs["demo.crash"].id)
    phases = app.jobs.phases(jobs["demo.video"].id)
    ticks = app.schedules.ticks(TICK)
    app.close()

    assert (crash.cause, crash.signal) == ("signalled", signal.SIGSEGV)
    assert [phase.fence for phase in phases] == [1, 2, 2], "what was downloaded was not downloaded again"
    assert jobs[TICK].scheduled_for is not None
    assert len(ticks) >= 1
    assert jobs["demo.endless"].status is Status.CANCELLED


def _demo(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(folder, *flags), cwd=folder, capture_output=True, text=True, timeout=PATIENCE, env=_environment()
    )


def _command(folder: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "demo", "--data", f"{folder}/data", "--port", "0", *flags]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
