"""Processes that use a store until they are killed, and write down what they try and what they were told.

They are forked from a server that has loaded the stores once, so that each starts within milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from penstock.domain.definition import Definition
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import IdSource
from penstock.domain.job import Claimed, Created, Draft
from penstock.domain.outcome import Cause, Outcome, Settlement
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import admin, jobs
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.waiting import wait_until

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        "penstock.storage.sqlite.store",
        "penstock.storage.postgres.store",
        "penstock.storage.commands.jobs",
        "penstock.storage.commands.admin",
    ]
)
_LEASE = 60_000_000


@dataclass(frozen=True)
class Place:
    """Where a store is, in words that another process understands."""

    dialect: str
    address: str
    schema: str = "penstock"

    @classmethod
    def of(cls, store: Any) -> Place:
        if store.dialect == "postgres":
            return cls("postgres", store.url, store.schema)
        return cls("sqlite", store.path)

    def open(self, *, migrate: bool = False) -> Any:
        if self.dialect == "postgres":
            return PostgresStore(self.address, schema=self.schema, pool_size=2, migrate=migrate)
        return SqliteStore(self.address)


class Journal:
    """A file of lines, each of which is on the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def write(self, word: str, ids: list[str]) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, f"{word} {' '.join(ids)}\n".encode())
        os.fdatasync(self._file)

    def read(self, word: str) -> list[list[str]]:
        """The ids of each whole line that begins with the word."""
        text = self.path.read_text() if self.path.exists() else ""
        lines = [line.split(" ") for line in text[: text.rfind("\n") + 1].splitlines()]
        return [ids for first, *ids in lines if first == word]


@contextmanager
def started(work: Callable[..., None], *arguments: Any) -> Iterator[ForkServerProcess]:
    """A process that does `work`; whatever happens, it is gone afterwards."""
    process = _context.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
        process.close()


def enqueue_for_ever(place: Place, lane: int, journal: Path, *, patient: bool = False) -> None:
    """Create jobs in all the ways there are; each try is written down before, each answer after it."""
    store, notes, ids = place.open(), Journal(journal), _id_source()
    while True:
        drafts = _some_drafts(ids, lane)
        mine = [draft.id for draft in drafts]
        notes.write("try", mine)
        answers: list[Created] = []
        while not answers:
            try:
                answers = store.run(jobs.create(drafts))
            except StoreUnavailable:
                notes.write("unavailable", [])
                if not patient:
                    raise
        assert [answer.job_id for answer in answers] == mine
        notes.write("ok", mine)


def open_and_create(place: Place, signal: Path) -> None:
    """When the signal is there, open a store that nobody has set up, and use it."""
    store, ids = place.open(migrate=True), _id_source()
    wait_until(signal.exists, "all have come")
    store.open()
    lane = store.run(admin.register([Definition("work")]))["work", 1]
    store.run(jobs.create([_draft(ids, lane)]))


def create_claim_and_settle(place: Place, lane: int, journal: Path, share: int) -> None:
    """Create a share of the jobs one by one, and claim and settle until those of all are done."""
    store, notes, ids = place.open(), Journal(journal), _id_source()
    worker = ids.new_id()
    store.run(jobs.register_worker(WorkerInfo(worker, "worker", "here", os.getpid(), (lane,)), _LEASE))
    left = share
    quiet = 0
    while quiet < 3:
        if left:
            n = min(left, random.choice((1, 1, 1, 5)))
            store.run(jobs.create([_draft(ids, lane) for _ in range(n)]))
            left -= n
        claimed = store.run(jobs.claim(worker, [lane], random.randint(1, 12)))
        if claimed:
            notes.write("claimed", [each.job_id for each in claimed])
            report = store.run(jobs.settle(worker, [_success(each) for each in claimed]))
            assert len(report.applied) == len(claimed)
        store.run(jobs.heartbeat(worker, _LEASE))
        quiet = 0 if claimed or left else quiet + 1
    notes.write("done", [])


def _some_drafts(ids: IdSource, lane: int) -> list[Draft]:
    kind = random.randrange(4)
    if kind == 0:
        return [_draft(ids, lane) for _ in range(7)]
    if kind == 1:
        key = ids.new_id()
        return [_draft(ids, lane, idempotency_key=key, params_digest="d", unique=key, tags=("a", "b"))]
    if kind == 2:
        return [_draft(ids, lane, concurrency_key=f"k{n % 2}", delay=n % 2) for n in range(3)]
    return [_draft(ids, lane)]


def _draft(ids: IdSource, lane: int, **facts: Any) -> Draft:
    return Draft(ids.new_id(), lane, "work", '{"n": 1}', 10, 3, **facts)


def _success(claimed: Claimed) -> Settlement:
    return Settlement(claimed.job_id, claimed.fence, Outcome(Trigger.SUCCEED, Cause.RETURNED), Status.SUCCEEDED)


def _id_source() -> IdSource:
    return IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
