"""Whoever keeps an archive is killed: no job goes without a line, and what was begun does no harm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.background.archive import Archive
from penstock.domain.states import Status
from penstock.storage.commands import admin
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness
from tests.storage.test_archive import Rounds
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
JOBS = 120
MINUTE = 60

_KEEPING = """
import asyncio, os, pathlib, signal, sys
from penstock.background import archive
from penstock.background.archive import Archive
from penstock.background.housekeeper import Housekeeper
from penstock.storage import ports
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore

where, kind, place, schema, folder, mark = sys.argv[1:]
store = SqliteStore(place) if kind == "sqlite" else PostgresStore(place, schema=schema)

def stop():
    pathlib.Path(mark).touch()
    signal.pause()

class Stopping(Archive):
    batches = 0

    def keep(self, remains, now=None):
        Stopping.batches += 1
        if Stopping.batches == 2 and where == "in a line":
            write = os.write
            def torn(file, view):
                write(file, bytes(view)[: len(view) // 2])
                stop()
            archive.os.write = torn
        path = super().keep(remains, now)
        if Stopping.batches == 2:
            stop()
        return path

async def rounds():
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "", Stopping(folder))
    while True:
        await housekeeper.once()
        assert housekeeper.problem is None

asyncio.run(asyncio.wait_for(rounds(), 60))
"""


@pytest.mark.crash
@pytest.mark.parametrize("where", ["in a line", "before the deletion"])
def test_a_killed_housekeeper_loses_no_line(shared_store: Any, tmp_path: Path, where: str) -> None:
    store = shared_store
    kit = Kit(store)
    # The child lives by the store's own clock.
    kit.now = store.run(admin.clock()) - 10_000_000
    kit.define("work", stale_after=1, delete_after=1)
    ended = {kit.job_in(Status.SUCCEEDED) for _ in range(JOBS)}
    place = store.path if store.dialect == "sqlite" else store.url
    folder, mark = tmp_path / "archive", tmp_path / "mark"
    arguments = [where, store.dialect, place, getattr(store, "schema", ""), str(folder), str(mark)]
    child = subprocess.Popen([sys.executable, "-c", _KEEPING, *arguments], env={**os.environ, "PYTHONPATH": str(ROOT)})

    try:
        wait_until(lambda: mark.exists() or child.poll() is not None, "it stands where it shall be killed", 40)
    finally:
        child.kill()
    assert child.wait(10) == -signal.SIGKILL

    left = {job.id for job in store.run(admin.get(sorted(ended)))}
    assert 0 < len(left) < JOBS
    whole = _lines(folder)
    assert {line["job"]["jobId"] for line in whole} >= ended - left
    kit.now = store.run(admin.clock()) + 2 * MINUTE * 1_000_000
    rounds = Rounds(kit, Archive(folder))
    while rounds.once():
        assert rounds.housekeeper.problem is None

    names = [line["job"]["jobId"] for line in _lines(folder, torn=False)]
    assert store.run(admin.get(sorted(ended))) == []
    assert set(names) == ended
    assert len(names) - len(ended) == (50 if where == "before the deletion" else len(_twice(names)))
    assert len(_twice(names)) <= 50
    check_soundness(store)


def _twice(names: list[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


def _lines(folder: Path, *, torn: bool = True) -> list[dict[str, Any]]:
    """The lines of an archive; where somebody was killed the last one of a file may be torn."""
    found = []
    for path in folder.iterdir():
        lines = path.read_bytes().split(b"\n")
        assert torn or lines[-1] == b""
        found += [json.loads(line) for line in lines[:-1]]
    return found
