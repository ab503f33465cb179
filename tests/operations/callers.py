"""Every way to have a PostgreSQL transaction of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker


@dataclass
class Caller:
    """What an application has in its hands: the thing to give to penstock, and how it commits."""

    connection: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


@contextmanager
def plain_psycopg(url: str, **options: Any) -> Iterator[Caller]:
    with psycopg.connect(url, **options) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def psycopg_dictionaries(url: str) -> Iterator[Caller]:
    with plain_psycopg(url, row_factory=dict_row, cursor_factory=psycopg.RawCursor) as caller:
        yield caller


@contextmanager
def psycopg_autocommit(url: str) -> Iterator[Caller]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("BEGIN")
        yield Caller(
            connection, connection.execute, lambda: connection.execute("COMMIT"), lambda: connection.execute("ROLLBACK")
        )


@contextmanager
def alchemy_connection(url: str) -> Iterator[Caller]:
    engine = create_engine(alchemy_url(url))
    with engine.connect() as connection:
        yield Caller(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)
    engine.dispose()


@contextmanager
def alchemy_session(url: str) -> Iterator[Caller]:
    engine = create_engine(alchemy_url(url))
    with Session(engine) as session:
        yield Caller(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    engine.dispose()


@contextmanager
def alchemy_scoped_session(url: str) -> Iterator[Caller]:
    engine = create_engine(alchemy_url(url))
    session = scoped_session(sessionmaker(engine))
    yield Caller(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    session.remove()
    engine.dispose()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@asynccontextmanager
async def alchemy_async_connection(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(alchemy_url(url))
    async with engine.connect() as connection:
        yield Caller(connection, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def alchemy_async_session(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(alchemy_url(url))
    async with AsyncSession(engine) as session:
        yield Caller(session, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
    await engine.dispose()


def alchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


Way = Callable[[str], AbstractContextManager[Caller]]
AsyncWay = Callable[[str], AbstractAsyncContextManager[Caller]]
WAYS: list[Way] = [
    plain_psycopg,
    psycopg_dictionaries,
    psycopg_autocommit,
    alchemy_connection,
    alchemy_session,
    alchemy_scoped_session,
]
ASYNC_WAYS: list[AsyncWay] = [psycopg_async, alchemy_async_connection, alchemy_async_session]
