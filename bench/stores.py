"""The store benchmark: creating, claiming and settling through our verbs, beside the raw limit."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.draining import returned
from bench.raw import RawPostgres, RawSqlite, in_threads
from penstock.domain.definition import Definition
from penstock.domain.ids import IdSource
from penstock.domain.job import Draft
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import admin, jobs
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore

CALLERS = 32
BATCH = 500
PAYLOADS = {"{}": "{}", "1 kB": json.dumps({"text": "x" * 1000})}
_ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)


@dataclass
class Row:
    """One measure: rates per second of each round, ours and the raw limit's."""

    store: str
    measure: str
    params: str
    definitions: int
    ours: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        ours, raw = statistics.median(self.ours), statistics.median(self.raw)
        facts = {"store": self.store, "measure": self.measure, "params": self.params, "definitions": self.definitions}
        return {**facts, "ours": round(ours), "raw": round(raw), "ratio": round(ours / raw, 2)}


class Bench:
    """One store with some definitions, ready to be measured."""

    def __init__(self, store: Any, definitions: int) -> None:
        self.store = store
        store.open()
        keys = [f"bench.{number}" for number in range(definitions)]
        lanes = store.run(admin.register([Definition(key=key) for key in keys]))
        self.lanes = [(key, lanes[key, 1]) for key in keys]
        self.worker = _ids.new_id()
        store.run(
            jobs.register_worker(WorkerInfo(self.worker, "bench", "here", 1, tuple(lanes.values())), 3_600_000_000)
        )

    def drafts(self, count: int, params: str) -> list[Draft]:
        made = []
        for number, job_id in enumerate(_ids.many(count)):
            key, lane = self.lanes[number % len(self.lanes)]
            made.append(Draft(id=job_id, lane=lane, definition=key, params=params, priority=10, max_attempts=3))
        return made

    def single(self, drafts: Sequence[Draft]) -> None:
        for draft in drafts:
            self.store.run(jobs.create([draft]))

    def concurrent_threads(self, groups: Sequence[Sequence[Draft]]) -> None:
        in_threads([lambda group=group: self.single(group) for group in groups])

    def concurrent_async(self, groups: Sequence[Sequence[Draft]]) -> None:
        async def caller(group: Sequence[Draft]) -> None:
            for draft in group:
                await self.store.arun(jobs.create([draft]))

        async def all_callers() -> None:
            await asyncio.gather(*(caller(group) for group in groups))
            if isinstance(self.store, PostgresStore):
                await self.store.aclose()

        asyncio.run(all_callers())

    def batches(self, drafts: Sequence[Draft]) -> None:
        for start in range(0, len(drafts), BATCH):
            self.store.run(jobs.create(drafts[start : start + BATCH]))

    def drain(self) -> int:
        lanes = [lane for _, lane in self.lanes]
        done = 0
        while taken := self.store.run(jobs.claim(self.worker, lanes, BATCH)):
            ended = [returned(*each[:3]) for each in taken]
            report = self.store.run(jobs.settle(self.worker, ended))
            done += len(report.applied)
        return done


def run(postgres_url: Callable[[], str], rounds: int, scale: float) -> list[dict[str, Any]]:
    """Measure everything, ours and raw in turn; the medians of the rounds."""
    rows: dict[tuple[str, str, str, int], Row] = {}
    for _ in range(rounds):
        for store in ("sqlite", "postgres"):
            for definitions in (1, 50):
                for label in PAYLOADS:
                    _measure(store, definitions, label, postgres_url, scale, rows)
    return [row.summary() for row in rows.values()]


def _measure(
    store: str,
    definitions: int,
    label: str,
    postgres_url: Callable[[], str],
    scale: float,
    rows: dict[tuple[str, str, str, int], Row],
) -> None:
    params = PAYLOADS[label]
    singles, many = round(1500 * scale), round(20_000 * scale) // BATCH * BATCH

    def note(measure: str, count: int, ours: Callable[[], Any], raw: Callable[[], Any]) -> None:
        row = rows.setdefault((store, measure, label, definitions), Row(store, measure, label, definitions))
        row.raw.append(count / _seconds(raw))
        row.ours.append(count / _seconds(ours))

    with tempfile.TemporaryDirectory() as folder:
        bench, bare = _open(store, definitions, postgres_url, Path(folder))
        drafts, ids = bench.drafts(singles, params), _ids.many(singles)
        note("single create", singles, lambda: bench.single(drafts), lambda: bare.single(ids, params))
        groups = [bench.drafts(singles // CALLERS * 2, params) for _ in range(CALLERS)]
        raw_groups = [_ids.many(singles // CALLERS * 2) for _ in range(CALLERS)]
        note(
            "32 threads create", CALLERS * len(groups[0]),
            lambda: bench.concurrent_threads(groups), lambda: bare.concurrent(raw_groups, params),
        )  # fmt: skip
        groups = [bench.drafts(singles // CALLERS * 2, params) for _ in range(CALLERS)]
        raw_groups = [_ids.many(singles // CALLERS * 2) for _ in range(CALLERS)]
        note(
            "32 tasks create", CALLERS * len(groups[0]),
            lambda: bench.concurrent_async(groups), lambda: bare.concurrent(raw_groups, params),
        )  # fmt: skip
        _drain_all(bench, bare)
        batch, raw_batch = bench.drafts(many, params), _ids.many(many)
        note(
            "batch create", many, lambda: bench.batches(batch),
            lambda: [bare.batch(raw_batch[at : at + BATCH], params) for at in range(0, many, BATCH)],
        )  # fmt: skip
        note("claim + settle", many, lambda: _exactly(bench.drain(), many), lambda: _exactly(_drain(bare), many))
        bench.store.close()
        bare.close()


def _open(store: str, definitions: int, postgres_url: Callable[[], str], folder: Path) -> tuple[Bench, Any]:
    if store == "sqlite":
        return Bench(SqliteStore(str(folder / "ours.db")), definitions), RawSqlite(str(folder / "raw.db"))
    url = postgres_url()
    return Bench(PostgresStore(url, migrate=True, pool_size=CALLERS), definitions), RawPostgres(url)


def _drain_all(bench: Bench, bare: Any) -> None:
    bench.drain()
    _drain(bare)


def _drain(bare: Any) -> int:
    done = 0
    while taken := bare.claim_and_complete(BATCH):
        done += taken
    return done


def _exactly(done: int, wanted: int) -> None:
    if done != wanted:
        raise RuntimeError(f"{done} jobs were done, {wanted} should have been")


def _seconds(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began
