"""Connections of a pool, lent for one use each, to whoever each of them suits best.

After a failover old connections lead to a server that takes no writes: such a one is closed, and not lent again.
Ours are in autocommit mode, so that nothing is left to be committed when one is given back.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from psycopg import errors
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from penstock.stores.postgres_session import AsyncConnection, Connection, session_of


class Idle(deque[Any]):
    """Idle connections of a pool.

    A session prepares a statement when it carries it out for the first time, which takes as long as many jobs do. So a
    plan gets a connection that has carried it out before, the one used last of these, or else one that knows the
    fewest plans: each plan finds its own, which others then leave to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wanted = ""
        """The plan that is to be carried out next. Should somebody else come in between, it takes longer once."""

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


class Lent:
    """One for a thread."""

    __slots__ = ("_connection", "_plan", "_pool")

    def __init__(self, pool: ConnectionPool[Connection], plan: str) -> None:
        self._pool = pool
        self._plan = plan

    def __enter__(self) -> Connection:
        self._pool._pool.wanted = self._plan  # type: ignore[attr-defined]
        self._connection = self._pool.getconn()
        session_of(self._connection).plans.add(self._plan)
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._connection.close()
        self._pool.putconn(self._connection)


class LentAsync:
    """One for a task."""

    __slots__ = ("_connection", "_plan", "_pool")

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection], plan: str) -> None:
        self._pool = pool
        self._plan = plan

    async def __aenter__(self) -> AsyncConnection:
        self._pool._pool.wanted = self._plan  # type: ignore[attr-defined]
        self._connection = await self._pool.getconn()
        session_of(self._connection).plans.add(self._plan)
        return self._connection

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, errors.ReadOnlySqlTransaction):
            await self._connection.close()
        await self._pool.putconn(self._connection)
