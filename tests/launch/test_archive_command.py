"""The archive as a project asks for it: one line in penstock.toml."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.config.project_file import load
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.launch.embedded import Engine
from tests.waiting import wait_until_async

JOB = """
stale_after = 0.001
delete_after = 0.001

def run(ctx, name: str, password: str):
    print("hello")
    return name
"""


def test_a_pass_writes_down_what_it_deletes(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "greet.py").write_text(JOB)
    (tmp_path / "penstock.toml").write_text(
        'store = "sqlite:///jobs.db"\njobs = "jobs"\n[retention]\narchive = "kept"\n'
    )
    _tick(tmp_path)
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    job = app.enqueue("greet", {"name": "ann", "password": "hush"})

    _tick(tmp_path, "--drain")
    for _ in range(20):
        _tick(tmp_path)
        # Those that are stale, too.
        if not list(app.jobs.iterate()):
            break

    assert list(app.jobs.iterate()) == []
    (path,) = (tmp_path / "kept").iterdir()
    (line,) = map(json.loads, path.read_text().splitlines())
    assert (line["job"]["jobId"], line["job"]["result"]) == (job.id, "ann")
    assert "hello" in [each["message"] for each in line["logs"]]
    assert [each["type"] for each in line["events"]][-1] == "job.stale"
    assert "hush" not in path.read_text()
    app.close()


def test_an_engine_inside_of_a_program_keeps_an_archive_too(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "greet.py").write_text(JOB)
    (tmp_path / "penstock.toml").write_text('store = "sqlite:///jobs.db"\njobs = "jobs"\n')
    _tick(tmp_path)
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Penstock(url)
    job = app.enqueue("greet", {"name": "ann", "password": "hush"})
    # It ends without a pass, which would delete it unarchived if it were slow.
    job.cancel()
    app.close()

    kept = tmp_path / "kept"

    async def some_time() -> None:
        settings = WorkerSettings(allow_root=os.getuid() == 0)
        engine = Engine(str(tmp_path / "jobs"), url, settings=settings, archive=str(kept))
        await engine.load()
        try:
            await wait_until_async(
                lambda: [1 for each in kept.glob("*.jsonl") if each.stat().st_size], "it is written down", 30
            )
        finally:
            await engine.shutdown()

    asyncio.run(some_time())

    (path,) = kept.iterdir()
    assert json.loads(path.read_text())["job"]["jobId"] == job.id


def test_the_folder_is_seen_from_the_file_and_may_come_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[retention]\narchive = "kept"\n')

    assert load(tmp_path, {}).archive == str(tmp_path / "kept")
    assert load(tmp_path, {"PENSTOCK_ARCHIVE": "/elsewhere"}).archive == "/elsewhere"
    (tmp_path / "penstock.toml").write_text("")
    assert load(tmp_path, {}).archive is None


@pytest.mark.parametrize("text", ["[retention]\narchiv = 'x'", "[retention]\narchive = 3", "retention = 4"])
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "penstock.toml").write_text(text)

    with pytest.raises(InvalidInput, match="retention"):
        load(tmp_path, {})


def _tick(folder: Path, *flags: str) -> None:
    allowed = ["--allow-root"] if os.getuid() == 0 else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "tick", *flags, *allowed],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
