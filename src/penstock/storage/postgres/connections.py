"""Pooled connections: chosen by the plans that they have prepared, checked before use, and cut at a deadline.

A connection that its server has closed is replaced before anything is sent on it. When one breaks in use, all
idle ones are replaced: they led to the same server. After a failover, old connections lead to a server that refuses
writes: such a connection is closed and not reused. Connections are in autocommit mode, so that nothing is uncommitted
when one is returned.
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

    A session prepares a statement at its first use, which takes as long as many jobs do. So a plan gets the most
    recently used connection that has carried it out before, or else one that knows the fewest plans.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        """The next plan to carry out. If another caller comes in between, one statement is prepared again."""
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
    """Takes a connection from the pool for one use, in a thread."""

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
    """Takes a connection from the pool for one use, in an event loop."""

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
    """Return whether a connection broke that is as old as the idle ones, so that these must be replaced."""
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
        timer.join()  # or else it might cut another connection with the same descriptor


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
    """Shut the connection down, so that a caller that waits for an answer gets an error."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
