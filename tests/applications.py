"""An application on each kind of store, and a worker that is played by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock import Penstock
from tests.services import PostgresServer
from tests.storage import schemas

KINDS = ("sqlite-memory", "sqlite-file", "postgres")
SHARED_KINDS = ("sqlite-file", "postgres")

NewApp = Callable[[], Penstock]
"""Makes an application on the same store each time, as another process would."""


@pytest.fixture(scope="session")
def app_database(postgres: PostgresServer) -> str:
    """One database for all tests; each has a schema to itself while it runs."""
    return postgres.create_database()


@pytest.fixture(params=KINDS)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Penstock]:
    """An application on an empty store of each kind."""
    with _making(request.param, request, tmp_path) as make:
        yield from _opened(make)


@pytest.fixture(params=SHARED_KINDS)
def new_app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewApp]:
    """A way to make applications on one store that processes can share; they are closed at the end."""
    with _making(request.param, request, tmp_path) as make:
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
    schema = schemas.lend(app_database)
    yield from _opened(lambda: Penstock(schema.url, schema=schema.name, migrate=True))
    schemas.give_back(schema)


@contextmanager
def _making(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[NewApp]:
    """A way to make applications on an empty store of a kind."""
    if kind == "sqlite-memory":
        yield lambda: Penstock("sqlite://")
    elif kind == "sqlite-file":
        yield lambda: Penstock(f"sqlite:///{folder}/jobs.db")
    else:
        schema = schemas.lend(request.getfixturevalue("app_database"))
        yield lambda: Penstock(schema.url, schema=schema.name, migrate=True)
        schemas.give_back(schema)


def _opened(make: Callable[[], Penstock]) -> Iterator[Penstock]:
    app = make()
    yield app
    app.close()
