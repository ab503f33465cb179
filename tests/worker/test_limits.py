"""Limits hold over the whole fleet, whoever is killed meanwhile; by what the attempts wrote down themselves."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import pytest

from penstock import JobHandle
from penstock.runtime import processes
from tests.conftest import Counts, Figures
from tests.worker.faults import enqueue_many, kept_running, until_ended
from tests.worker.fleet import Stage, WorkerProcess, overlaps

WORKERS = 4


class Fleet:
    """Four workers, each started again when it dies."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._chance = random.Random(seed)
        self._workers = [kept_running(stage, "--slots", "2") for _ in range(WORKERS)]

    def present(self) -> list[WorkerProcess]:
        return [worker() for worker in self._workers]

    def kill_one(self) -> None:
        """Kill a worker that runs something, or its zygote."""
        busy = self._stage.eventually(lambda: [each for each in self.present() if running(each)], "somebody works")
        worker = self._chance.choice(busy)
        os.kill(self._chance.choice([worker.pid, worker.zygote]), signal.SIGKILL)

    def finish(self, jobs: list[JobHandle[Any]]) -> None:
        def all_ended() -> bool:
            self.present()
            return all(job.refresh().status in ("succeeded", "failed") for job in jobs)

        self._stage.eventually(all_ended, "all jobs have ended", 600)


def running(worker: WorkerProcess) -> bool:
    return bool([pid for zygote in processes.children(worker.pid) for pid in processes.children(zygote)])


@pytest.mark.timeout(3600)
def test_a_limit_of_one_lets_one_run_whoever_is_killed(stage: Stage, counts: Counts, figures: Figures) -> None:
    many, kills = counts(20, 400), counts(3, 40)
    fleet = Fleet(stage, seed=7)
    script = [["tick", 0.2]]
    singles = [stage.enqueue("single", script) for _ in range(many // 2)]
    keyed = {
        key: [stage.app.enqueue("keyed", {"key": key, "script": script}) for _ in range(many // 4)]
        for key in ("a", "b")
    }
    jobs = [*singles, *keyed["a"], *keyed["b"]]

    for number in range(kills):
        until_ended(stage, many // 2 * number // kills)
        fleet.kill_one()
    fleet.finish(jobs)

    def most(some: list[JobHandle[Any]]) -> int:
        ids = {job.id for job in some}
        return overlaps([line for line in stage.journal() if line["job"] in ids])

    assert most(singles) == 1
    assert [most(some) for some in keyed.values()] == [1, 1]
    assert all(job.job.status == "succeeded" or job.job.lost == 3 for job in jobs)
    attempts = [attempt for job in jobs for attempt in stage.attempts(job)]
    lost = sum(attempt.cause == "lost" for attempt in attempts)
    assert lost > 0, "nobody was hit"
    assert len({attempt.worker_id for attempt in attempts}) > 1
    figures("engine_limit_of_one", store=stage.url.partition(":")[0], jobs=many, kills=kills, lost=lost)


def test_a_rate_limit_holds_over_two_workers(stage: Stage) -> None:
    for _ in range(2):
        stage.worker("--slots", "8")
    jobs = [stage.enqueue("rated") for _ in range(20)]
    for job in jobs:
        assert stage.end(job).status == "succeeded"

    # Five a second, and at most five at once. A claim takes a moment, and so does the start of a process.
    claimed = sorted(job.job.started_at.timestamp() for job in jobs if job.job.started_at is not None)
    began = sorted(line["at"] for line in stage.journal(what="begin"))
    assert len(claimed) == len(began) == 20
    assert worst(claimed) <= 5 + 5 * 0.1
    assert worst(began) <= 5 + 5 * 1.0
    assert len({attempt.worker_id for job in jobs for attempt in stage.attempts(job)}) == 2


def worst(times: list[float]) -> float:
    """By how many the busiest span of time is ahead of five a second."""
    count = len(times)
    spans = [(first, last) for first in range(count) for last in range(first, count)]
    return max(last - first + 1 - 5 * (times[last] - times[first]) for first, last in spans)


@pytest.mark.parametrize("key", ["single", "rated"])
def test_jobs_with_a_limit_start_in_their_turn_while_others_are_claimed_ahead(stage: Stage, key: str) -> None:
    stage.worker("--slots", "2", "--ahead", "4")
    backlog = enqueue_many(stage, [[["sleep", 0.1]]] * 500)
    stage.eventually(lambda: backlog[5].refresh().status == "succeeded", "the backlog is worked off")

    urgent = [stage.enqueue(key, priority=20) for _ in range(5)]

    assert {stage.end(job).status for job in urgent} == {"succeeded"}
    assert backlog[-1].refresh().status == "queued", "they did not have to wait for the others"
    before = [each for job in urgent for each in stage.attempts(job) if each.cause != "returned"]
    assert before == [], "none was claimed before it could start"
