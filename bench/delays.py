"""A hundred thousand delayed jobs that come due within a minute: how late do they start, do they slow the others?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.draining import until_done
from penstock import Penstock
from penstock.domain.ids import IdSource
from penstock.domain.instant import SECOND
from penstock.domain.job import Draft
from penstock.storage.commands import admin, jobs
from tests.storage.tables import query

APPLICATION = """
import os
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_BENCH_STORE"])


@app.job("delayed", isolation="inline")
async def delayed() -> None: ...
"""

MANY = 100_000
READY = 20_000
BATCH = 1000
_ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)


def run(url: str, scale: float) -> str:
    """A table of lateness in milliseconds, and of the rates of ready jobs."""
    lines = [
        f"| store | {round(MANY * scale):,} jobs due over a minute: lateness p50, ms | p99, ms "
        "| ready jobs a second | with as many delayed ones | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        (folder / "bench_delays.py").write_text(APPLICATION)
        for store in (f"sqlite:///{folder}/late.db", f"{url}?schema=late&migrate=true"):
            lateness = _lateness(folder, store, round(MANY * scale))
            plain = _drained(folder, _other(store, "plain"), round(READY * scale), 0)
            beside = _drained(folder, _other(store, "beside"), round(READY * scale), round(MANY * scale))
            ratio = beside / plain
            lines.append(
                f"| {store.partition(':')[0]} | {_at(lateness, 50):.1f} | {_at(lateness, 99):.1f} | {plain:,.0f} "
                f"| {beside:,.0f} | {ratio:.2f} |"
            )
    return "\n".join(lines)


def _lateness(folder: Path, url: str, count: int) -> list[float]:
    """Milliseconds between the instant at which each job was due and its start, sorted."""
    app, lane = _prepared(url)
    begin = app.store.run(admin.clock()) + 20 * SECOND
    _create(app, lane, [begin + 60 * SECOND * number // count for number in range(count)])
    worker = _worker(folder, url)
    try:
        # Nobody asks meanwhile: the worker shall have nothing beside it.
        time.sleep(max(0.0, (begin + 60 * SECOND) / SECOND - time.time()))
        until_done(app, count, 300, "status IN {pending} OR status IN {live}")
    finally:
        _stop(worker)
    rows = query(app.store, "SELECT started_at - due_at FROM {s}job")
    app.close()
    return sorted(value / 1000 for (value,) in rows)


def _drained(folder: Path, url: str, ready: int, delayed: int) -> float:
    """How many ready jobs a second are done, with delayed ones beside them."""
    app, lane = _prepared(url)
    now = app.store.run(admin.clock())
    _create(app, lane, [now + 3600 * SECOND + number for number in range(delayed)])
    _create(app, lane, [now] * ready)
    worker = _worker(folder, url)
    try:
        until_done(app, ready, 300)
    finally:
        _stop(worker)
    text = "SELECT min(started_at), max(finished_at) FROM {s}job WHERE status = {succeeded}"
    ((begun, ended),) = query(app.store, text)
    app.close()
    return ready / ((ended - begun) / SECOND)


def _prepared(url: str) -> tuple[Penstock, int]:
    app = Penstock(url)

    @app.job("delayed", isolation="inline")
    async def delayed() -> None: ...

    return app, app.definitions.register()["delayed", 1]


def _create(app: Penstock, lane: int, dues: list[int]) -> None:
    for start in range(0, len(dues), BATCH):
        part = dues[start : start + BATCH]
        drafts = [
            Draft(id=job_id, lane=lane, definition="delayed", params="{}", priority=10, max_attempts=3, due=due)
            for job_id, due in zip(_ids.many(len(part)), part, strict=True)
        ]
        app.store.run(jobs.create(drafts))


def _at(values: list[float], percent: int) -> float:
    return values[min(len(values) - 1, len(values) * percent // 100)]


def _other(url: str, name: str) -> str:
    return url.replace("late", name)


def _worker(folder: Path, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock", "worker", "bench_delays:app", "--inline-slots", "1000"]
    environment: dict[str, Any] = {**os.environ, "PENSTOCK_BENCH_STORE": url}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)
