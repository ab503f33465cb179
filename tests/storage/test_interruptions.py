"""Calls that a signal handler or a finalizer makes while its own thread is in the middle of another call."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import psycopg
import pytest

from penstock.domain.errors import InvalidInput, PenstockError
from penstock.storage.commands import admin, jobs
from tests.storage.concurrency import begin
from tests.storage.kit import Kit
from tests.storage.tables import statuses
from tests.waiting import wait_until

PROGRAM = """
import asyncio, signal, sys
from penstock import Penstock
from penstock.domain.errors import PenstockError

url, way = sys.argv[1:]
app = Penstock(url)

@app.job("work")
def work() -> None: ...

def interrupt(*_):
    try:
        if way == "await":
            asyncio.run(work.aenqueue())
        elif way == "read":
            app.jobs()
        else:
            work.enqueue()
        print("handler done", flush=True)
    except PenstockError as error:
        print("handler", type(error).__name__, error.hint, flush=True)

signal.signal(signal.SIGUSR1, interrupt)
work.enqueue()
print("ready", flush=True)
sys.stdin.readline()
work.enqueue()
print("caller done", flush=True)
work.enqueue()
app.close()
"""


@pytest.mark.parametrize("way", ["enqueue", "await", "read"])
def test_a_signal_handler_that_interrupts_a_call_never_waits_for_it(shared_store: Any, way: str) -> None:
    sqlite = shared_store.dialect == "sqlite"
    url = f"sqlite:///{shared_store.path}" if sqlite else f"{shared_store.url}?schema={shared_store.schema}"

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        first = ""
        try:
            assert program.stdout.readline() == "ready\n"
            with locked(shared_store):
                program.stdin.write("go\n")
                program.stdin.flush()
                wait_until(lambda: is_waiting(shared_store, program.pid), "the program waits for the lock")
                program.send_signal(signal.SIGUSR1)
                if sqlite or way == "read":
                    first = program.stdout.readline()
            lines = program.stdout.read().splitlines()
        finally:
            program.kill()

    refused = sqlite and way != "read"
    if sqlite or way == "read":
        lines.insert(0, first.rstrip())
    assert lines[0].startswith("handler InvalidInput Set a flag" if refused else "handler done")
    assert lines[1:] == ["caller done"]
    assert sum(statuses(shared_store).values()) == (3 if refused or way == "read" else 4)


@pytest.mark.parametrize("shared_store", ["sqlite-file"], indirect=True)
def test_a_finalizer_that_interrupts_a_commit_is_refused(shared_store: Any) -> None:
    kit = Kit(shared_store)
    kit.define()
    told: list[BaseException | None] = []
    kept = [Last(lambda: kit.create(), told)]

    def collect() -> bool:
        kept.clear()
        return False

    kit.store._writer().set_commit_hook(collect)

    begin(lambda: kit.create()).result(timeout=20)

    (error,) = told
    assert isinstance(error, InvalidInput)
    assert "finalizer" in error.message
    kit.store._writer().set_commit_hook(None)
    assert kit.create()
    assert sum(statuses(kit.store).values()) == 2


@pytest.mark.parametrize("shared_store", ["postgres-18"], indirect=True)
def test_a_finalizer_that_interrupts_the_pool_uses_a_connection_of_its_own(shared_store: Any) -> None:
    kit = Kit(shared_store)
    kit.define()
    kit.create()
    told: list[BaseException | None] = []
    kept = [Last(lambda: kit.create(), told)]
    pool = kit.store._pool()
    pool._lock = Interrupted(pool._lock, kept.clear)

    begin(lambda: kit.run(admin.clock())).result(timeout=20)

    assert told == [None]
    assert sum(statuses(kit.store).values()) == 2


def test_a_call_that_was_left_by_an_exception_out_of_a_handler_does_not_refuse_the_next_one(kit: Kit) -> None:
    kit.define()

    def leave() -> None:
        kit.store._mine.ongoing.begin()

    leave()

    assert kit.create()


async def test_a_task_is_not_taken_for_an_interruption(kit: Kit) -> None:
    kit.define()
    plans = [jobs.create([kit.draft()]) for _ in range(8)]

    made = await asyncio.gather(*(kit.store.arun(plan, now=kit.now) for plan in plans))
    kit.create()
    await kit.store.aclose()

    assert all(created.created for (created,) in made)


class Last:
    """Makes a call when it is collected, and notes how that ended."""

    def __init__(self, call: Callable[[], object], told: list[BaseException | None]) -> None:
        self._call = call
        self._told = told

    def __del__(self) -> None:
        try:
            self._call()
        except PenstockError as error:
            self._told.append(error)
        else:
            self._told.append(None)


class Interrupted:
    """A lock, and what happens as soon as it is held."""

    def __init__(self, lock: threading.Lock, happens: Callable[[], None]) -> None:
        self._lock = lock
        self._happens = happens

    def __enter__(self) -> None:
        self._lock.acquire()
        self._happens()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@contextmanager
def locked(store: Any) -> Iterator[None]:
    """No job can be created."""
    if store.dialect == "sqlite":
        held = apsw.Connection(store.path)
        held.execute("BEGIN IMMEDIATE")
        yield
        held.execute("ROLLBACK")
        held.close()
        return
    with psycopg.connect(store.url) as connection:
        connection.execute(f"LOCK TABLE {store.schema}.job IN EXCLUSIVE MODE")
        yield
        connection.rollback()


def is_waiting(store: Any, pid: int) -> bool:
    if store.dialect == "sqlite":
        # Asleep between two looks at the lock.
        with open(f"/proc/{pid}/wchan", encoding="ascii") as wchan:
            return "nanosleep" in wchan.read()
    with psycopg.connect(store.url) as connection:
        text = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = %s::regclass"
        return connection.execute(text, (f"{store.schema}.job",)).fetchone() != (0,)
