"""Isolated no-op jobs a second: penstock, the bare fork of the same zygote, RQ, and Celery with one task per child.

What a loop of asyncio costs in a fresh process is measured, too: by the bare fork that runs an empty one.

All in one run, in turns, medians of the rounds. Every job is counted.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import peers
from bench.draining import until_done
from penstock import Penstock
from penstock.domain.instant import SECOND
from penstock.runtime import processes
from tests.services import PostgresServer
from tests.storage.tables import query

APPLICATION = """
import os
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_BENCH_STORE"])


@app.job("plain")
def plain() -> None: ...


@app.job("coroutine")
async def coroutine() -> None: ...
"""

RAW = """
from penstock.isolation import large_pages
room = large_pages.reserve()
import asyncio, gc, os, sys, time
from penstock.domain import payload
from penstock.execution import handlers
from penstock.isolation import child, confinement, preload, rehearsal
from penstock.runtime import processes
app = handlers.load("bench_jobs:app", sys.argv[1])
preload.description(app)
output = os.dup(1)
confinement.prepare([]); child.prepare_output(); payload.prepare()
room.clear(); gc.collect(); processes.give_back_memory(); gc.freeze(); gc.disable()
rehearsal.rehearse(app); large_pages.gather()
count = int(sys.argv[2])


async def nothing(): ...


began = time.perf_counter()
for _ in range(count):
    pid = os.fork()
    if pid == 0:
        if sys.argv[3] == "loop":
            asyncio.run(nothing())
        os._exit(0)
    os.waitpid(pid, 0)
os.write(output, f"{count / (time.perf_counter() - began)}".encode())
"""

RAW_FORK = "raw fork"
RAW_LOOP = "raw fork + `asyncio.run`"
Measure = Callable[[int], float]


def run(rounds: int, scale: float, *, with_peers: bool = True, slots: int = 32) -> dict[str, float]:
    """Jobs a second by name; `memory` is the PSS of an idle worker and its zygote in MB."""
    count = max(50, round(1000 * scale))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        (folder / "bench_jobs.py").write_text(APPLICATION)
        measures: dict[str, Measure] = {
            RAW_FORK: lambda n: _raw(folder, n, "bare"),
            "penstock on SQLite, def": lambda n: _penstock(folder, _file(folder), "plain", n, slots),
            "penstock on SQLite, async def": lambda n: _penstock(folder, _file(folder), "coroutine", n, slots),
            "penstock on PostgreSQL, def": lambda n: _penstock(folder, database.create_database(), "plain", n, slots),
            "penstock on PostgreSQL, async def": lambda n: _penstock(
                folder, database.create_database(), "coroutine", n, slots
            ),
            RAW_LOOP: lambda n: _raw(folder, n, "loop"),
        }
        server = None
        database = PostgresServer(18).start()
        if with_peers:
            server = peers.Redis(folder)
            measures["RQ"] = lambda n: peers.rq(folder, server, max(20, n // 5))
            measures["Celery, 1 task per child"] = lambda n: peers.celery(folder, server, max(20, n // 10))
        try:
            rates: dict[str, list[float]] = {name: [] for name in measures}
            for _ in range(rounds):
                for what, measure in measures.items():
                    rates[what].append(measure(count))
        finally:
            database.remove()
            if server is not None:
                server.stop()
        figures = {what: statistics.median(found) for what, found in rates.items()}
        figures["memory"] = _idle_memory(folder)
    return figures


def table(figures: dict[str, float]) -> str:
    bare, rq = figures[RAW_FORK], figures.get("RQ")
    lines = [
        "| isolated no-op jobs | a second | of the raw fork | × RQ | ms a job |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, rate in figures.items():
        if name != "memory":
            times = "–" if rq is None else f"{rate / rq:.1f}"
            lines.append(f"| {name} | {rate:,.0f} | {rate / bare:.2f} | {times} | {1000 / rate:.1f} |")
    lines += ["", f"An idle worker with its zygote: {figures['memory']:.0f} MB of memory (PSS)."]
    return "\n".join(lines)


def _raw(folder: Path, count: int, how: str) -> float:
    environment = {**os.environ, "PENSTOCK_BENCH_STORE": "sqlite://"}
    command = [sys.executable, "-c", RAW, str(folder), str(count), how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def _file(folder: Path) -> str:
    return f"sqlite:///{folder}/{time.monotonic_ns()}.db"


def _penstock(folder: Path, url: str, key: str, count: int, slots: int) -> float:
    """Drain a queue; measured from the first ending to the last, so that the start of the worker does not count."""
    app = Penstock(url, migrate=True)
    app.job(key)(_nothing)
    app.enqueue_many([app.definitions.declared[0].order() for _ in range(count)])
    worker = _worker(folder, url, slots)
    try:
        until_done(app, count, 300)
        ((first, last),) = query(app.store, "SELECT min(ended_at), max(ended_at) FROM {s}attempt")
        return (count - 1) * SECOND / (last - first)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
        app.close()


def _nothing() -> None: ...


def _idle_memory(folder: Path) -> float:
    worker = _worker(folder, f"sqlite:///{folder}/idle.db", 4)
    try:
        deadline = time.monotonic() + 30
        while not processes.children(worker.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(3)
        return processes.memory([worker.pid, *processes.descendants(worker.pid)]) / 1e6
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)


def _worker(folder: Path, url: str, slots: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "penstock", "worker", "bench_jobs:app", "--slots", str(slots)]
    if os.getuid() == 0:
        command.append("--allow-root")
    environment = {**os.environ, "PENSTOCK_BENCH_STORE": url}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
