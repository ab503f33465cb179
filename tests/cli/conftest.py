"""One store with a server and a worker for the tests of a file; commands reach it both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Place, Shell
from tests.http.servers import ServerProcess, opened, serve
from tests.worker.fleet import Stage

Ground = tuple[Stage, ServerProcess]


@pytest.fixture(scope="session")
def postgres_18_database(postgres_18):
    return str(postgres_18.create_database())


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A store on SQLite with a server that runs jobs."""
    for stage in opened(request, tmp_path_factory.mktemp("place"), "sqlite"):
        yield stage, serve(stage)


@pytest.fixture(params=["server", "store"])
def place(request: pytest.FixtureRequest, ground: Ground) -> Place:
    """The same store, over HTTP and straight."""
    stage, server = ground
    flags = ("--server", server.url) if request.param == "server" else ("--store", stage.url)
    return Place(stage, server, flags)


@pytest.fixture
def remote(ground: Ground) -> Place:
    """The store over HTTP only, where the way makes no difference."""
    stage, server = ground
    return Place(stage, server, ("--server", server.url))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Commands in an empty folder."""
    return Shell(tmp_path)
