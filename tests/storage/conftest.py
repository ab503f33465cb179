"""Runs the conformance suite once for each store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.services import debian_postgres
from tests.storage import schemas
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness

SOAK = os.environ.get("PENSTOCK_SOAK") == "1"
STORES = ["sqlite-memory", "sqlite-file", "postgres-18"]
OLDER = ["postgres-16", *(["postgres-15"] if SOAK and debian_postgres(15).is_dir() else [])]
"""Run in full by a soak, else by the files that hold the statements where versions of PostgreSQL may differ."""
_ON_OLDER = ("test_claim", "test_settle", "test_feed", "test_migrations")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store" in metafunc.fixturenames:
        every = SOAK or metafunc.module.__name__.rpartition(".")[2] in _ON_OLDER
        metafunc.parametrize("store", [*STORES, *(OLDER if every else [])], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty store of each kind."""
    yield from open_store(request.param, request, tmp_path)


@pytest.fixture(params=("sqlite-file", "postgres-18"))
def shared_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty store of each kind that several processes can share."""
    yield from open_store(request.param, request, tmp_path)


@pytest.fixture
def kit(store: Any) -> Kit:
    return Kit(store)


@pytest.fixture
def sound(store: Any) -> Iterator[None]:
    """After the test the store's books must balance."""
    yield
    check_soundness(store)


def open_store(kind: str, request: pytest.FixtureRequest, folder: Path, **options: Any) -> Iterator[Any]:
    if kind == "sqlite-memory":
        yield from _opened(SqliteStore(":memory:", **options))
    elif kind == "sqlite-file":
        yield from _opened(SqliteStore(str(folder / "penstock.db"), **options))
    else:
        schema = schemas.lend(request.getfixturevalue(f"{kind.replace('-', '_')}_database"))
        yield from _opened(PostgresStore(schema.url, **{"schema": schema.name, "pool_size": 8, **options}))
        schemas.give_back(schema)


def _opened(store: Any) -> Iterator[Any]:
    store.open()
    yield store
    store.close()


@pytest.fixture(scope="session")
def postgres_15_database(postgres_15: Any) -> str:
    return str(postgres_15.create_database())


@pytest.fixture(scope="session")
def postgres_16_database(postgres_16: Any) -> str:
    """One database for all tests; each has a schema to itself while it runs."""
    return str(postgres_16.create_database())


@pytest.fixture(scope="session")
def postgres_18_database(postgres_18: Any) -> str:
    return str(postgres_18.create_database())
