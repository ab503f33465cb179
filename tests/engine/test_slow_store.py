"""A store that is slow, and not down: no attempt that is alive is lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.engine.faults import Proxy, slow_file
from tests.engine.fleet import Stage

_numbers = itertools.count()


@pytest.fixture
def proxy(engine_database: str) -> Iterator[Proxy]:
    made = Proxy(engine_database)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def slow_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SlowStage]:
    if request.param == "sqlite":
        made = SlowStage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    else:
        schema = f"slow_{next(_numbers)}"
        made = SlowStage(request.getfixturevalue("engine_database"), schema, tmp_path, request.getfixturevalue("proxy"))
    yield made
    made.close()


class SlowStage(Stage):
    """A store that can be made slow for its workers."""

    def __init__(self, url: str, schema: str, folder: Path, proxy: Proxy | None = None) -> None:
        super().__init__(url, schema, folder)
        self._proxy = proxy
        if proxy is not None:
            self.environment["PENSTOCK_TEST_STORE"] = proxy.url

    def slow(self, seconds: float) -> AbstractContextManager[None]:
        """Meanwhile each statement takes so long."""
        file = self.url.removeprefix("sqlite:///")
        return slow_file(file, seconds) if self._proxy is None else self._delayed(seconds)

    @contextmanager
    def _delayed(self, seconds: float) -> Iterator[None]:
        assert self._proxy is not None
        self._proxy.delay = seconds
        try:
            yield
        finally:
            self._proxy.delay = 0.0


@pytest.mark.timeout(300)
def test_no_attempt_is_lost_while_each_statement_takes_a_third_of_the_lease(slow_stage: SlowStage) -> None:
    stage, lease, delay = slow_stage, 6, 2.0
    flags = ("--lease", str(lease), "--heartbeat", str(lease / 5), "--poll", "0.2")
    workers = [stage.worker(*flags, quick=False) for _ in range(2)]
    seconds = 2 * lease
    jobs = [stage.enqueue(key, [["sleep", seconds], ["return", 1]]) for key in ("script", "inline") for _ in range(2)]
    for job in jobs:
        stage.noted(job, "begin")

    with stage.slow(delay):
        later = [stage.enqueue(key, [["return", 1]]) for key in ("script", "inline") for _ in range(3)]
        ended = [stage.end(job, 60) for job in (*jobs, *later)]

    assert [(each.status, each.attempts, each.fence) for each in ended] == [("succeeded", 1, 1)] * 10
    assert all(len(stage.journal(job, "begin")) == 1 for job in (*jobs, *later))
    assert not any("lost its lease" in each.output or "is gone" in each.output for each in workers)
