"""What a worker more costs PostgreSQL for each job, and what a fleet costs it that has nothing to do."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench import processor
from bench.draining import Draining
from bench.statements import StatementLog
from tests.services import PostgresServer

WORKERS = (1, 2, 4, 8)
JOBS = 40_000
IDLE_WORKERS = 10
IDLE_SECONDS = 30.0
EVERY = 0.02
"""Seconds between two looks at who waits."""

_TOUCHED = """
SELECT blks_hit + blks_read AS buffers, xact_commit AS commits, deadlocks, (SELECT wal_bytes FROM pg_stat_wal) AS wal
FROM pg_stat_database WHERE datname = current_database()
"""
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What so many workers have cost for each job."""

    workers: int
    rate: float
    buffers: float
    wal: float
    commits: float
    waited: float
    """Microseconds for which a session waited for a lock."""
    deadlocks: int


def run(server: PostgresServer, scale: float) -> str:
    """What PostgreSQL has to do for an idle fleet, and then for jobs that are drained by more and more workers."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        resting = _resting(server, Path(name) / "idle", max(3.0, IDLE_SECONDS * min(1.0, scale)))
        _without_vacuum(server)
        costs = [_cost(server, Path(name) / str(count), count, max(500, round(JOBS * scale))) for count in WORKERS]
    lines = [
        "| workers | jobs a second | buffers touched a job | WAL, bytes a job | commits in 1,000 jobs "
        "| waits for locks, µs a job | deadlocks |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {each.workers} | {each.rate:,.0f} | {each.buffers:.1f} | {each.wal:,.0f} | {1000 * each.commits:.1f} "
            f"| {each.waited:.1f} | {each.deadlocks} |"
            for each in costs
        ),
        "",
        resting,
    ]
    return "\n".join(lines)


def _without_vacuum(server: PostgresServer) -> None:
    """It comes once a minute, and would be charged to whoever is measured then."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


def _cost(server: PostgresServer, folder: Path, workers: int, count: int) -> Cost:
    """Drained by workers that begin together; what they cost by coming and going is known from a run without jobs."""
    url = server.create_database()
    with Draining(folder, url) as draining:
        new = _touched(draining)
        with draining.working(workers) as (started, _):
            draining.until_registered(started)
        left = _touched(draining)
        draining.create(count)
        created = _touched(draining)
        with _waits(server, url) as waits:
            drained = draining.drain(workers=workers, together=True)
        after = _touched(draining)
    server.drop_database(url)
    spent = {name: after[name] - created[name] - (left[name] - new[name]) for name in after}
    return Cost(
        workers, drained.rate, spent["buffers"] / count, spent["wal"] / count, spent["commits"] / count,
        1e6 * sum(waits) / count, spent["deadlocks"],
    )  # fmt: skip


def _touched(draining: Draining) -> Mapping[str, int]:
    """What a database has seen so far; all sessions must have ended, for only then have they told everything."""
    draining.app.close()
    with psycopg.connect(draining.app.store.url, autocommit=True) as connection:
        deadline = time.monotonic() + 10
        while connection.execute(_OTHERS).fetchone() != (0,):
            if time.monotonic() > deadline:
                raise TimeoutError("Sessions did not end within 10 s.")
            time.sleep(0.05)
        cursor = connection.execute(_TOUCHED)
        (row,) = cursor.fetchall()
        names = [column.name for column in cursor.description or ()]
    return {name: int(value) for name, value in zip(names, row, strict=True)}


@contextmanager
def _waits(server: PostgresServer, url: str) -> Iterator[list[float]]:
    """Seconds for which sessions of a database waited for locks, looked at again and again from another one."""
    found: list[float] = []
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            last = time.monotonic()
            while not over.wait(EVERY):
                (waiting,) = connection.execute(_WAITING, (url.rpartition("/")[2],)).fetchone() or (0,)
                now = time.monotonic()
                found.append(waiting * (now - last))
                last = now

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def _resting(server: PostgresServer, folder: Path, seconds: float) -> str:
    """What workers without a job ask of PostgreSQL, and what its processes take for the answers; the one without the
    other, for to write down what is asked is work as well."""
    url = server.create_database()
    with Draining(folder, url) as draining:
        with draining.working(IDLE_WORKERS) as (started, _):
            draining.until_registered(started)
            time.sleep(5)
            before, began = processor.of_server(server), time.monotonic()
            time.sleep(seconds)
            after, took = processor.of_server(server), time.monotonic() - began
        log = StatementLog(server, url)
        with draining.working(IDLE_WORKERS) as (started, _):
            draining.until_registered(started)
            time.sleep(5)
            log.restart()
            time.sleep(took)
            asked = log.asked()
    server.drop_database(url)
    share = 100 * (sum(after.values()) - sum(before.values())) / took
    asking = sum(each.calls for name, each in asked.items() if name not in ("BEGIN", "COMMIT"))
    lines = [
        f"An idle fleet of {IDLE_WORKERS} workers for {took:.0f} s: PostgreSQL takes {share:.2f} % of a core (aim: "
        f"less than 1) for {asking / took:.1f} statements a second (aim: less than 20), `BEGIN` and `COMMIT` not "
        "counted.",
        "",
        "| statements of an idle fleet | a second |",
        "| --- | ---: |",
        *(
            f"| `{name}` | {each.calls / took:.2f} |"
            for name, each in sorted(asked.items(), key=lambda each: -each[1].calls)[:15]
        ),
    ]
    return "\n".join(lines)
