"""The SQLite store: one file, any number of processes on one host.

Each process has one connection that writes and a few that read. Writers that arrive during a commit are
grouped into the next transaction, so that many callers share one flush to disk. `apsw` brings its own
SQLite; a `sqlite3` connection to our file in the same process would lose locks and data, so none is taken.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import compress
from typing import Any, TypeVar

import apsw

from penstock.domain.errors import InvalidInput, StoreUnavailable
from penstock.domain.plan import Plan, Rows, Statement
from penstock.storage import forking, migrations
from penstock.storage.forking import Gate
from penstock.storage.interruption import OngoingCalls, Waker
from penstock.storage.migrations import newest
from penstock.storage.sqlite import files, trigger_programs
from penstock.storage.sqlite.caller_transactions import cursor_on, ring_at_commit
from penstock.storage.sqlite.clock import Clock, HostClock
from penstock.storage.sqlite.doorbell import SqliteDoorbell
from penstock.storage.sqlite.errors import translated
from penstock.storage.sqlite.leases import LeaseFiles
from penstock.storage.sqlite.memory import SharedMemoryStore
from penstock.storage.statements import Catalogue, text_of
from penstock.storage.write_queue import Task, WriteQueue

T = TypeVar("T")
Executing = apsw.Connection | apsw.Cursor

_BUSY_SECONDS = 30.0
_FORK_SECONDS = 10.0
_GROUP_SECONDS = 0.04
_BELL_SECONDS = 1.0
_READERS = 2
_abandoned: list[object] = []
"""Connections inherited by a fork: closing them here would drop the parent's locks."""


class SqliteStore:
    """Keeps everything in one SQLite file, or in memory for tests."""

    dialect = "sqlite"
    known_schema: int = newest("sqlite")

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        busy_seconds: float = _BUSY_SECONDS,
    ) -> None:
        self.path = path
        self.memory: bool = path == ":memory:"
        self._clock = clock or HostClock()
        self._busy_seconds = busy_seconds
        self._catalogue = Catalogue("sqlite", {})
        self._id = secrets.token_hex(8)
        self._bell = self.doorbell()
        self._orphaned = False
        self._leases = None if self.memory else LeaseFiles(path, self._clock.boot)
        self._mine = _Mine()
        forking.watch(self)

    @property
    def place(self) -> str:
        """What names this store in messages."""
        return "SQLite in memory" if self.memory else f"SQLite file {self.path}"

    def open(self) -> None:
        """Create the file if need be, and bring its schema up to date."""
        self._notice_fork()
        if not self._mine.ongoing.begin():
            raise self._interruption("open")
        try:
            with self._mine.leading():
                self._writer()
        finally:
            self._mine.ongoing.end()

    def close(self) -> None:
        """Close what this process opened; the next use opens the store again."""
        self._notice_fork()
        if not self._mine.ongoing.begin():
            raise self._interruption("close")
        try:
            self._mine.threads.shutdown(wait=True)
            with self._mine.leading():
                self._mine.close_connections()
            self._mine.renew_threads()
        finally:
            self._mine.ongoing.end()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan in the caller's thread."""
        self._notice_fork()
        if not plan.writes and not self.memory:
            return self._read(plan, now)
        if not self._mine.ongoing.begin():
            raise self._interruption(plan.name)
        task = Task(plan, now, turn=Waker())
        try:
            self._mine.carry_out(task, self._commit_group)
        finally:
            self._mine.ongoing.end()
        return task.answer()  # type: ignore[no-any-return]

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan without blocking the event loop."""
        self._notice_fork()
        if self._mine.ongoing.is_interrupted:
            raise self._interruption(plan.name)
        loop = asyncio.get_running_loop()
        if not plan.writes and not self.memory:
            return await loop.run_in_executor(self._mine.threads, self._read, plan, now)
        task = Task(plan, now)
        task.wake = _waker(loop, future := loop.create_future())
        self._mine.waiting.append(task)
        if not self._mine.flush_planned:
            self._mine.flush_planned = True
            self._mine.threads.submit(self._flush)
        await future
        return task.answer()  # type: ignore[no-any-return]

    def run_on(self, connection: apsw.Connection, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan on the caller's own apsw connection, inside its transaction."""
        cursor = cursor_on(connection, self.path, self.place)
        answer: list[T] = []
        with connection:
            answer.append(self._drive(cursor, plan, self._values(now)))
        if plan.writes:
            ring_at_commit(connection, self._bell.ring)
        return answer[0]

    async def arun_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        return self.run_on(connection, plan, now=now)

    def reserve(self, seconds: float) -> SqliteStore | SharedMemoryStore:
        """Return the same file over separate connections; a store in memory has only its own."""
        if self.memory:
            return SharedMemoryStore(self)
        return SqliteStore(self.path, clock=self._clock, busy_seconds=seconds)

    def extend_lease(self, worker: str, lease: int, *, now: int | None = None) -> bool:
        """Extend a lease next to the file, while another connection keeps the file locked."""
        steady = self._clock.read()[1] if now is None else now
        return self._leases is not None and self._leases.extend(worker, steady + lease, steady)

    def forget_extension(self, worker: str) -> None:
        """A heartbeat was written again."""
        if self._leases is not None:
            self._leases.forget(worker)

    def _extended_until(self, *worker: object) -> int:
        return 0 if self._leases is None else self._leases.until(worker[0])

    def doorbell(self) -> SqliteDoorbell:
        """Return a bell for the processes of this host."""
        if self.memory:
            return SqliteDoorbell(f":memory:{self._id}")
        return SqliteDoorbell(self.path, lambda: self.reserve(_BELL_SECONDS))

    def _interruption(self, name: str) -> InvalidInput:
        """Return the error of a call that has interrupted another one of its thread: waiting for it would never end."""
        return InvalidInput(
            f"{name} was called by a signal handler or a finalizer that has interrupted another call of its "
            f"thread to {self.place}; nothing was written.",
            hint="Set a flag or use loop.add_signal_handler(), and make the call after the handler has returned.",
        )

    def _read(self, plan: Plan[T], now: int | None) -> T:
        answer: list[T] = []
        if self._mine.writer is None:
            self.open()
        with self._mine.gate:
            try:
                connection = self._mine.readers.pop()
            except IndexError:
                connection = self._connect()
            try:
                with translated(self.place), connection:
                    answer.append(self._drive(connection, plan, self._values(now)))
            finally:
                self._mine.readers.append(connection)
        return answer[0]

    def _flush(self) -> None:
        self._mine.flush_planned = False
        self._mine.ongoing.begin()
        try:
            while self._mine.waiting:
                with self._mine.leading():
                    self._commit_group()
        finally:
            self._mine.ongoing.end()

    def _commit_group(self) -> None:
        """Run what waits in one transaction and flush once; the lock is held. Errors go to the tasks."""
        group: list[Task] = []
        try:
            connection = self._writer()
            with translated(self.place):
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._fill_group(connection, group)
                    connection.execute("COMMIT")
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
        except Exception as error:
            if not group and self._mine.waiting:
                group.append(self._mine.waiting.popleft())
            for task in group:
                task.fail(error)
        except BaseException:
            for task in group:
                task.fail(StoreUnavailable("The process was interrupted while it wrote; try again."))
            raise
        finally:
            for task in group:
                task.finish()

    def _fill_group(self, connection: apsw.Connection, group: list[Task]) -> None:
        """Run tasks until none wait or the time is over; one that fails is undone without hurting the others."""
        deadline = time.monotonic() + _GROUP_SECONDS
        while self._mine.waiting and (not group or time.monotonic() < deadline):
            group.append(task := self._mine.waiting.popleft())
            values = self._values(task.now)
            if len(group) == 1 and not self._mine.waiting:
                task.result = self._drive(connection, task.plan, values)
                continue
            try:
                with translated(self.place), connection:
                    task.result = self._drive(connection, task.plan, values)
            except Exception as error:
                task.fail(error)
                if not connection.in_transaction:
                    raise

    def _drive(self, connection: Executing, plan: Plan[T], values: dict[str, Any]) -> T:
        steps = plan.steps()
        try:
            statement = next(steps)
            while True:
                rows = self._execute(connection, statement, values)
                if statement.then is not None:
                    self._drive(connection, statement.then, values)
                statement = steps.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _execute(self, connection: Executing, statement: Statement, values: dict[str, Any]) -> Rows:
        entry = self._catalogue[statement.name, statement.parts, statement.order]
        values = {**values, **statement.values}
        for name, value in statement.values.items():
            if isinstance(value, list | tuple):
                values[name] = json.dumps(value)
        if statement.columns is not None:
            columns = statement.columns
            if entry.wanted:
                columns = _only(columns, {row[0] for row in connection.execute(entry.wanted, values)})
            if entry.each:
                rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
                connection.executemany(entry.each, ({**values, **row} for row in rows))
            else:
                _hand_in(connection, statement.name, columns)
        if entry.at_once:
            trigger_programs.carry_out(connection, entry, values)
        rows_out: Rows = []
        for step in entry.steps:
            rows_out = connection.execute(step, values).fetchall()
        return rows_out

    def _values(self, now: int | None) -> dict[str, Any]:
        if now is not None:
            return {"now": now, "steady": now, "boot": self._clock.boot}
        wall, steady = self._clock.read()
        return {"now": wall, "steady": steady, "boot": self._clock.boot}

    def _writer(self) -> apsw.Connection:
        if self._mine.writer is None:
            if self._orphaned:
                raise StoreUnavailable(
                    "SQLite in memory belongs to the process that opened it, and this is a fork of that one.",
                    hint="Use a file, or open the store after the fork.",
                )
            if not self.memory:
                files.refuse_network_file(self.path)
            with translated(self.place):
                connection = self._connect()
                migrations.migrate_sqlite(connection, self.place)
            self._mine.writer = connection
        return self._mine.writer

    def _connect(self) -> apsw.Connection:
        with translated(self.place):
            connection = files.connect(self.path)
            connection.set_busy_handler(_patience(self._busy_seconds))
            migrations.refuse_foreign(connection, self.place)
            # A new file; a batch touches fewer pages when they are larger, and a single job hardly more bytes.
            connection.execute("PRAGMA page_size = 8192")
            _write_ahead(connection, self._busy_seconds)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute(text_of("sqlite", "temp"))
            connection.create_scalar_function("extended_until", self._extended_until, 1)
        return connection

    def before_fork(self) -> None:
        """Close everything, so that the child inherits neither connections nor locks."""
        mine = self._mine
        mine.still = mine.lock.acquire(timeout=_FORK_SECONDS)
        if mine.still and not mine.gate.shut():
            mine.lock.release()
            mine.pass_on()
            mine.still = False
        if mine.still and not self.memory:
            mine.close_connections()

    def after_fork(self, *, child: bool) -> None:
        mine = self._mine
        if child:
            self._notice_fork()
        elif mine.still:
            mine.still = False
            mine.gate.reopen()
            mine.lock.release()
            mine.pass_on()

    def _notice_fork(self) -> None:
        mine = self._mine
        if mine.pid != os.getpid():
            _abandoned.append(mine)
            self._orphaned = self.memory and (self._orphaned or mine.writer is not None)
            self._mine = _Mine()


class _Mine(WriteQueue):
    """The state of one process: after a fork the child starts with a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.pid = os.getpid()
        self.ongoing = OngoingCalls()
        self.flush_planned = False
        self.writer: apsw.Connection | None = None
        self.readers: list[apsw.Connection] = []
        self.renew_threads()
        self.gate = Gate()
        """Readers pass through it; a fork waits until all are out."""
        self.still = False
        """The process is about to fork."""

    def renew_threads(self) -> None:
        self.threads = ThreadPoolExecutor(_READERS, thread_name_prefix="penstock-sqlite")

    def close_connections(self) -> None:
        for connection in (*self.readers, self.writer):
            if connection is not None:
                connection.close()
        self.readers.clear()
        self.writer = None


def _only(columns: Mapping[str, Sequence[Any]], wanted: set[Any]) -> dict[str, Sequence[Any]]:
    """The rows whose first value is wanted."""
    chosen = [value in wanted for value in next(iter(columns.values()))]
    return {name: tuple(compress(values, chosen)) for name, values in columns.items()}


def _hand_in(connection: Executing, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
    """Put rows into the statement's own temporary table."""
    table, names = f"temp.in_{name}", ", ".join(columns)
    try:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names from our own code
    except apsw.SQLError:
        connection.execute(f"CREATE TABLE {table} ({names})")
    once = {
        column: values[0] if values else None
        for column, values in columns.items()
        if column != "id" and (not values or _are_same(values))
    }
    differing = columns.keys() - once.keys()
    if differing in ({"id"}, {"lane"}):
        # In one step: between rows other threads would take the interpreter's lock for long.
        shown = ", ".join("?" if column in once else "value" for column in columns)
        given = (*once.values(), json.dumps(columns[differing.pop()]))
        connection.execute(f"INSERT INTO {table} ({names}) SELECT {shown} FROM json_each(?)", given)  # noqa: S608
        return
    marks = ", ".join("?" * len(columns))
    count = max(map(len, columns.values()))
    rows = zip(*(values or (None,) * count for values in columns.values()), strict=True)
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)  # noqa: S608


def _write_ahead(connection: apsw.Connection, seconds: float) -> None:
    """Have the file written by a log. While another one sets a new file up, SQLite refuses this without waiting."""
    end = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.003)


def _patience(seconds: float) -> Callable[[int], bool]:
    """Return a busy handler that retries every few milliseconds for some seconds."""
    began = 0.0

    def wait(count: int) -> bool:
        nonlocal began
        if count == 0:
            began = time.monotonic()
        time.sleep(0.0005 if count < 20 else 0.003)
        return time.monotonic() - began < seconds

    return wait


def _waker(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> Callable[[], None]:
    def settle() -> None:
        if not future.done():
            future.set_result(None)

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle)

    return wake


def _are_same(values: Sequence[Any]) -> bool:
    return values.count(values[0]) == len(values)
