"""A store that is slow, and not down: no attempt that is alive is lost, and those of a dead worker are found."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.worker.faults import Proxy, slow_file
from tests.worker.fleet import Stage, command

BRIEF = ("--lease", "4", "--heartbeat", "0.8", "--poll", "0.2")
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


@pytest.mark.timeout(300)
def test_jobs_of_a_killed_worker_run_elsewhere_while_each_statement_is_slow(slow_stage: SlowStage) -> None:
    stage = slow_stage
    victim = stage.worker(*BRIEF, "--slots", "2", quick=False)
    lost = [stage.enqueue("tried_again", [["sleep", 600]]) for _ in range(2)]
    for job in lost:
        stage.noted(job, "begin")
    other = stage.worker(*BRIEF, quick=False)
    kept = stage.enqueue("script", [["sleep", 12], ["return", 1]])
    stage.noted(kept, "begin")
    stage.eventually(lambda: all(each.heartbeat_at > each.started_at for each in stage.app.workers.list()), "both beat")

    with stage.slow(1.0):
        victim.kill()
        begun = [stage.noted(job, "begin", 2, timeout=120)[-1] for job in lost]
    ended = stage.end(kept)

    assert [each["fence"] for each in begun] == [2, 2]
    assert (ended.status, ended.attempts, ended.fence) == ("succeeded", 1, 1)
    assert "lost its lease" not in other.output


@pytest.mark.timeout(300)
def test_a_server_without_a_worker_frees_jobs_while_each_statement_is_slow(slow_stage: SlowStage) -> None:
    stage = slow_stage
    victim = stage.worker(*BRIEF, quick=False)
    job = stage.enqueue("tried_again", [["sleep", 600]])
    stage.noted(job, "begin")
    address = stage.environment["PENSTOCK_TEST_STORE"]
    server = command(stage, "serve", "--store", address, "--no-worker", "--port", "0", wait=False)
    stage.eventually(lambda: "penstock serving on" in server.output, "the server answers")

    with stage.slow(1.0):
        victim.kill()
        stage.until(job, "scheduled", "queued", timeout=120)

    assert [each.cause for each in stage.attempts(job)] == ["lost"]


@pytest.mark.timeout(300)
def test_a_worker_that_starts_while_each_statement_is_slow_runs_jobs(slow_stage: SlowStage) -> None:
    stage = slow_stage
    stage.worker(quick=True).stop()
    job = stage.enqueue("script", [["return", 1]])

    with stage.slow(1.0):
        worker = stage.worker(*BRIEF, quick=False, wait=False)
        ended = stage.end(job, 120)

    assert (ended.status, ended.attempts, ended.fence) == ("succeeded", 1, 1)
    assert "lost its lease" not in worker.output
