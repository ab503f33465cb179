"""The stored worker configuration reaches workers that run: two real ones on each store."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from penstock import JobHandle, Status
from penstock.config.worker_settings import AT_START, LIVE, WorkerSettings, configured
from penstock.domain.definition import Definition
from penstock.domain.instant import SECOND
from penstock.domain.worker import WorkerRow
from penstock.domain.worker_config import AlertThresholds, WorkerConfig
from penstock.storage.commands import admin
from penstock.storage.sqlite.store import SqliteStore
from penstock.worker.live_config import LiveConfig
from tests.worker.fleet import JobFolder, Stage, command

LONG = [["sleep", 60]]


@pytest.fixture
def pair(stage: Stage) -> Iterator[Stage]:
    """A stage on which two workers play, with one slot each."""
    for worker in [stage.worker("--slots", "1", wait=False) for _ in range(2)]:
        worker.ready()
    yield stage
    assert all("Traceback" not in worker.output for worker in stage.workers)


def live(stage: Stage) -> list[WorkerRow]:
    return [row for row in stage.app.workers.list() if row.live]


def beats(stage: Stage, count: int = 3) -> None:
    """Wait until each worker has had so many more heartbeats."""
    for _ in range(count):
        before = {(row.id, row.heartbeat_at) for row in live(stage)}
        assert len(before) == 2
        stage.eventually(partial(_all_moved, stage, before), "both have beaten")


def _all_moved(stage: Stage, before: set[Any]) -> bool:
    return not before & {(row.id, row.heartbeat_at) for row in live(stage)}


def heard(stage: Stage, text: str, count: int = 1) -> None:
    """Wait until both workers have said so."""
    stage.eventually(lambda: all(worker.output.count(text) >= count for worker in stage.workers), text)


def running(jobs: list[JobHandle[Any]]) -> int:
    return sum(job.refresh().status == Status.RUNNING for job in jobs)


@pytest.mark.parametrize(("own", "stored", "said", "grace"), [
    (10.0, None, None, 10), (0.5, None, None, 0.5), (0.5, 3.0, None, 3), (0.5, 3.0, 7, 7), (10.0, 0.0, None, 0),
])  # fmt: skip
def test_the_grace_of_a_cancel_is_the_definitions_the_configurations_or_the_workers(
    own: float, stored: float | None, said: int | None, grace: float
) -> None:
    controls = LiveConfig(SqliteStore(":memory:"), admin, WorkerSettings(cancel_grace=own), lambda: None)
    controls.settings = configured(controls.settings, WorkerConfig(cancel_grace=stored), LIVE)
    declared = Definition(key="a") if said is None else Definition(key="a", cancel_grace=said * SECOND)

    found = controls.in_force(1, declared)

    assert found.cancel_grace == grace * SECOND


def test_an_overridden_timeout_holds_for_attempts_that_begin_later(pair: Stage) -> None:
    before = pair.enqueue("script", [["note", "began"], ["sleep", 60]])
    pair.noted(before, "began")

    pair.app.definitions.override("script", timeout=0.5, by="ann")
    beats(pair)
    after = pair.enqueue("script", [["sleep", 60]])
    pair.eventually(lambda: after.refresh().error_type == "Timeout", "the later attempt has timed out")

    assert before.refresh().status == Status.RUNNING
    assert "took longer than 0.5 s" in str(after.refresh().error)
    before.cancel()


def test_disabled_workers_claim_nothing_until_they_are_enabled(pair: Stage) -> None:
    long = pair.enqueue("script", [["note", "began"], ["sleep", 60]])
    pair.noted(long, "began")

    pair.app.workers.configure({"enabled": False}, by="ann")
    heard(pair, "has disabled this worker")
    beats(pair, 1)  # a claim that was on its way then has been answered
    jobs = [pair.enqueue("script", [["return", n]]) for n in range(3)]
    inline = pair.enqueue("inline", [["return", 1]])
    beats(pair)

    assert {job.refresh().status for job in [*jobs, inline]} == {Status.QUEUED}
    assert long.refresh().status == Status.RUNNING
    (reason,) = pair.app.jobs.why(jobs[0].id)
    assert (reason.code, reason.by) == ("disabled", "ann")
    long.cancel()
    pair.app.workers.configure({"enabled": True}, by="ann")
    assert {pair.end(job).status for job in [*jobs, inline]} == {Status.SUCCEEDED}


def test_slots_change_while_jobs_run(pair: Stage) -> None:
    jobs = [pair.enqueue("script", LONG) for _ in range(6)]
    pair.eventually(lambda: running(jobs) == 2, "each runs one")
    beats(pair, 1)
    assert running(jobs) == 2
    assert {row.slots for row in live(pair)} == {1}

    pair.app.workers.configure({"slots": 3})

    pair.eventually(lambda: running(jobs) == 6, "each runs three")
    pair.eventually(lambda: {row.slots for row in live(pair)} == {3}, "the store knows of the slots")

    pair.app.workers.configure({"slots": None})
    pair.eventually(lambda: {row.slots for row in live(pair)} == {1}, "each has its own number again")
    more = [pair.enqueue("script", LONG) for _ in range(3)]
    for job in jobs:
        job.cancel()
    pair.eventually(lambda: running(jobs) == 0 and running(more) == 2, "each runs one again")
    beats(pair, 1)
    assert running(more) == 2
    for job in more:
        job.cancel()


def test_handlers_see_the_custom_part(pair: Stage) -> None:
    def seen(definition: str) -> Any:
        job = pair.enqueue(definition, [["facts"]])
        pair.end(job)
        return pair.journal(job, "facts")[0]["settings"]

    assert seen("script") == {}

    pair.app.workers.configure({"custom": {"theme": "dark", "limits": [1, 2**60]}})

    for definition in ("script", "inline"):
        pair.eventually(lambda: seen(definition) == {"theme": "dark", "limits": [1, 2**60]}, "it is seen")  # noqa: B023


def test_default_limits_hold_for_definitions_that_say_nothing(stage: Stage) -> None:
    stage.app.workers.configure({"limits": {"files": 33}})
    stage.worker()

    said = stage.enqueue("few_files", [["look"]])
    silent = stage.enqueue("script", [["look"]])

    for job in (said, silent):
        stage.end(job)
    assert [stage.journal(job, "look")[0]["limits"]["NOFILE"][0] for job in (said, silent)] == [32, 33]


def test_lease_and_heartbeat_are_those_of_the_start(stage: Stage) -> None:
    stage.app.workers.configure({"lease": 2, "heartbeat": 0.3})
    stage.worker(quick=False)

    def pace() -> float:
        (row,) = live(stage)
        stage.eventually(lambda: live(stage)[0].heartbeat_at > row.heartbeat_at, "it beats")
        return (live(stage)[0].heartbeat_at - row.heartbeat_at).total_seconds()

    stage.eventually(lambda: pace() < 1.5, "it beats more often than every three seconds")


def test_a_configuration_that_cannot_be_read_leaves_the_last_good_one(pair: Stage) -> None:
    pair.app.workers.configure({"slots": 2, "custom": {"good": True}})
    pair.eventually(lambda: {row.slots for row in live(pair)} == {2}, "both have the good one")

    pair.app.store.run(admin.put_setting("worker", '{"slots": "many"}', by="hand"))
    heard(pair, "cannot be used")

    job = pair.enqueue("script", [["facts"]])

    assert pair.end(job).status == Status.SUCCEEDED
    assert pair.journal(job, "facts")[0]["settings"] == {"good": True}


def test_a_pass_from_cron_does_nothing_while_workers_are_disabled(stage: Stage) -> None:
    folder = JobFolder(stage)
    folder.save("fine.py", "def run(ctx):\n    return 1\n")

    def tick() -> Any:
        process = command(stage, "tick", "--drain", "--jobs", str(folder.path), "--store", stage.url, wait=False)
        assert process.wait() == 0
        (line,) = [line for line in process.output.splitlines() if line.startswith("{")]
        return json.loads(line)

    nothing = {"processed": 0, "errors": 0, "ticks": 0}
    assert tick() == nothing
    job = stage.app.enqueue("fine")
    stage.app.workers.configure({"enabled": False})
    assert tick() == nothing
    assert job.refresh().status == Status.QUEUED

    stage.app.workers.configure({"enabled": True})

    assert tick() == {**nothing, "processed": 1}
    assert job.refresh().status == Status.SUCCEEDED


def test_what_the_configuration_leaves_open_is_the_workers_own() -> None:
    own = WorkerSettings(slots=5, inline_slots=6, poll=7, lease=30, heartbeat=4, drain=8)

    assert configured(own, WorkerConfig(), (*LIVE, *AT_START)) == own
    said = WorkerConfig(slots=1, inline_slots=2, poll=3, lease=20, heartbeat=2, drain=0, alerts=AlertThresholds(0.5))
    assert configured(own, said, LIVE) == WorkerSettings(
        slots=1, inline_slots=2, poll=3, lease=30, heartbeat=4, drain=0
    )
    assert configured(own, said, AT_START) == WorkerSettings(
        slots=5, inline_slots=6, poll=7, lease=20, heartbeat=2, drain=8
    )


def test_a_lease_that_does_not_fit_the_workers_heartbeat_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    own = WorkerSettings(heartbeat=3, lease=15)

    with caplog.at_level(logging.ERROR, "penstock.worker"):
        assert configured(own, WorkerConfig(lease=4), AT_START) == own

    assert "too slow for a lease of 4 s" in caplog.text
