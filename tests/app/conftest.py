"""An application on each kind of store, and a worker that is played by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from tests.services import PostgresServer

KINDS = ("sqlite-memory", "sqlite-file", "postgres")
SHARED_KINDS = ("sqlite-file", "postgres")
_numbers = itertools.count()

NewApp = Callable[[], Penstock]
"""Makes an application on the same store each time, as another process would."""


@pytest.fixture(scope="session")
def app_database(postgres: PostgresServer) -> str:
    """One database for all tests; each has a schema of its own."""
    return postgres.create_database()


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Penstock]:
    """An application on an empty store of each kind."""
    yield from _opened(_maker(request.param, request, tmp_path))


@pytest.fixture(params=SHARED_KINDS)
def new_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewApp]:
    """A way to make applications on one store that processes can share; they are closed at the end."""
    make = _maker(request.param, request, tmp_path)
    made: list[Penstock] = []

    def new() -> Penstock:
        made.append(make())
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def file_app(tmp_path: Path) -> Iterator[Penstock]:
    """An application on a SQLite file."""
    yield from _opened(lambda: Penstock(f"sqlite:///{tmp_path}/jobs.db"))


@pytest.fixture
def memory_app() -> Iterator[Penstock]:
    """An application on SQLite in memory, for tests to which the store is all the same."""
    yield from _opened(lambda: Penstock("sqlite://"))


@pytest.fixture
def postgres_app(app_database: str) -> Iterator[Penstock]:
    """An application on an empty schema of PostgreSQL."""
    yield from _opened(lambda: Penstock(app_database, schema=f"app_{next(_numbers)}", migrate=True))


def _maker(kind: str, request: pytest.FixtureRequest, folder: Path) -> Callable[[], Penstock]:
    if kind == "sqlite-memory":
        return lambda: Penstock("sqlite://")
    if kind == "sqlite-file":
        return lambda: Penstock(f"sqlite:///{folder}/jobs.db")
    url: Any = request.getfixturevalue("app_database")
    schema = f"app_{next(_numbers)}"
    return lambda: Penstock(url, schema=schema, migrate=True)


def _opened(make: Callable[[], Penstock]) -> Iterator[Penstock]:
    app = make()
    yield app
    app.close()
