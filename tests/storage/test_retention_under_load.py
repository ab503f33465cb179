"""Retention while jobs finish: nothing live is touched, nothing is left over, nobody waits in a circle."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.background.archive import Archive
from penstock.background.housekeeper import Housekeeper
from penstock.domain.attempt import LogLine
from penstock.domain.definition import Definition
from penstock.domain.job import Claimed, Held
from penstock.domain.job_list import JobFilter
from penstock.domain.outcome import AttemptCounters, Cause, Outcome, decide
from penstock.domain.retry import Fixed
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import WorkerInfo
from penstock.storage import ports
from penstock.storage.commands import admin, jobs
from penstock.storage.statements import read
from tests.conftest import Counts, Figures
from tests.storage.kit import Kit
from tests.storage.tables import _tables, check_soundness, connected, query

LEASE = 3_600_000_000
DIES_AT_ONCE = {"stale_after": 1, "delete_after": 1}
KEPT_SMALL_BY = {
    "job": "delete_jobs", "job_detail": "delete_jobs", "job_tag": "delete_jobs", "attempt": "delete_jobs",
    "phase": "delete_jobs", "progress": "delete_jobs", "review": "delete_jobs", "log": "delete_jobs",
    "event": "remove_events", "hook": "drop_old_hooks", "idempotency": "drop_expired_keys",
    "key_note": "admit", "bucket": "drop_full_buckets", "worker": "drop_ended_workers",
    "tick": "drop_old_ticks", "tally_delta": "fold", "tally_span": "drop_old_spans", "tally_length": "drop_old_lengths",
    "session": "drop_expired_sessions", "token": "drop_old_tokens", "delivery": "drop_old_deliveries",
    "delivery_try": "drop_old_deliveries", "receiver": "drop_idle_receivers",
    "alert": "drop_old_alerts",
}  # fmt: skip
"""The statement that removes rows of each table that grows with use."""
GROWS_WITH_CODE_OR_OPERATORS = {
    "access", "audit", "control", "definition", "feed_horizon", "migration", "schedule", "setting", "tally",
    "unserved_lane", "webhook", "webhook_feed",
}  # fmt: skip


def test_every_table_that_grows_with_use_is_kept_small(store: Any) -> None:
    with connected(store) as connection:
        tables = set(_tables(store, connection))

    unknown = tables - KEPT_SMALL_BY.keys() - GROWS_WITH_CODE_OR_OPERATORS
    assert unknown == set(), "say here which statement keeps these tables small"
    for table, statement in KEPT_SMALL_BY.items():
        if table not in tables:
            continue
        entry = read(store.dialect)[statement]
        cascades = table == "delivery_try"
        assert cascades or f"DELETE FROM {'{schema}.' * (store.dialect == 'postgres')}{table} " in f"{entry.text} ", (
            table
        )


class Load:
    """Workers that run jobs as fast as they can, and those that keep house meanwhile."""

    def __init__(self, store: Any, folder: Path | None, jobs_in_all: int) -> None:
        self.store = store
        self.kit = Kit(store)
        plain = {"backoff": Fixed(0.001)}
        lanes = store.run(
            admin.register(
                [
                    Definition(key="brief", **DIES_AT_ONCE, **plain),  # type: ignore[arg-type]
                    Definition(key="keyed", key_concurrency=2, hooks=("on_success",), **DIES_AT_ONCE, **plain),  # type: ignore[arg-type]
                    Definition(key="kept", **plain),  # type: ignore[arg-type]
                ]
            )
        )
        self.lanes = {key: lane for (key, _), lane in lanes.items()}
        self.archive = None if folder is None else Archive(folder)
        self.left = jobs_in_all
        self.made: Counter[str] = Counter()
        self.settled: set[str] = set()
        self.kept: set[str] = set()
        self.over = threading.Event()
        self._lock = threading.Lock()

    def draft(self, key: str, n: int, **options: Any) -> Any:
        self.kit._lanes = self.lanes
        if key == "keyed":
            options["concurrency_key"] = f"k{n % 7}"
        return self.kit.draft(key, tags=("t",), **options)

    def work(self, number: int) -> None:
        """Create, claim and settle jobs until there are enough."""
        worker = self.kit.new_id()
        info = WorkerInfo(worker, "worker", "here", 1, lanes=tuple(self.lanes.values()))
        self.store.run(jobs.register_worker(info, LEASE))
        while (more := self._more()) or self._unfinished():
            if more:
                key = ("brief", "keyed", "brief", "kept")[number % 4]
                made = self.store.run(jobs.create([self.draft(key, n) for n in range(more)]))
                with self._lock:
                    self.made.update(each.job_id for each in made)
                    if key == "kept":
                        self.kept.update(each.job_id for each in made)
                number += 1
            claimed = self.store.run(jobs.claim(worker, list(self.lanes.values()), 20))
            if claimed:
                self._end(worker, claimed)

    def keep_house(self, _: int) -> None:
        """Retention, as fast as it can, until all is gone that shall go."""
        housekeeper = Housekeeper(self.store, ports.admin, ports.feed, lambda: "", self.archive)

        async def rounds() -> None:
            while not self.over.is_set():
                housekeeper._cleaned_at = float("-inf")
                await housekeeper.once()
                assert housekeeper.problem is None, housekeeper.problem
            await self.store.aclose() if self.store.dialect == "postgres" else None

        asyncio.run(rounds())

    def _end(self, worker: str, claimed: list[Claimed]) -> None:
        first = Held(claimed[0].job_id, claimed[0].fence, worker)
        self.store.run(jobs.save_logs(first, [LogLine("info", "line")]))
        self.store.run(jobs.save_phase(first, "run", 0, "running", progress=1.0))
        self.store.run(jobs.save_progress([(first, 50.0, "half", "run")]))
        outcome = Outcome(Trigger.SUCCEED, Cause.RETURNED, result='"done"')
        endings = [
            decide(each.job_id, each.fence, outcome, AttemptCounters(each.attempt, 3, 0), Fixed(1), 0.5)
            for each in claimed
        ]
        report = self.store.run(jobs.settle(worker, endings))
        assert not report.refused
        with self._lock:
            self.settled.update(report.applied)

    def _more(self) -> int:
        with self._lock:
            taken = min(10, self.left)
            self.left -= taken
            return taken

    def _unfinished(self) -> bool:
        with self._lock:
            return len(self.settled) < len(self.made)


@pytest.fixture(params=[False, True], ids=["plain", "archive"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "archive" if request.param else None


@pytest.fixture
def watched(shared_store: Any) -> Iterator[Any]:
    """No deadlock may have been broken up by the database."""
    before = _deadlocks(shared_store)
    yield shared_store
    assert _deadlocks(shared_store) == before


def test_jobs_that_finish_while_retention_runs(
    watched: Any, folder: Path | None, counts: Counts, figures: Figures
) -> None:
    store = watched
    load = Load(store, folder, counts(ci=400, soak=10_000))
    live = _live_ones(load)
    before = {job.id: job for job in store.run(admin.get(sorted(live)))}

    with ThreadPoolExecutor(4) as pool:
        houses = [pool.submit(load.keep_house, n) for n in range(2)]
        workers = [pool.submit(load.work, n) for n in range(2)]
        for each in workers:
            each.result()
        _until(lambda: _count(store) == len(load.kept) + len(live) or any(each.done() for each in houses))
        load.over.set()
        for each in houses:
            each.result()

    gone = load.made.keys() - load.kept
    assert {job.id: job for job in store.run(admin.get(sorted(live)))} == before
    assert {job.id for job in store.run(admin.get(sorted(load.kept)))} == load.kept
    assert store.run(admin.get(sorted(gone))) == []
    check_soundness(store)
    assert store.run(admin.check_integrity()) == []
    if folder is not None:
        lines = [json.loads(line) for path in folder.iterdir() for line in path.read_bytes().splitlines()]
        assert sorted(line["job"]["jobId"] for line in lines) == sorted(gone)
        assert all(line["attempts"] and line["job"]["outcome"] == "succeeded" for line in lines)
        figures("retention under load", store=store.dialect, jobs=len(load.made), lines=len(lines))


def _live_ones(load: Load) -> set[str]:
    """Jobs in every state that has not ended; no lane of the workers leads to them."""
    kit = load.kit
    kit.now = load.store.run(admin.clock())
    found = {
        kit.job_in(status, f"in-{status}") for status in Status if not status.terminal and status is not Status.STALE
    }
    page = load.store.run(admin.page(JobFilter(), limit=50))
    assert {job.id for job in page.jobs} == found
    return found


def _count(store: Any) -> int:
    ((n,),) = query(store, "SELECT count(*) FROM {s}job")
    return int(n)


def _deadlocks(store: Any) -> int:
    if store.dialect == "sqlite":
        return 0
    text = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ((n,),) = query(store, text)
    return int(n)


def _until(fact: Callable[[], bool]) -> None:
    from tests.waiting import wait_until

    wait_until(fact, "all is gone that shall go", 60)
