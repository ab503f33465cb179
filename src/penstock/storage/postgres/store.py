"""The PostgreSQL store: a schema in a database, any number of processes on any number of hosts.

No state is kept in a session, so that poolers in transaction mode work; ownership and leadership are rows.
Serialization failures and deadlocks start a plan again from its beginning.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from penstock.domain.errors import InvalidInput, StoreError, StoreUnavailable
from penstock.domain.plan import Plan, Rows, Statement
from penstock.storage import migrations
from penstock.storage.interruption import OngoingCalls
from penstock.storage.migrations import newest
from penstock.storage.postgres import schema as postgres_schema
from penstock.storage.postgres.caller_transactions import AsyncCallerConnection, CallerConnection
from penstock.storage.postgres.connections import (
    AsyncPooledConnection,
    IdleConnections,
    PooledConnection,
    acut_at,
    cut_at,
)
from penstock.storage.postgres.doorbell import NOTIFY, PostgresDoorbell, channel
from penstock.storage.postgres.errors import connection_broke, is_serialization, translated
from penstock.storage.postgres.insert_batching import TaskBatches, ThreadBatches
from penstock.storage.postgres.session import AsyncConnection, Connection, begin_session, bound, session_of
from penstock.storage.statements import Catalogue

T = TypeVar("T")

_log = logging.getLogger("penstock.store")

_TRIES = 6
_IDLE_MILLISECONDS = 10_000
"""A process that stops in the middle of a transaction keeps its locks no longer than this."""
_POOL_SECONDS = 10.0
_FOLLOW_UP_PAUSES = (0.002, 0.008, 0.032)
"""Seconds before a follow-up is tried again because another transaction holds what it needs."""
_NOW = "coalesce(%(now)s::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
_abandoned: list[object] = []
"""Pools inherited by a fork: closing them here would end the parent's sessions."""


class PostgresStore:
    """Keeps everything in one schema of a PostgreSQL database."""

    dialect = "postgres"
    known_schema: int = newest("postgres")

    def __init__(
        self,
        url: str,
        *,
        schema: str = "penstock",
        pooler: bool = False,
        pool_size: int = 10,
        statement_seconds: float = 30.0,
        migrate: bool = False,
        patience: float | None = None,
    ) -> None:
        """`patience`: the seconds after which every wait ends, that for a connection too, whatever the URL says."""
        self.schema = schema
        self.url = url
        self._conninfo = _conninfo(url, pooler=pooler, statement_seconds=statement_seconds)
        if patience is not None:
            self._conninfo = make_conninfo(self._conninfo, **_impatient(patience))
        self._patience = patience
        self._pooler = pooler
        self._pool_size = pool_size
        self._migrate = migrate
        self._ring = (NOTIFY, {"channel": channel(schema)})
        # The driver searches names for placeholders as well.
        name = migrations.quoted(schema).replace("%", "%%")
        fields = {"schema": name, "now": _NOW}
        self._hopeful = Catalogue("postgres", {**fields, "unless_there": ""})
        self._careful = Catalogue("postgres", {**fields, "unless_there": "ON CONFLICT (id) DO NOTHING"})
        self._mine = _Mine()

    @property
    def place(self) -> str:
        """What names this store in messages; no password in it."""
        facts = conninfo_to_dict(self._conninfo)
        return f"PostgreSQL schema {self.schema!r} in {facts.get('dbname')!r} on {facts.get('host', 'this host')}"

    @property
    def pooled(self) -> bool:
        """Whether connections go through a pooler in transaction mode."""
        return self._pooler

    def open(self) -> None:
        """Connect and look whether the schema is the one this code knows; migrate first when told to."""
        self._notice_fork()
        if self._migrate:
            self.migrate()
        # Not from the pool, which would wait for its timeout instead of raising the reason.
        with translated(self.place), self.connect() as connection:
            postgres_schema.check(connection, self.schema, self.place)

    def migrate(self) -> list[int]:
        """Bring the schema up to date; any number of processes may try concurrently."""
        with translated(self.place), psycopg.connect(self._conninfo) as connection:
            return postgres_schema.migrate(connection, self.schema, self.place)

    def close(self) -> None:
        """Close what this process opened; the next use opens the store again."""
        self._notice_fork()
        if self._mine.pool is not None:
            self._mine.pool.close()
        self._mine.pool = None

    async def aclose(self) -> None:
        pool = self._mine.async_pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()
        await asyncio.to_thread(self.close)

    def connect(self) -> Connection:
        """Return a connection outside the pool, for statements that are run once."""
        with translated(self.place):
            return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan in the caller's thread, and repeat it after serialization failures."""
        self._notice_fork()
        ongoing = self._mine.ongoing
        if not ongoing.begin():
            # The interrupted call may hold the pool's locks, or lead a batch.
            return self._run(plan, now, apart=True)
        try:
            return self._run(plan, now) if plan.joint is None else self._mine.threads.run(plan, now, self._run)
        finally:
            ongoing.end()

    def _run(self, plan: Plan[T], now: int | None, *, apart: bool = False) -> T:
        """`apart`: on a connection that is opened for this call, not on one of the pool."""
        end = self._end()
        for attempt in range(_TRIES):
            progress = _Progress()
            try:
                lent = self._opened() if apart else PooledConnection(self._pool(), plan.name)
                with lent as connection, cut_at(end, connection):
                    execute = self._executor(connection, plan, now, progress, hopeful=attempt == 0)
                    answer = _drive(connection, plan, execute, progress)
            except (psycopg.Error, UnicodeError) as error:
                if not _again(error, plan, progress, attempt) or _is_past(end):
                    with translated(self.place):
                        raise
            else:
                for follow_up in progress.follow_ups:
                    self._follow_up(follow_up, now, apart=apart)
                return answer
            time.sleep(_pause(attempt))
        raise StoreUnavailable(
            f"{self.place} could not finish {plan.name}: it conflicted with other transactions every time."
        )

    def _follow_up(self, plan: Plan[Any], now: int | None, *, apart: bool) -> None:
        """Carry out the follow-up of a committed plan; a duty repeats what fails."""
        for pause in (*_FOLLOW_UP_PAUSES, None):
            try:
                left = self._run(plan, now, apart=apart)
            except StoreError as error:
                _log.debug("%s was committed, and its follow-up is left to a duty: %s", plan.name, error)
                return
            if left is None or pause is None:
                return
            time.sleep(pause)
            plan = left

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan without blocking the event loop."""
        self._notice_fork()
        if plan.joint is None:
            return await self._arun(plan, now)
        return await self._mine.coroutines().run(plan, now, self._arun)

    async def _arun(self, plan: Plan[T], now: int | None) -> T:
        end = self._end()
        for attempt in range(_TRIES):
            progress = _Progress()
            try:
                async with AsyncPooledConnection(await self._async_pool(), plan.name) as connection:
                    with acut_at(end, connection):
                        answer = await _adrive(connection, plan, self._statement(now, hopeful=attempt == 0), progress)
            except (psycopg.Error, UnicodeError) as error:
                if not _again(error, plan, progress, attempt) or _is_past(end):
                    with translated(self.place):
                        raise
            else:
                for follow_up in progress.follow_ups:
                    await self._afollow_up(follow_up, now)
                return answer
            await asyncio.sleep(_pause(attempt))
        raise StoreUnavailable(
            f"{self.place} could not finish {plan.name}: it conflicted with other transactions every time."
        )

    async def _afollow_up(self, plan: Plan[Any], now: int | None) -> None:
        """As `_follow_up`, without blocking the event loop."""
        for pause in (*_FOLLOW_UP_PAUSES, None):
            try:
                left = await self._arun(plan, now)
            except StoreError as error:
                _log.debug("%s was committed, and its follow-up is left to a duty: %s", plan.name, error)
                return
            if left is None or pause is None:
                return
            await asyncio.sleep(pause)
            plan = left

    def run_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan on the caller's own connection, inside its transaction; it is not repeated."""
        return CallerConnection(connection).run(plan, self._statement(now), self._ring)

    async def arun_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        return await (await AsyncCallerConnection.of(connection)).run(plan, self._statement(now), self._ring)

    def reserve(self, seconds: float) -> PostgresStore:
        """Return the same schema over a separate connection with separate deadlines."""
        return PostgresStore(
            self.url, schema=self.schema, pooler=self._pooler, pool_size=1, statement_seconds=seconds,
            patience=seconds,
        )  # fmt: skip

    def extend_lease(self, worker: str, lease: int, *, now: int | None = None) -> bool:
        """No caller can keep a worker's row from its heartbeat, so leases are extended there and nowhere else."""
        return False

    def forget_extension(self, worker: str) -> None:
        """There is none."""

    def doorbell(self) -> PostgresDoorbell:
        """Return a bell for every process on this database; behind a pooler it reaches none."""
        return PostgresDoorbell(self._conninfo, self.schema, deaf=self._pooler)

    def _statement(
        self, now: int | None, *, hopeful: bool = False
    ) -> Callable[[Statement], tuple[str, dict[str, Any]]]:
        """`hopeful`: assume that created rows do not exist yet. Where that is wrong, the plan is repeated."""
        common = {"now": None if now is None else str(now)}
        catalogue = self._hopeful if hopeful else self._careful

        def prepare(statement: Statement) -> tuple[str, dict[str, Any]]:
            text = catalogue[statement.name, statement.parts, statement.order].text
            return text, bound(common, statement)

        return prepare

    def _executor(
        self, connection: Connection, plan: Plan[Any], now: int | None, progress: _Progress, *, hopeful: bool
    ) -> Callable[[Statement], Rows]:
        prepare, session = self._statement(now, hopeful=hopeful), session_of(connection)

        def execute(statement: Statement) -> Rows:
            progress.note(statement)
            return session.rows(connection.wait(session.send(connection, *prepare(statement), comes_again=plan.writes)))

        return execute

    @contextmanager
    def _opened(self) -> Iterator[Connection]:
        """A connection for one plan."""
        with psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None) as connection:
            begin_session(connection, prepares=False)
            yield connection

    def _pool(self) -> ConnectionPool[Connection]:
        if self._mine.pool is None:
            with self._mine.lock:
                if self._mine.pool is None:
                    pool = ConnectionPool(
                        self._conninfo, open=False, configure=self._begin_session, **self._pool_settings()
                    )
                    pool._pool = IdleConnections()
                    pool.open()
                    self._mine.pool = pool
        return self._mine.pool

    async def _async_pool(self) -> AsyncConnectionPool[AsyncConnection]:
        loop = asyncio.get_running_loop()
        pool = self._mine.async_pools.get(loop)
        if pool is None:
            pool = AsyncConnectionPool(
                self._conninfo, open=False, configure=self._abegin_session, **self._pool_settings()
            )
            pool._pool = IdleConnections()
            self._mine.async_pools[loop] = pool
            await pool.open()
        return pool

    def _pool_settings(self) -> dict[str, Any]:
        patience = self._patience or _POOL_SECONDS
        return {
            "min_size": 0,
            "max_size": self._pool_size,
            # The driver prepares nothing: what it does, it undoes at times, and all of ours with it.
            "kwargs": {"autocommit": True, "prepare_threshold": None},
            "timeout": patience,
            # A pool that fails to connect waits longer each time and blocks other attempts: restart it soon.
            "reconnect_timeout": patience / 2,
            "name": "penstock",
        }

    def _begin_session(self, connection: Connection) -> None:
        begin_session(connection, prepares=not self._pooler)

    async def _abegin_session(self, connection: AsyncConnection) -> None:
        begin_session(connection, prepares=not self._pooler)

    def _end(self) -> float | None:
        """When the connection is cut and nothing is tried again, by the monotonic clock."""
        return None if self._patience is None else time.monotonic() + self._patience

    def _notice_fork(self) -> None:
        if self._mine.pid != os.getpid():
            _abandoned.append(self._mine)
            self._mine = _Mine()


class _Mine:
    """The state of one process: after a fork the child starts with a new one."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.ongoing = OngoingCalls()
        self.lock = threading.Lock()
        self.pool: ConnectionPool[Connection] | None = None
        self.async_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncConnectionPool[AsyncConnection]]
        self.async_pools = WeakKeyDictionary()
        self.threads = ThreadBatches()
        self._coroutines: WeakKeyDictionary[asyncio.AbstractEventLoop, TaskBatches] = WeakKeyDictionary()

    def coroutines(self) -> TaskBatches:
        """Return the batches of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._coroutines.get(loop)
        return self._coroutines.setdefault(loop, TaskBatches()) if found is None else found


class _Progress:
    """The progress of a plan, and its follow-up plans."""

    __slots__ = ("follow_ups", "may_be_committed")

    def __init__(self) -> None:
        self.may_be_committed = False
        """Whether its changes may have been committed when the connection broke."""
        self.follow_ups: list[Plan[Any]] = []

    def note(self, statement: Statement) -> None:
        if statement.then is not None:
            self.follow_ups.append(statement.then)


def _drive(
    connection: Connection,
    plan: Plan[T],
    execute: Callable[[Statement], Rows],
    progress: _Progress,
) -> T:
    if not plan.writes:
        return _steps(plan, execute)
    steps = plan.steps()
    try:
        first = next(steps)
        if first.alone:
            progress.may_be_committed = True
            first = steps.send(execute(first))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    with connection.transaction():
        answer = _steps(plan, execute, steps, first)
        progress.may_be_committed = True
    return answer


async def _adrive(
    connection: AsyncConnection,
    plan: Plan[T],
    prepare: Callable[[Statement], tuple[str, dict[str, Any]]],
    progress: _Progress,
) -> T:
    steps = plan.steps()
    try:
        statement = next(steps)
        progress.may_be_committed = statement.alone
        while not plan.writes or statement.alone:
            statement = steps.send(await _aexecute(connection, plan, *prepare(statement)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    answer: list[T] = []
    async with connection.transaction():
        try:
            while True:
                progress.note(statement)
                statement = steps.send(await _aexecute(connection, plan, *prepare(statement)))
        except StopIteration as end:
            answer.append(end.value)
        progress.may_be_committed = True
    return answer[0]


async def _aexecute(connection: AsyncConnection, plan: Plan[Any], text: str, values: dict[str, Any]) -> Rows:
    session = session_of(connection)
    return session.rows(await connection.wait(session.send(connection, text, values, comes_again=plan.writes)))


def _steps(
    plan: Plan[T], execute: Callable[[Statement], Rows], steps: Any = None, statement: Statement | None = None
) -> T:
    steps = steps or plan.steps()
    try:
        current = statement or next(steps)
        while True:
            current = steps.send(execute(current))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _again(error: Exception, plan: Plan[Any], progress: _Progress, attempt: int) -> bool:
    """Return whether a plan may be repeated after this error."""
    if is_serialization(error):
        return attempt < _TRIES - 1
    if isinstance(error, psycopg.errors.UniqueViolation):
        return attempt == 0
    if connection_broke(error):
        return attempt < 2 and (plan.repeatable or not progress.may_be_committed)
    return False


def _is_past(end: float | None) -> bool:
    return end is not None and time.monotonic() >= end


def _pause(attempt: int) -> float:
    return random.uniform(0.001, 0.005) * (1 << attempt)


def _conninfo(url: str, *, pooler: bool, statement_seconds: float) -> str:
    """The connection string with keepalives and deadlines, where the user has not said otherwise."""
    defaults: dict[str, Any] = {
        "application_name": "penstock", "connect_timeout": 10, "target_session_attrs": "read-write",
        "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }  # fmt: skip
    given = _read(url)
    if not pooler:
        milliseconds = round(statement_seconds * 1000)
        options = (
            f"-c statement_timeout={milliseconds} -c idle_in_transaction_session_timeout={_IDLE_MILLISECONDS} "
            "-c synchronous_commit=on -c timezone=UTC "
            # Plans that do not change with statistics taken at a bad moment: every statement has its index.
            "-c jit=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan"
        )
        defaults["options"] = f"{options} {given.pop('options', '')}".strip()
    return make_conninfo(**{**defaults, **given})


def _impatient(seconds: float) -> dict[str, Any]:
    """Deadlines for a connection on which a late answer is worth nothing. To connect takes several answers."""
    return {"tcp_user_timeout": max(1, round(seconds * 1000))}


def _read(url: str) -> dict[str, Any]:
    """The parts of a URL. Parts that libpq would quote in an error may belong to a password, and are not shown."""
    try:
        parts = conninfo_to_dict(url)
        problem = "" if _is_port(parts.get("port")) else "its port is no number"
    except psycopg.ProgrammingError as error:
        parts, problem = {}, str(error).partition('"')[0].strip().rstrip(":")
    if problem:
        raise InvalidInput(
            f"The PostgreSQL URL cannot be read: {problem}.",
            hint="Write postgresql://user:password@host:port/database; a password has %40 for @, %2F for / and so on.",
        ) from None
    return parts


def _is_port(value: Any) -> bool:
    return all(part.isdigit() for part in str(value or "").split(",") if part)
