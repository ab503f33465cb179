"""A caller's transaction that keeps a SQLite file locked for longer than a lease: running jobs survive it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from penstock.runtime.processes import boot_time
from tests.worker.faults import LEASE, outage, wait_for_time
from tests.worker.fleet import Stage, gone, overlaps


def never() -> Any:
    raise AssertionError("SQLite has no server")


def test_jobs_survive_a_transaction_that_locks_the_file_for_three_leases(quiet_stage: Stage) -> None:
    stage = quiet_stage
    workers = [stage.worker("--slots", "1") for _ in range(2)]
    jobs = [stage.enqueue("script", [["tick_before", 9, 60], ["return", "done"]]) for _ in workers]
    children = [stage.noted(job, "tick")[0]["pid"] for job in jobs]

    with outage(stage, never):
        wait_for_time(boot_time() + 3 * LEASE)
        assert not any(map(gone, children))

    for job in jobs:
        job.cancel()
    for job in jobs:
        ended = stage.end(job)
        assert (ended.status, ended.attempts, ended.fence, ended.lost) == ("cancelled", 1, 1, 0)
        assert overlaps(stage.journal(job)) == 1
    assert all("lost its lease" not in worker.output for worker in workers)
    assert extensions(stage) == []


def test_a_job_that_ends_while_the_file_is_locked_keeps_its_result(quiet_stage: Stage) -> None:
    stage = quiet_stage
    for _ in range(2):
        stage.worker("--slots", "1")
    job = stage.enqueue("script", [["sleep", 4], ["return", "done"]])
    stage.noted(job, "begin")

    with outage(stage, never):
        stage.noted(job, "end")
        wait_for_time(boot_time() + 2 * LEASE)

    ended = stage.end(job)
    assert (ended.status, ended.attempts, ended.fence, ended.lost) == ("succeeded", 1, 1, 0)
    assert len(stage.journal(job, "begin")) == 1


def test_a_worker_that_dies_while_the_file_is_locked_is_rescued_after_it(quiet_stage: Stage) -> None:
    stage = quiet_stage
    dying = stage.worker("--slots", "1")
    job = stage.enqueue("script", [["tick_before", 2, 60], ["return", "done"]])
    stage.noted(job, "tick")
    stage.worker("--slots", "1")

    with outage(stage, never):
        stage.eventually(lambda: extensions(stage), "leases are extended next to the file")
        dying.kill()
        wait_for_time(boot_time() + LEASE)

    ended = stage.end(job, 60)
    assert (ended.status, ended.attempts) == ("succeeded", 1)
    assert [each.cause for each in stage.attempts(job)] == ["lost", "returned"]
    assert overlaps(stage.journal(job)) == 1


def test_a_worker_that_freezes_while_the_file_is_locked_loses_its_jobs_once(quiet_stage: Stage) -> None:
    """Its zygote kills them when the extended lease ends."""
    stage = quiet_stage
    freezing = stage.worker("--slots", "1")
    job = stage.enqueue("script", [["tick_before", 2, 60], ["return", "done"]])
    child = stage.noted(job, "tick")[0]["pid"]

    with outage(stage, never):
        stage.eventually(lambda: extensions(stage), "the lease is extended next to the file")
        freezing.send(signal.SIGSTOP)
        stage.eventually(lambda: gone(child), "the zygote has killed the job", timeout=2 * LEASE)
    stage.worker("--slots", "1")
    ended = stage.end(job, 60)
    freezing.send(signal.SIGCONT)

    assert (ended.status, ended.attempts) == ("succeeded", 1)
    assert overlaps(stage.journal(job)) == 1
    stage.eventually(lambda: "lost its lease" in freezing.output, "it notices")


def extensions(stage: Stage) -> list[Path]:
    path = Path(stage.url.removeprefix("sqlite:///"))
    return list(path.parent.glob(f"{path.name}-lease-*"))
