"""reserve: the same store over connections of its own, for heartbeats that must not wait for others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.storage.commands import admin, jobs
from penstock.storage.postgres.store import PostgresStore
from tests.conftest import Figures
from tests.services import PostgresServer
from tests.storage.kit import LEASE, Kit
from tests.storage.tables import connected
from tests.waiting import wait_until

SHORT = 0.4
LONG = 5.0


@contextlib.contextmanager
def everything_in_use(store: Any) -> Iterator[None]:
    """All connections of a store are busy."""
    with contextlib.ExitStack() as stack:
        if store.dialect == "postgres":
            for _ in range(store._pool_size):
                stack.enter_context(store._pool().connection())
        else:
            stack.enter_context(store._mine.lock)
        yield


@contextlib.contextmanager
def worker_row_held(store: Any) -> Iterator[None]:
    """Somebody outside holds what a heartbeat must write."""
    with connected(store) as connection:
        if store.dialect == "postgres":
            with connection.transaction():
                connection.execute(f'SELECT 1 FROM "{store.schema}".worker FOR UPDATE')
                yield
        else:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")


@pytest.fixture
def shared_kit(shared_store: Any) -> Kit:
    return Kit(shared_store)


def test_a_reserved_store_goes_on_while_all_connections_of_the_first_are_in_use(shared_kit: Kit) -> None:
    worker = shared_kit.worker()
    reserved = shared_kit.store.reserve(LONG)

    with everything_in_use(shared_kit.store):
        reserved.run(jobs.heartbeat(worker, LEASE), now=shared_kit.now + 1)
        asyncio.run(_beat(reserved, worker, shared_kit.now + 2))
    reserved.close()

    (row,) = shared_kit.run(admin.workers())
    assert round(row.heartbeat_at.timestamp() * 1_000_000) == shared_kit.now + 2


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_reserved_store_waits_no_longer_than_it_was_told(shared_kit: Kit, colour: str) -> None:
    worker = shared_kit.worker()
    reserved = shared_kit.store.reserve(SHORT)
    reserved.run(admin.workers())

    with worker_row_held(shared_kit.store):
        took = _refused(reserved, worker, shared_kit.now, colour)

    assert SHORT / 2 < took < LONG
    _heartbeat(reserved, worker, shared_kit.now, colour)
    reserved.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_behind_a_pooler_that_keeps_no_deadline_the_client_does(postgres_18_database: str, colour: str) -> None:
    store = PostgresStore(postgres_18_database, schema="reserve_pooler", pooler=True, migrate=True)
    store.open()
    kit = Kit(store)
    worker = kit.worker()
    reserved = store.reserve(SHORT)

    with worker_row_held(store):
        took = _refused(reserved, worker, kit.now, colour)

    assert SHORT / 2 < took < LONG
    _heartbeat(reserved, worker, kit.now, colour)
    reserved.close()
    store.close()


@pytest.mark.crash
def test_a_reserved_store_is_back_soon_after_its_server(
    postgres_18: PostgresServer, postgres_18_database: str, figures: Figures
) -> None:
    store = PostgresStore(postgres_18_database, schema="reserve_outage", migrate=True)
    store.open()
    kit = Kit(store)
    worker = kit.worker()
    reserved = store.reserve(1.0)
    reserved.run(jobs.heartbeat(worker, LEASE), now=kit.now)

    def beats() -> bool:
        with contextlib.suppress(StoreUnavailable):
            reserved.run(jobs.heartbeat(worker, LEASE), now=kit.now)
            return True
        return False

    postgres_18.stop()
    try:
        for _ in range(4):
            assert not beats()
    finally:
        postgres_18.start()
    began = time.monotonic()
    wait_until(beats, "the heartbeat is heard again")
    took = time.monotonic() - began

    assert took < 2
    figures("reserve.back_after_outage", seconds=round(took, 2))
    reserved.close()
    store.close()


def test_closing_a_reserved_store_closes_only_that(kit: Kit) -> None:
    worker = kit.worker()
    reserved = kit.store.reserve(LONG)
    reserved.open()
    reserved.run(jobs.heartbeat(worker, LEASE), now=kit.now)

    reserved.close()
    asyncio.run(kit.store.reserve(LONG).aclose())

    assert [row.id for row in kit.run(admin.workers())] == [worker]
    assert reserved.place == kit.store.place


def test_a_reserved_store_is_the_same_store(kit: Kit) -> None:
    job_id = kit.create()
    reserved = kit.store.reserve(LONG).reserve(LONG)

    (job,) = reserved.run(admin.get([job_id]), now=kit.now)
    (again,) = asyncio.run(_get(reserved, job_id, kit.now))
    reserved.close()

    assert job == again == kit.job(job_id)


def _refused(store: Any, worker: str, now: int, colour: str) -> float:
    """How long it takes until a heartbeat is given up."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        _heartbeat(store, worker, now, colour)
    return time.monotonic() - began


def _heartbeat(store: Any, worker: str, now: int, colour: str) -> None:
    if colour == "sync":
        store.run(jobs.heartbeat(worker, LEASE), now=now)
    else:
        asyncio.run(_beat(store, worker, now))


async def _beat(store: Any, worker: str, now: int) -> None:
    try:
        await store.arun(jobs.heartbeat(worker, LEASE), now=now)
    finally:
        await store.aclose()


async def _get(store: Any, job_id: str, now: int) -> Any:
    found = await store.arun(admin.get([job_id]), now=now)
    await store.aclose()
    return found
