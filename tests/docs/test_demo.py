"""`make demo` works, can be run again on what it kept, and says clearly when it cannot."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT


def test_the_demo_shows_jobs_in_every_state_it_speaks_of(tmp_path: Path) -> None:
    done = _demo(tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for status in ("scheduled", "succeeded", "failed", "cancelled"):
        assert re.search(rf"^  {status} +[\d,]+$", done.stdout, re.MULTILINE), status
    for kind in ("job.enqueued", "job.started", "job.retrying", "job.succeeded"):
        assert kind in done.stdout
    assert (tmp_path / ".penstock" / "demo.db").exists()


def test_the_demo_finds_its_jobs_when_it_is_run_again(tmp_path: Path) -> None:
    first = _demo(tmp_path)

    second = _demo(tmp_path)

    assert second.returncode == 0, second.stderr
    assert "made by an earlier run" not in first.stdout
    assert "made by an earlier run" in second.stdout


def test_the_demo_says_so_when_it_cannot_work(tmp_path: Path) -> None:
    (tmp_path / ".penstock").write_text("a file where the folder should be")

    done = _demo(tmp_path)

    assert done.returncode == 1
    assert "The demo failed:" in done.stderr
    assert "Traceback" not in done.stderr


def _demo(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / "demo.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
    )
