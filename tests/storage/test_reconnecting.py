"""What callers notice of a PostgreSQL server that was restarted, or of a way to it that broke: nothing."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.storage.commands import jobs
from penstock.storage.postgres.store import PostgresStore
from tests.services import PostgresServer, StopMode
from tests.storage.kit import Kit

POOL = 10


class Way:
    """Leads connections to a server. After `cut` it resets old ones at what is sent next, as a restarted host does."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = parts.hostname, parts.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._age = 0
        self.reset = 0
        port = self._listener.getsockname()[1]
        self.url = parts._replace(netloc=f"postgres@127.0.0.1:{port}").geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._age += 1

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                age = self._age
                threading.Thread(target=self._lead, args=(client, server, age), daemon=True).start()
                threading.Thread(target=self._lead, args=(server, client, None), daemon=True).start()

    def _lead(self, source: socket.socket, target: socket.socket, age: int | None) -> None:
        with suppress(OSError), target:
            while data := source.recv(65536):
                if age is not None and age != self._age:
                    self.reset += 1
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    source.shutdown(socket.SHUT_RD)
                    source.close()
                    return
                target.sendall(data)


@pytest.fixture
def own_database(postgres_18: PostgresServer) -> Iterator[str]:
    url = postgres_18.create_database()
    yield url
    postgres_18.drop_database(url)


@pytest.fixture
def ten(own_database: str) -> Iterator[PostgresStore]:
    store = PostgresStore(own_database, pool_size=POOL, migrate=True)
    store.open()
    yield store
    store.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_no_call_fails_after_a_restart_of_the_server(
    ten: PostgresStore, postgres_18: PostgresServer, mode: StopMode
) -> None:
    kit = Kit(ten)
    kit.define()
    worker = kit.worker(lease=3600_000_000)
    for _ in range(POOL):
        kit.create()
    fill(ten)

    postgres_18.restart(mode)

    # A claim is never repeated blindly: it must go to a connection that works.
    claimed = [kit.claim(worker, limit=1)[0].job_id for _ in range(POOL)]
    assert len(set(claimed)) == POOL
    assert kit.create()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_no_call_of_a_task_fails_after_a_restart_of_the_server(
    ten: PostgresStore, postgres_18: PostgresServer, mode: StopMode
) -> None:
    kit = Kit(ten)
    kit.define()
    worker = kit.worker(lease=3600_000_000)
    for _ in range(POOL):
        kit.create()
    await afill(ten)

    # In this thread: the server ends with the thread that starts it.
    postgres_18.restart(mode)

    plans = [jobs.claim(worker, sorted(kit._lanes.values()), 1) for _ in range(POOL)]
    claimed = await asyncio.gather(*(ten.arun(plan, now=kit.now) for plan in plans))
    assert len({job.job_id for each in claimed for job in each}) == POOL
    (created,) = await ten.arun(jobs.create([kit.draft()]), now=kit.now)
    await ten.aclose()
    assert created.created


def test_one_broken_connection_stands_for_all_that_are_as_old(ten: PostgresStore, own_database: str) -> None:
    """Their server is gone without a word, so that only a statement finds out."""
    way = Way(own_database)
    kit = Kit(PostgresStore(way.url, pool_size=POOL))
    kit.define()
    fill(kit.store)

    way.cut()
    made = [kit.create() for _ in range(POOL)]

    assert len(set(made)) == POOL
    assert way.reset > 0
    kit.store.close()
    way.close()


async def test_one_broken_connection_of_a_loop_stands_for_all_that_are_as_old(
    ten: PostgresStore, own_database: str
) -> None:
    way = Way(own_database)
    kit = Kit(PostgresStore(way.url, pool_size=POOL))
    kit.define()
    await afill(kit.store)

    way.cut()
    made = [(await kit.store.arun(jobs.create([kit.draft()]), now=kit.now))[0] for _ in range(POOL)]

    assert all(each.created for each in made)
    assert way.reset > 0
    await kit.store.aclose()
    way.close()


def test_a_claim_that_was_sent_is_not_repeated_and_the_next_one_works(ten: PostgresStore, own_database: str) -> None:
    way = Way(own_database)
    kit = Kit(PostgresStore(way.url, pool_size=POOL))
    kit.define()
    job_id = kit.create()
    worker = kit.worker()
    fill(kit.store)

    way.cut()
    with pytest.raises(StoreUnavailable):
        kit.claim(worker)

    assert [each.job_id for each in kit.claim(worker)] == [job_id]
    kit.store.close()
    way.close()


def test_what_an_idle_session_was_sent_does_not_end_it(ten: PostgresStore) -> None:
    """A notice to an idle session is read before the next statement is sent."""
    kit = Kit(ten)
    kit.define()
    pool = ten._pool()
    with pool.connection() as connection:
        connection.execute("LISTEN here")
        (before,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    with ten.connect() as other:
        for _ in range(20):
            other.execute("SELECT pg_notify('here', %s)", ("x" * 5000,))

    kit.create()

    with pool.connection() as connection:
        assert connection.execute("SELECT pg_backend_pid()").fetchone() == (before,)


def fill(store: PostgresStore) -> None:
    """Have as many connections opened as the pool may hold."""
    pool = store._pool()
    connections: list[Any] = [pool.getconn() for _ in range(POOL)]
    for connection in connections:
        pool.putconn(connection)


async def afill(store: PostgresStore) -> None:
    pool = await store._async_pool()
    connections: list[Any] = [await pool.getconn() for _ in range(POOL)]
    for connection in connections:
        await pool.putconn(connection)
