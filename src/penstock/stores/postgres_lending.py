"""Connections of a pool, lent for one use.

After a failover old connections lead to a server that takes no writes: such a one is closed, and not lent again.
Ours are in autocommit mode, so that nothing is left to be committed when one is given back.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, ConnectionPool

Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


class Lent:
    """One for a thread."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool

    def __enter__(self) -> Connection:
        self._connection = self._pool.getconn()
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._connection.close()
        self._pool.putconn(self._connection)


class LentAsync:
    """One for a task."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._pool.getconn()
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            await self._connection.close()
        await self._pool.putconn(self._connection)
