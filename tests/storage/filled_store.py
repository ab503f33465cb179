"""A filled store: 200,000 jobs in every state, inserted by SQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from penstock.domain.definition import RateLimit
from penstock.domain.states import ENDED, PENDING, Status
from tests.storage.kit import START, Kit
from tests.storage.tables import connected

JOBS = 200_000
FINISHED, DELAYED, BLOCKED, FOREIGN, QUEUED = 120_000, 30_000, 20_000, 20_000, 8_000
KEYS = 500
WORKERS = 20
OLD = 100_000
"""How many of the finished jobs have their attempt on record."""
GONE = 10_000
"""How many jobs are there no more, of which bundles and the event of their deletion still tell."""

_JOB = (
    "id", "lane", "fence", "status", "priority", "attempt", "max_attempts", "blocked", "rank", "due_at", "created_at",
    "updated_at", "queued_at", "started_at", "finished_at", "stale_at", "retire_at", "worker", "limit_key",
    "unique_key",
)  # fmt: skip
_DETAIL = ("id", "lane", "params", "reference_type", "reference_id", "schedule", "parent")
_ATTEMPT = ("job_id", "fence", "number", "status", "ended_at", "cause", "fingerprint")
_EVENT = ("at", "job_id", "kind")
_BUNDLE = ("at", "kind", "jobs")
_LAST = ("at", "job_id", "kind", "times")
_WEEK = 7 * 86_400_000_000
_ENDS = (*[Status.SUCCEEDED] * 8, Status.FAILED, Status.CANCELLED)
_MOVING = (Status.QUEUED.code, Status.RUNNING.code)


class Filled:
    """The store, and what to ask it for."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.kit = Kit(store)
        self.lanes = [
            self.kit.define("work", key_concurrency=1),
            self.kit.define("mail"),
            self.kit.define("limited", concurrency=50),
            self.kit.define("rated", rate_limit=RateLimit(10, per_key=True)),
        ]
        self.foreign = [self.kit.define(f"foreign{n}") for n in range(20)]
        self.workers = [job_id(10**9 + n) for n in range(WORKERS)]

    def fill(self) -> None:
        """Everything but what waits and runs."""
        _insert(self.store, "job", _JOB, (row for row in self._jobs() if row[3] not in _MOVING))
        _insert(self.store, "job_detail", _DETAIL, self._details())
        attempts = (
            (job_id(n), 1, 1, Status.SUCCEEDED.code, START - n, "returned", f"f{n % 100}" if n % 10 == 0 else None)
            for n in range(OLD)
        )
        _insert(self.store, "attempt", _ATTEMPT, attempts)
        _insert(self.store, "event", _EVENT, ((START - n, job_id(n), "job.enqueued") for n in range(OLD)))
        listed = list if self.store.dialect == "postgres" else json.dumps
        old = START - 2 * _WEEK
        bundles = ((old - n, "job.enqueued", listed([gone(n), gone(n + 1)])) for n in range(0, GONE, 2))
        _insert(self.store, "event", _BUNDLE, bundles)
        lasts = ((START - _WEEK - n, gone(n), "job.deleted", listed([old - n // 2 * 2])) for n in range(GONE))
        _insert(self.store, "event", _LAST, lasts)
        if self.store.dialect == "postgres":
            _insert(self.store, "key_note", ("limit_key",), ((f"work|k{n}",) for n in range(KEYS)))
        ended = (
            (
                job_id(2 * 10**9 + n),
                "old",
                "here",
                1,
                "[]",
                1,
                "",
                START - 10**12,
                START - 10**12,
                START - 10**12,
                "stopped",
            )
            for n in range(5000)
        )
        names = "id name host pid lanes slots code_version started_at heartbeat_at lease_until ended"
        boot = {} if self.store.dialect == "postgres" else {"boot": "an earlier one"}
        _insert(self.store, "worker", (*names.split(), *boot), ((*row, *boot.values()) for row in ended))
        for n, worker in enumerate(self.workers):
            # The first is dead, the others live.
            self.kit.worker(id=worker, lease=1 if n == 0 else 10**12, lanes=tuple(self.lanes))

    def add_the_waiting_and_running(self) -> None:
        _insert(self.store, "job", _JOB, (row for row in self._jobs() if row[3] in _MOVING))

    def remove_the_waiting_and_running(self) -> None:
        with connected(self.store) as connection:
            connection.execute(f"DELETE FROM {_name(self.store, 'job')} WHERE status IN {_MOVING}")

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While the counts tell how many jobs have ended."""
        ended = Counter((row[1], row[3]) for row in self._jobs() if row[3] >= 5)
        _insert(self.store, "tally_delta", ("lane", "status", "minute", "n"), ((*of, 0, n) for of, n in ended.items()))
        yield
        with connected(self.store) as connection:
            connection.execute(f"DELETE FROM {_name(self.store, 'tally_delta')} WHERE minute = 0")

    def running(self, n: int) -> list[str]:
        """Jobs of the second worker, which lives."""
        first = JOBS - (JOBS - FINISHED - DELAYED - BLOCKED - FOREIGN - QUEUED)
        return [job_id(first + 1 + each * WORKERS) for each in range(n)]

    def _jobs(self) -> Iterator[tuple[Any, ...]]:
        for n in range(JOBS):
            lane, status, blocked, due, worker, limit_key, unique = self._standing(n)
            ended, claims = status in ENDED, 0 if status in PENDING else 1
            queued, started = status is not Status.SCHEDULED, status not in PENDING
            yield (
                job_id(n), lane, claims, status.code, 10, claims, 3, blocked, due - 10**16,
                due, START - n, START - n, START if queued else None, START if started else None,
                START - n if ended else None, START + _WEEK if ended else None, START + _WEEK if ended else None,
                worker, limit_key, unique,
            )  # fmt: skip

    def _standing(self, n: int) -> tuple[int, Status, bool, int, str | None, str | None, str | None]:
        lane = self.lanes[n % 4]
        if n < FINISHED:
            return lane, _ENDS[n % 10], False, START - n, None, None, None
        n -= FINISHED
        if n < DELAYED:
            return lane, Status.SCHEDULED, False, START + (n - 300) * 1_000_000, None, None, f"work|u{n}"
        n -= DELAYED
        if n < BLOCKED:
            return self.lanes[0], Status.QUEUED, True, START - n, None, f"work|k{n % KEYS}", None
        n -= BLOCKED
        if n < FOREIGN:
            return self.foreign[n % 20], Status.QUEUED, False, START - n, None, None, None
        n -= FOREIGN
        if n < QUEUED:
            return lane, Status.QUEUED, False, START - n, None, None, None
        n -= QUEUED
        return (
            self.lanes[0],
            Status.RUNNING,
            False,
            START,
            self.workers[n % WORKERS],
            f"work|k{n}" if n < KEYS else None,
            None,
        )

    def _details(self) -> Iterator[tuple[Any, ...]]:
        for n in range(JOBS):
            schedule = f"s{n % 50}" if n % 100 == 0 else None
            yield (
                job_id(n),
                self._standing(n)[0],
                "{}",
                "order",
                str(n % 1000),
                schedule,
                job_id(n % 7) if n % 9 == 0 else None,
            )


def job_id(n: int) -> str:
    return f"01a00000-0000-7000-8000-{n:012x}"


def gone(n: int) -> str:
    """The id of a job that was deleted."""
    return job_id(3 * 10**9 + n)


def _insert(store: Any, table: str, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    if store.dialect == "postgres":
        with psycopg.connect(store.url) as connection, connection.cursor() as cursor:
            names = sql.SQL(", ").join(map(sql.Identifier, columns))
            text = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(store.schema, table), names)
            with cursor.copy(text) as copy:
                for row in rows:
                    copy.write_row(row)
        return
    with connected(store) as connection, connection:
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)


def _name(store: Any, table: str) -> str:
    return f'"{store.schema}".{table}' if store.dialect == "postgres" else table
