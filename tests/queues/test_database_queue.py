"""The queue that is the store itself, on every store."""

from __future__ import annotations

import itertools
from pathlib import Path

import psycopg
import pytest

from penstock.domain.ports.queue import Queue
from penstock.queues.database import DatabaseQueue
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.doorbell import SqliteDoorbell
from penstock.storage.sqlite.store import SqliteStore
from tests.queues.conformance import Broker, QueueConformance, ServerQueueConformance, SharedQueueConformance
from tests.services import PostgresServer

_numbers = itertools.count()


class SqliteBroker(Broker):
    def __init__(self, path: str) -> None:
        self.path = path
        self.store = SqliteStore(path)

    def queue(self) -> Queue:
        return DatabaseQueue(self.store.doorbell())

    def program(self) -> str:
        return (
            "from penstock.queues.database import DatabaseQueue\n"
            "from penstock.storage.sqlite.store import SqliteStore\n"
            f"queue = DatabaseQueue(SqliteStore({self.path!r}).doorbell())\n"
        )

    def in_use(self) -> object:
        bell = self.store.doorbell()
        assert isinstance(bell, SqliteDoorbell)
        return bell.folder.exists()


class PostgresBroker(Broker):
    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.schema = f"queue_{next(_numbers)}"
        self.url = f"{server.url()}?application_name={self.schema}"
        self.store = PostgresStore(self.url, schema=self.schema)

    def queue(self) -> Queue:
        return DatabaseQueue(self.store.doorbell())

    def program(self) -> str:
        return (
            "from penstock.queues.database import DatabaseQueue\n"
            "from penstock.storage.postgres.store import PostgresStore\n"
            f"queue = DatabaseQueue(PostgresStore({self.url!r}, schema={self.schema!r}).doorbell())\n"
        )

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server.start()

    def in_use(self) -> object:
        query = "SELECT pid, query FROM pg_stat_activity WHERE application_name = %s"
        with psycopg.connect(self.server.url()) as connection:
            return connection.execute(query, (self.schema,)).fetchall()


class TestInMemory(QueueConformance):
    @pytest.fixture
    def broker(self) -> Broker:
        return SqliteBroker(":memory:")


class TestOnASqliteFile(SharedQueueConformance):
    @pytest.fixture
    def broker(self, tmp_path: Path) -> Broker:
        return SqliteBroker(str(tmp_path / "jobs.db"))


class TestOnPostgres(ServerQueueConformance):
    @pytest.fixture
    def broker(self, postgres: PostgresServer) -> Broker:
        return PostgresBroker(postgres)
