"""A store that goes away for a while, or whose answer is cut: our outage never fails a job and costs no attempt."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.runtime.processes import boot_time
from penstock.storage.commands import jobs as verbs
from tests.conftest import Counts, Figures
from tests.services import PostgresServer
from tests.worker.faults import LEASE, RESCUE, Proxy, Script, enqueue_many, freeze, outage, until_ended, wait_for_time
from tests.worker.fleet import Stage, gone, overlaps

LONG_AT_FIRST: Script = [["tick_before", 2, 60], ["return", "done"]]
_numbers = itertools.count()
PATIENT = ("--lease", "20", "--heartbeat", "0.5", "--poll", "0.2")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Callable[[], PostgresServer]:
    """The server of the stage, which a stage on SQLite does not start."""
    return lambda: request.getfixturevalue("postgres")


@pytest.fixture
def proxy(engine_database: str) -> Iterator[Proxy]:
    made = Proxy(engine_database)
    yield made
    made.close()


@pytest.fixture
def postgres_stage(engine_database: str, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(engine_database, f"faults_{next(_numbers)}", tmp_path)
    yield made
    made.close()


def test_an_outage_shorter_than_the_trust_goes_unnoticed(stage: Stage, server: Callable[[], PostgresServer]) -> None:
    stage.worker(*PATIENT, quick=False)
    job = stage.enqueue("script", [["sleep", 1], ["print", "last words"], ["return", "done"]])
    stage.noted(job, "begin")

    with outage(stage, server):
        stage.noted(job, "end")

    ended = stage.end(job)
    assert (ended.status, ended.attempts, ended.fence, ended.lost) == ("succeeded", 1, 1, 0)
    assert stage.kinds(job) == ["job.enqueued", "job.started", "job.succeeded"]
    assert [line.message for line in stage.logs(job)] == ["last words"]


def test_attempts_that_an_outage_ended_are_given_back(
    postgres_stage: Stage, server: Callable[[], PostgresServer]
) -> None:
    stage = postgres_stage
    workers = [stage.worker("--slots", "1") for _ in range(2)]
    jobs = [stage.enqueue("script", LONG_AT_FIRST) for _ in range(2)]
    children = [stage.noted(job, "tick")[0]["pid"] for job in jobs]

    with outage(stage, server):
        began = boot_time()
        stage.eventually(lambda: all(map(gone, children)), "the attempts are dead", timeout=LEASE)
        # Their leases have ended, and whoever comes first might take the other one for dead.
        wait_for_time(began + LEASE + 2)

    for job in jobs:
        ended = stage.end(job)
        assert (ended.status, ended.attempts, ended.lost) == ("succeeded", 1, 0)
        assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "released"), (2, "returned")]
        assert overlaps(stage.journal(job)) == 1
    assert all("lost its lease" in worker.output and worker.alive for worker in workers)


def test_a_worker_that_is_cut_off_stops_in_time_for_the_other_one(postgres_stage: Stage, proxy: Proxy) -> None:
    stage = postgres_stage
    cut_off = stage.worker("--slots", "1", environment={"PENSTOCK_TEST_STORE": proxy.url})
    job = stage.enqueue("script", LONG_AT_FIRST)
    stage.noted(job, "tick")
    stage.worker("--slots", "1")

    proxy.flowing.clear()
    began = boot_time()
    ended = stage.end(job)
    proxy.flowing.set()

    assert (ended.status, ended.attempts) == ("succeeded", 1)
    assert [each.cause for each in stage.attempts(job)] == ["lost", "returned"]
    assert overlaps(stage.journal(job)) == 1
    assert stage.journal(job, "end")[-1]["at"] - began < RESCUE
    stage.eventually(lambda: sum(row.live for row in stage.app.workers.list()) == 2, "it is back under a new id")
    assert "lost its lease" in cut_off.output
    assert stage.app.jobs.read(job.id) == ended


def test_a_claim_whose_answer_is_cut_is_given_back_and_run(postgres_stage: Stage, proxy: Proxy) -> None:
    stage = postgres_stage
    worker = stage.worker(environment={"PENSTOCK_TEST_STORE": proxy.url})
    stage.app.definitions.pause("script", "until the cut is prepared")
    job = stage.enqueue("script", [["return", "done"]])
    proxy.wanted = job.id.encode()
    stage.app.definitions.resume("script")

    ended = stage.end(job)

    assert proxy.cuts == 1
    assert "the answer to their claim was lost" in worker.output
    assert (ended.status, ended.attempts, ended.fence, ended.lost) == ("succeeded", 1, 2, 0)
    assert len(stage.journal(job, "begin")) == 1


def test_what_names_a_worker_that_does_not_hold_it_is_given_back(stage: Stage) -> None:
    worker = stage.worker()
    (row,) = stage.app.workers.list()
    freeze(stage, worker)
    job = stage.enqueue("script", [["return", "done"]])
    claimed = stage.app.store.run(verbs.claim(row.id, row.lanes, 1))
    worker.send(signal.SIGCONT)

    ended = stage.end(job)

    assert [each.job_id for each in claimed] == [job.id]
    assert "the answer to their claim was lost" in worker.output
    assert (ended.status, ended.attempts, ended.fence, ended.lost) == ("succeeded", 1, 2, 0)


@pytest.mark.timeout(3600)
def test_every_job_succeeds_once_through_restarts_of_the_server(
    postgres_stage: Stage, postgres: PostgresServer, counts: Counts, figures: Figures
) -> None:
    stage = postgres_stage
    restarts, many = counts(3, 200), counts(150, 10_000)
    for _ in range(2):
        stage.worker("--slots", "3")
    jobs = enqueue_many(stage, [[["sleep", 0.05]]] * many)
    begun: set[Any] = set()

    for number in range(restarts):
        enough = many * (number + 1) // (restarts + 2)
        until_ended(stage, enough)
        postgres.restart("immediate")
        with psycopg.connect(stage.url) as connection:
            begun.update(connection.execute("SELECT pg_postmaster_start_time()").fetchall())

    assert len(begun) == restarts
    for job in jobs:
        ended = stage.end(job, 300)
        assert (ended.status, ended.lost) == ("succeeded", 0), stage.kinds(job)
    again = sum(job.job.fence > 1 for job in jobs)
    for job in jobs[:: max(1, many // 500)]:
        assert stage.kinds(job).count("job.succeeded") == 1
    assert overlaps(stage.journal()) <= 6
    figures("engine_postgres_restarts", restarts=restarts, jobs=many, run_more_than_once=again)
