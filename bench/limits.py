"""A hundred thousand jobs of one full concurrency key at the head of the queue: what does a claim of others cost?"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.draining import returned
from penstock.domain.definition import Definition
from penstock.domain.ids import IdSource
from penstock.domain.job import Draft
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import admin, jobs
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.query_plans import postgres_plans, sqlite_plans

CROWD = 100_000
BATCH = 100
_ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)


def run(url: str, rounds: int, scale: float) -> str:
    """A table of claim times without and with the crowd, and the way in which the claim goes with it."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        stores: list[Any] = [SqliteStore(str(Path(folder) / "jobs.db")), PostgresStore(url, migrate=True)]
        lines = [
            f"| store | claim of {BATCH} others, ms | with {round(CROWD * scale):,} of one full key before them, ms |",
            "| --- | ---: | ---: |",
        ]
        ways = []
        for store in stores:
            store.open()
            before, after, way = _measure(store, rounds, round(CROWD * scale))
            lines.append(f"| {store.dialect} | {before:.1f} | {after:.1f} |")
            ways.append(f"{store.dialect}: the claim uses {', '.join(sorted(way)) or 'no index'}")
            store.close()
    return "\n".join([*lines, "", *ways])


def _measure(store: Any, rounds: int, crowd: int) -> tuple[float, float, frozenset[str]]:
    lanes = store.run(admin.register([Definition("crowd", key_concurrency=1), Definition("other")]))
    me = WorkerInfo(id=_ids.new_id(), name="bench", host="here", pid=1, lanes=tuple(lanes.values()))
    store.run(jobs.register_worker(me, 3_600_000_000))
    mine = list(lanes.values())
    before = _claims(store, me.id, mine, lanes["other", 1], rounds)
    for start in range(0, crowd, 1000):
        ids = _ids.many(min(1000, crowd - start))
        store.run(jobs.create([_draft(each, "crowd", lanes["crowd", 1], limited="full") for each in ids]))
    assert len(store.run(jobs.claim(me.id, mine, 10))) == 1, "one job of the key holds its only slot"
    after = _claims(store, me.id, mine, lanes["other", 1], rounds)
    plan = jobs.claim(me.id, mine, BATCH)
    now = time.time_ns() // 1000
    ways = (
        postgres_plans(store, plan, now, "force_generic_plan")
        if store.dialect == "postgres"
        else sqlite_plans(store, plan, store._values(None)["steady"])
    )
    return before, after, next(way.indexes for way in ways if way.statement == "claim")


def _claims(store: Any, worker: str, lanes: list[int], lane: int, rounds: int) -> float:
    """The median of milliseconds that a claim takes; what was claimed is settled."""
    times = []
    for _ in range(5 * rounds):
        store.run(jobs.create([_draft(each, "other", lane) for each in _ids.many(BATCH)]))
        begun = time.perf_counter()
        claimed = store.run(jobs.claim(worker, lanes, BATCH))
        times.append((time.perf_counter() - begun) * 1000)
        assert len(claimed) == BATCH
        assert {each.lane for each in claimed} == {lane}
        done = [returned(*each[:3]) for each in claimed]
        store.run(jobs.settle(worker, done))
    return statistics.median(times)


def _draft(job_id: str, key: str, lane: int, *, limited: str | None = None) -> Draft:
    """A job of the crowd is more important than the others, so that it stands before them."""
    return Draft(
        id=job_id, lane=lane, definition=key, params="{}", priority=10 if limited is None else 20, max_attempts=3,
        concurrency_key=limited,
    )  # fmt: skip
