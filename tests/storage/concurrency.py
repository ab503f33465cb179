"""Concurrent callers of one store, each with its own connections."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.kit import Kit
from tests.waiting import wait_until

T = TypeVar("T")


@contextmanager
def another(kit: Kit) -> Iterator[Kit]:
    """A second store object on the same file or schema, as another process would have it."""
    store: Any = kit.store
    twin: Any
    if store.dialect == "postgres":
        twin = PostgresStore(store.url, schema=store.schema, pool_size=8)
    else:
        twin = SqliteStore(store.path)
    twin.open()
    other = Kit(twin)
    other.now = kit.now
    other._lanes = kit._lanes
    try:
        yield other
    finally:
        twin.close()


class Arena:
    """Threads that wait for each other before each round, so that they act at the same moment."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._threads = ThreadPoolExecutor(size)

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def together(self, *acts: Callable[[], Any]) -> list[Any]:
        """What each one got, in order: the answer, or the error that it raised."""
        return [_outcome(future) for future in [self._threads.submit(self._act, act) for act in acts]]

    def _act(self, act: Callable[[], T]) -> T:
        self._barrier.wait(timeout=30)
        return act()


def begin(act: Callable[[], T]) -> Future[T]:
    """Do something in a thread of its own that may have to wait for somebody."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def wait_until_blocked(url: str, future: Future[Any], how_many: int = 1) -> None:
    """Wait until so many sessions of this database really wait for a lock."""
    text = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'penstock' "
        "AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple')"
    )

    def blocked() -> bool:
        assert not future.done(), "it did not wait for anybody"
        return bool(connection.execute(text).fetchone() == (how_many,))

    with psycopg.connect(url, autocommit=True) as connection:
        wait_until(blocked, "the rival waits for a lock")


def _outcome(future: Future[Any]) -> Any:
    error = future.exception(timeout=60)
    return future.result() if error is None else error
