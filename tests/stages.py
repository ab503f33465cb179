"""Stages on each store that processes can share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import PostgresServer
from tests.worker.fleet import Stage

_numbers = itertools.count()


@pytest.fixture(scope="session")
def engine_database(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """An empty store of each kind with room for workers."""
    yield from _opened(request, tmp_path)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def shared_stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A store of each kind with one worker, for all tests of a file; each has jobs of its own."""
    for stage in _opened(request, tmp_path_factory.mktemp("shared_stage")):
        stage.worker("--slots", "8", "--hook-timeout", "1", environment={"PENSTOCK_TEST_ALLOWED": "seen"})
        yield stage
        assert "Traceback" not in stage.workers[0].output, stage.workers[0].output


@pytest.fixture
def quiet_stage(tmp_path: Path) -> Iterator[Stage]:
    """A SQLite file, for tests to which the store is all the same."""
    stage = Stage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    yield stage
    stage.close()


def _opened(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    if request.param == "sqlite":
        made = Stage(f"sqlite:///{folder}/jobs.db", "penstock", folder)
    else:
        made = Stage(request.getfixturevalue("engine_database"), f"engine_{next(_numbers)}", folder)
    yield made
    made.close()
