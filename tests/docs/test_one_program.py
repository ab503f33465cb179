"""The program of the guide with a queue and a worker: it is short, and it runs as it is written, on each store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, announced, python_blocks
from tests.services import PostgresServer

PAGE = ROOT / "docs" / "guide" / "workers.md"
(PROGRAM,) = [block for block in python_blocks(PAGE) if "app.worker(" in block.code]
STORE = 'Penstock("sqlite:///mails.db")'
MOST_LINES = 10


def test_the_program_has_at_most_ten_lines() -> None:
    assert len([line for line in PROGRAM.code.splitlines() if line.strip()]) <= MOST_LINES


@pytest.mark.parametrize("start", [["mails.py"], ["-m", "mails"]], ids=["script", "module"])
def test_the_program_runs_on_sqlite(start: list[str], tmp_path: Path) -> None:
    assert printed(PROGRAM.code, start, tmp_path) == announced([PROGRAM])


def test_the_program_runs_on_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.create_database()
    assert STORE in PROGRAM.code

    told = printed(PROGRAM.code.replace(STORE, f"Penstock({url!r}, migrate=True)"), ["mails.py"], tmp_path)

    postgres.drop_database(url)
    assert told == announced([PROGRAM])


def printed(code: str, start: list[str], folder: Path) -> list[str]:
    (folder / "mails.py").write_text(code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", *start], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
