"""How fast ready jobs are drained beside millions that nobody may take, and beside a snapshot that keeps dead rows."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

from bench import processor
from bench.draining import Drained, Draining, Worker
from penstock.domain.definition import Definition
from penstock.domain.instant import DAY
from penstock.storage.commands import admin
from tests.services import PostgresServer
from tests.storage.large_store import Filling, Kind
from tests.storage.tables import query

READY = 40_000
HELD = 300_000
STEP = 30_000
MOST = 90.0
"""Seconds that a drain beside a snapshot may take; what was done by then gives the rate."""
SECONDS_APART = 0.2
_PRIORITY = 10
_STEP_OF_PRIORITY = 10**15


@dataclass(frozen=True, slots=True)
class Crowd:
    """Jobs in the table that no worker may take."""

    finished: int = 1_000_000
    delayed: int = 1_000_000
    paused: int = 100_000
    foreign: int = 100_000

    @classmethod
    def scaled(cls, scale: float) -> Self:
        usual = cls()
        sizes = (usual.finished, usual.delayed, usual.paused, usual.foreign)
        return cls(*(max(100, round(size * scale)) for size in sizes))

    def __str__(self) -> str:
        return (
            f"{self.finished:,} finished, {self.delayed:,} delayed, {self.paused:,} paused and "
            f"{self.foreign:,} foreign jobs"
        )


def run(server: PostgresServer, rounds: int, scale: float) -> str:
    """A table for the crowd on both stores, and one for the snapshot."""
    crowd, ready, held = Crowd.scaled(scale), max(500, round(READY * scale)), max(1000, round(HELD * scale))
    lines = [
        f"| store | {ready:,} ready jobs alone, a second | with {crowd} | ratio (aim 0.85) "
        "| processor time alone, µs a job | with them |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        for store in ("sqlite", "postgresql"):
            with _Stores(store, Path(name), server) as stores:
                alone, beside = _beside_a_crowd(stores, crowd, ready, rounds)
            rates = [statistics.median(each.rate for each in drains) for drains in (alone, beside)]
            spent = [statistics.median(each.processor for each in drains) for drains in (alone, beside)]
            lines.append(
                f"| {store} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[1] / rates[0]:.2f} "
                f"| {spent[0]:.1f} | {spent[1]:.1f} |"
            )
        with _Stores("postgresql", Path(name) / "held", server) as stores:
            plain = _drained(stores, held, snapshot=False)
            snapshot = _drained(stores, held, snapshot=True)
    lines += [
        "",
        f"| postgresql, {held:,} jobs | jobs a second | ratio (aim 0.6) | processor time, µs a job "
        f"| a second in each {_step(held):,} of them |",
        "| --- | ---: | ---: | ---: | --- |",
        f"| no other transaction | {plain.rate:,.0f} | 1.00 | {plain.processor:.1f} | {_slope(plain, held)} |",
        f"| an idle `REPEATABLE READ` transaction | {snapshot.rate:,.0f} | {snapshot.rate / plain.rate:.2f} "
        f"| {snapshot.processor:.1f} | {_slope(snapshot, held)} |",
    ]
    return "\n".join(lines)


def fill(draining: Draining, crowd: Crowd) -> None:
    """The crowd: those that finished and that are delayed are of the same definition as the ready ones."""
    store = draining.app.store
    foreign = store.run(admin.register([Definition("foreign")]))["foreign", 1]
    lanes = [*draining.lanes, foreign]
    ended = Filling(store, lanes, crowd.finished, SECONDS_APART)
    ended.add_ended(Kind())
    first = crowd.finished
    end = first + crowd.delayed + crowd.paused + crowd.foreign
    live = Filling(store, lanes, end, SECONDS_APART, ended.now)
    delayed = f"n < {first + crowd.delayed}"
    due = f"CASE WHEN {delayed} THEN {live.now + 30 * DAY} + n ELSE {live.created} END"
    kind = Kind(position=f"CASE WHEN {delayed} THEN 0 WHEN n < {end - crowd.foreign} THEN 1 ELSE 2 END")
    facts = {
        "status": f"CASE WHEN {delayed} THEN 0 ELSE 1 END", "priority": str(_PRIORITY), "max_attempts": "3",
        "rank": f"{due} - {_PRIORITY * _STEP_OF_PRIORITY}", "due_at": due, "created_at": live.created,
        "updated_at": live.created, "queued_at": f"CASE WHEN {delayed} THEN NULL ELSE {live.created} END",
    }  # fmt: skip
    live.add(kind, facts, first, end)
    os.sync()


class _Stores(AbstractContextManager["_Stores"]):
    """New and empty stores of one kind, which are gone afterwards."""

    def __init__(self, kind: str, folder: Path, server: PostgresServer) -> None:
        folder.mkdir(exist_ok=True)
        self._kind = kind
        self._folder = folder
        self._server = server
        self._stack = ExitStack()
        self._count = 0

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def new(self) -> Draining:
        """A store; its workers have two definitions, of which one is paused."""
        self._count += 1
        place = self._folder / f"{self._kind}-{self._count}"
        url = f"sqlite:///{place}.db"
        if self._kind == "postgresql":
            url = self._server.create_database()
            self._stack.callback(self._server.drop_database, url)
        draining = self._stack.enter_context(Draining(place, url, definitions=2))
        draining.app.pause("nothing_1", "measured")
        return draining

    def spent(self, workers: Sequence[Worker]) -> Mapping[str, float]:
        """Processor time of workers and of the server."""
        return processor.of_drain(self._server if self._kind == "postgresql" else None, workers)


def _beside_a_crowd(stores: _Stores, crowd: Crowd, ready: int, rounds: int) -> tuple[list[Drained], list[Drained]]:
    """Drains of an empty store and of a full one, in turns."""
    full = stores.new()
    fill(full, crowd)
    alone: list[Drained] = []
    beside: list[Drained] = []
    for _ in range(rounds):
        empty = stores.new()
        for draining, drains in ((empty, alone), (full, beside)):
            draining.create(ready)
            drains.append(draining.drain(meter=stores.spent))
    left = query(full.app.store, "SELECT count(*) FROM {s}job WHERE status IN {active}")
    if left != [(crowd.delayed + crowd.paused + crowd.foreign,)]:
        raise RuntimeError(f"The crowd was to be left alone: {left} are there.")
    return alone, beside


def _drained(stores: _Stores, count: int, *, snapshot: bool) -> Drained:
    """Drain with or without a session that has looked once and now does nothing."""
    draining = stores.new()
    draining.create(count)
    with psycopg.connect(draining.app.store.url) as looking:
        if snapshot:
            looking.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            looking.execute("SELECT count(*) FROM pg_class")
        return draining.drain(most=MOST, meter=stores.spent)


def _step(count: int) -> int:
    return max(1, STEP * count // HELD)


def _slope(drained: Drained, count: int) -> str:
    rates = " ".join(f"{rate:,.0f}" for rate in drained.rates(_step(count)))
    return rates if drained.complete else f"{rates} (ended after {MOST:.0f} s)"
