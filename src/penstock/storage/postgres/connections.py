"""Connections of a pool, lent for one use each, to whoever each of them suits best.

A connection that its server has closed is replaced before anything is sent on it. When one breaks in use, those that
are as old are replaced as well: they led to the same server. After a failover old connections lead to a server that
takes no writes: such a one is closed, and not lent again.
Ours are in autocommit mode, so that nothing is left to be committed when one is given back.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from penstock.storage.postgres.errors import connection_broke
from penstock.storage.postgres.session import AsyncConnection, Connection, session_of


class IdleConnections(deque[Any]):
    """IdleConnections connections of a pool.

    A session prepares a statement when it carries it out for the first time, which takes as long as many jobs do. So a
    plan gets a connection that has carried it out before, the one used last of these, or else one that knows the
    fewest plans: each plan finds its own, which others then leave to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        """The plan that is to be carried out next. Should somebody else come in between, it takes longer once."""
        self.replaced_at: float = float("-inf")
        """When all connections were replaced last, because one of them broke."""

    def append(self, connection: Any) -> None:
        self.appendleft(connection)

    def popleft(self) -> Any:
        best, least = 0, -1
        for place, connection in enumerate(self):
            plans = session_of(connection).plans
            if self.wanted in plans:
                best = place
                break
            if least < 0 or len(plans) < least:
                best, least = place, len(plans)
        found = self[best]
        del self[best]
        return found


class PooledConnection:
    """One for a thread."""

    __slots__ = ("_connection", "_plan", "_pool")

    def __init__(self, pool: ConnectionPool[Connection], plan: str) -> None:
        self._pool = pool
        self._plan = plan

    def __enter__(self) -> Connection:
        self._pool._pool.wanted = self._plan  # type: ignore[attr-defined]
        self._connection = self._pool.getconn()
        session = session_of(self._connection)
        for _ in range(self._pool.max_size):
            if not session.was_closed(self._connection):
                break
            self._connection.close()
            self._pool.putconn(self._connection)
            self._connection = self._pool.getconn()
            session = session_of(self._connection)
        session.plans.add(self._plan)
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._connection.close()
        self._pool.putconn(self._connection)
        if error is not None and _is_first_to_break(self._pool, self._connection, error):
            self._pool.drain()


class AsyncPooledConnection:
    """One for a task."""

    __slots__ = ("_connection", "_plan", "_pool")

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], plan: str) -> None:
        self._pool = pool
        self._plan = plan

    async def __aenter__(self) -> AsyncConnection:
        self._pool._pool.wanted = self._plan  # type: ignore[attr-defined]
        self._connection = await self._pool.getconn()
        session = session_of(self._connection)
        for _ in range(self._pool.max_size):
            if not session.was_closed(self._connection):
                break
            await self._connection.close()
            await self._pool.putconn(self._connection)
            self._connection = await self._pool.getconn()
            session = session_of(self._connection)
        session.plans.add(self._plan)
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            await self._connection.close()
        await self._pool.putconn(self._connection)
        if error is not None and _is_first_to_break(self._pool, self._connection, error):
            await self._pool.drain()


def _is_first_to_break(pool: Any, connection: Connection | AsyncConnection, error: BaseException) -> bool:
    """Whether a connection broke that is as old as those in the pool: they were not replaced since it was opened."""
    if not isinstance(error, Exception) or not connection_broke(error):
        return False
    idle: IdleConnections = pool._pool
    if session_of(connection).begun_at <= idle.replaced_at:
        return False
    idle.replaced_at = time.monotonic()
    return True


_NEVER = nullcontext()


def cut_at(end: float | None, connection: psycopg.Connection[Any]) -> AbstractContextManager[None]:
    """Cut a connection that is still in use at this moment of the monotonic clock."""
    return _NEVER if end is None else _cutting(end, connection)


def acut_at(end: float | None, connection: psycopg.AsyncConnection[Any]) -> AbstractContextManager[None]:
    """The same in an event loop."""
    return _NEVER if end is None else _acutting(end, connection)


@contextmanager
def _cutting(end: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    timer = threading.Timer(_left(end), _cut, [connection.fileno()])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # or else it might cut whoever gets the same descriptor next


@contextmanager
def _acutting(end: float, connection: psycopg.AsyncConnection[Any]) -> Iterator[None]:
    timer = asyncio.get_running_loop().call_later(_left(end), _cut, connection.fileno())
    try:
        yield
    finally:
        timer.cancel()


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())


def _cut(descriptor: int) -> None:
    """Whoever waits for an answer sees the end of the connection instead."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
