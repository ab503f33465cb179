"""Callers' own connections: jobs are created in the caller's PostgreSQL transaction.

Errors of the database are raised as the caller's driver raises them, so that the caller's retry logic applies to our
statements.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Self, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock.domain.errors import InvalidInput
from penstock.domain.plan import Plan, Rows, Statement

T = TypeVar("T")
Bound = tuple[str, dict[str, Any] | None]
"""The text of a statement, and its values."""

_BEGIN, _END, _UNDO = ("SAVEPOINT penstock", "RELEASE SAVEPOINT penstock", "ROLLBACK TO SAVEPOINT penstock")
_TAKEN = "Give a psycopg 3 connection, or a SQLAlchemy connection or session of postgresql+psycopg://."


class CallerConnection:
    """A caller's sync connection: psycopg 3, or SQLAlchemy on it."""

    def __init__(self, connection: Any) -> None:
        if _is_async(connection):
            raise InvalidInput("enqueue() got an async connection.", hint="Use `await aenqueue()` with it.")
        if isinstance(connection, psycopg.Connection):
            self._driver: Any = connection
            self._alchemy: Any = None
        else:
            self._alchemy = connection.connection() if hasattr(connection, "get_bind") else connection
            _check_alchemy(self._alchemy)
            self._driver = self._alchemy.connection.driver_connection
        _check_transaction(self._driver)

    def run(self, plan: Plan[T], bind: Callable[[Statement], Bound], notice: Bound) -> T:
        """Carry out a plan inside the caller's transaction; send the `notice` after a write."""
        with self._all_or_nothing(plan):
            answer = self._drive(plan, bind)
        if plan.writes:
            self._execute(*notice)
        return answer

    def _drive(self, plan: Plan[T], bind: Callable[[Statement], Bound]) -> T:
        steps = plan.steps()
        try:
            statement = next(steps)
            while True:
                statement = steps.send(self._execute(*bind(statement)))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _execute(self, text: str, values: dict[str, Any] | None = None) -> Rows:
        if self._alchemy is not None:
            result = self._alchemy.exec_driver_sql(text, values)
            return [tuple(row) for row in result] if result.returns_rows else []
        # A cursor as we know it, whatever factories the caller has set.
        with psycopg.Cursor(self._driver, row_factory=tuple_row) as cursor:
            cursor.execute(text, values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _all_or_nothing(self, plan: Plan[Any]) -> Iterator[None]:
        """Undo a failed plan, so that a caller that catches its error may continue."""
        if _is_one_statement(plan):
            yield
            return
        self._execute(_BEGIN)
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self._execute(_UNDO)
                self._execute(_END)
            raise
        self._execute(_END)


class AsyncCallerConnection:
    """A caller's async connection: psycopg 3, or SQLAlchemy on it."""

    def __init__(self, driver: Any, alchemy: Any) -> None:
        self._driver = driver
        self._alchemy = alchemy
        _check_transaction(driver)

    @classmethod
    async def of(cls, connection: Any) -> Self:
        if isinstance(connection, psycopg.AsyncConnection):
            return cls(connection, None)
        if not _is_async(connection):
            _check_kind(connection)
            raise InvalidInput("aenqueue() got a sync connection.", hint="Use enqueue() with it.")
        alchemy = await connection.connection() if hasattr(connection, "get_bind") else connection
        _check_alchemy(alchemy)
        return cls((await alchemy.get_raw_connection()).driver_connection, alchemy)

    async def run(self, plan: Plan[T], bind: Callable[[Statement], Bound], notice: Bound) -> T:
        """As `CallerConnection.run`, without blocking the event loop."""
        async with self._all_or_nothing(plan):
            answer = await self._drive(plan, bind)
        if plan.writes:
            await self._execute(*notice)
        return answer

    async def _drive(self, plan: Plan[T], bind: Callable[[Statement], Bound]) -> T:
        steps = plan.steps()
        try:
            statement = next(steps)
            while True:
                statement = steps.send(await self._execute(*bind(statement)))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _execute(self, text: str, values: dict[str, Any] | None = None) -> Rows:
        if self._alchemy is not None:
            result = await self._alchemy.exec_driver_sql(text, values)
            return [tuple(row) for row in result] if result.returns_rows else []
        async with psycopg.AsyncCursor(self._driver, row_factory=tuple_row) as cursor:
            await cursor.execute(text, values)
            return await cursor.fetchall() if cursor.description else []

    @asynccontextmanager
    async def _all_or_nothing(self, plan: Plan[Any]) -> AsyncIterator[None]:
        if _is_one_statement(plan):
            yield
            return
        await self._execute(_BEGIN)
        try:
            yield
        except BaseException:
            with suppress(Exception):
                await self._execute(_UNDO)
                await self._execute(_END)
            raise
        await self._execute(_END)


def _is_one_statement(plan: Plan[Any]) -> bool:
    """Return whether a plan is atomic without a savepoint."""
    first = next(plan.steps(), None)
    return first is None or first.alone or not plan.writes


def _is_async(connection: Any) -> bool:
    kinds = type(connection).__mro__
    return any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in kinds) or isinstance(
        connection, psycopg.AsyncConnection
    )


def _check_kind(connection: Any) -> None:
    """Raise unless it is a psycopg connection, or something of SQLAlchemy that can execute."""
    if not isinstance(connection, psycopg.Connection) and not hasattr(connection, "exec_driver_sql"):
        if hasattr(connection, "get_bind"):
            return
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise InvalidInput(f"Jobs cannot be created on a connection of the type {kind}.", hint=_TAKEN)


def _check_alchemy(connection: Any) -> None:
    _check_kind(connection)
    if connection.dialect.driver not in ("psycopg", "psycopg_async"):
        driver = connection.dialect.driver
        raise InvalidInput(f"Jobs cannot be created on a SQLAlchemy connection of the driver {driver!r}.", hint=_TAKEN)


def _check_transaction(driver: Any) -> None:
    if driver.autocommit and driver.info.transaction_status == TransactionStatus.IDLE:
        raise InvalidInput(
            "The connection is in autocommit mode, and no transaction is open on it to create the job in.",
            hint="Begin one, or leave `connection` out.",
        )
