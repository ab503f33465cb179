"""Workers, zygotes and children that are killed or frozen: no job is lost, stuck or run twice at once."""

from __future__ import annotations

import os
import resource
import signal
from typing import Any

from penstock import JobHandle
from penstock.runtime.processes import boot_time
from tests.worker.faults import LEASE, RESCUE, Script, freeze, wait_for_time
from tests.worker.fleet import Stage, gone, overlaps

LONG_AT_FIRST: Script = [["tick_before", 2, 60], ["return", "done"]]


def begun(stage: Stage, job: JobHandle[Any], fence: int) -> float:
    return next(line["at"] for line in stage.journal(job, "begin") if line["fence"] == fence)


def test_jobs_of_a_killed_worker_run_on_another_one_soon(stage: Stage) -> None:
    first = stage.worker("--slots", "2")
    jobs = [stage.enqueue("script", LONG_AT_FIRST) for _ in range(2)]
    for job in jobs:
        stage.noted(job, "tick")
    below = [first.zygote, *first.children()]
    stage.worker()

    first.send(signal.SIGKILL)
    killed_at = boot_time()

    for job in jobs:
        ended = stage.end(job)
        assert (ended.status, ended.attempts) == ("succeeded", 1)
        assert [each.cause for each in stage.attempts(job)] == ["lost", "returned"]
        assert begun(stage, job, 2) - killed_at < RESCUE
        assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "lost"), (2, "returned")]
        assert stage.kinds(job) == ["job.enqueued", "job.started", "job.lost", "job.started", "job.succeeded"]
        assert overlaps(stage.journal(job)) == 1
    assert all(gone(pid) for pid in below)
    assert sorted(str(row.ended) for row in stage.app.workers.list()) == ["None", "lost"]


def test_a_killed_child_costs_an_attempt_and_no_loss(stage: Stage) -> None:
    stage.worker()
    job = stage.enqueue("tried_again", LONG_AT_FIRST)
    child = stage.noted(job, "tick")[0]["pid"]

    os.kill(child, signal.SIGKILL)

    ended = stage.end(job)
    assert (ended.status, ended.attempts, ended.lost) == ("succeeded", 2, 0)
    assert [each.cause for each in stage.attempts(job)] == ["signalled", "returned"]


def test_an_idle_zygote_that_is_killed_is_replaced(stage: Stage) -> None:
    worker = stage.worker()
    before = worker.zygote

    os.kill(before, signal.SIGKILL)
    stage.eventually(lambda: "a new one is started" in worker.output, "the worker has noticed")

    assert stage.end(stage.enqueue("script", [["return", 1]])).status == "succeeded"
    assert worker.zygote != before
    assert len(stage.app.workers.list()) == 1


def test_attempts_of_a_killed_zygote_are_lost_and_not_failed(stage: Stage) -> None:
    worker = stage.worker("--slots", "3")
    jobs = [stage.enqueue("script", LONG_AT_FIRST) for _ in range(3)]
    for job in jobs:
        stage.noted(job, "tick")
    below = worker.children()

    os.kill(worker.zygote, signal.SIGKILL)

    for job in jobs:
        ended = stage.end(job)
        assert (ended.status, ended.attempts) == ("succeeded", 1)
        assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "lost"), (2, "returned")]
        assert overlaps(stage.journal(job)) == 1
    assert all(gone(pid) for pid in below)
    assert len(stage.app.workers.list()) == 1


def test_hooks_that_died_with_their_zygote_keep_nothing_from_running(stage: Stage) -> None:
    worker = stage.worker("--slots", "1", "--drain", "5")
    jobs = [stage.enqueue("hooked", [["kill_zygote"]]), *(stage.enqueue("hooked") for _ in range(3))]

    ended = [stage.end(job, 60).status for job in jobs]

    assert ended == ["failed", "succeeded", "succeeded", "succeeded"]
    assert [each.cause for each in stage.attempts(jobs[0])] == ["lost"] * 3
    assert len(stage.noted(jobs[0], "on_fail")) == 1
    assert worker.stop() == 0


def test_a_frozen_worker_loses_its_jobs_and_what_it_says_afterwards_is_refused(stage: Stage) -> None:
    frozen = stage.worker("--slots", "1", "--ahead", "3")
    job = stage.enqueue("script", LONG_AT_FIRST)
    child = stage.noted(job, "tick")[0]["pid"]
    ahead = [stage.enqueue("script") for _ in range(3)]
    stage.eventually(lambda: all(each.refresh().status == "running" for each in ahead), "its buffer is full")
    stage.worker("--slots", "1")

    freeze(stage, frozen)
    stopped_at = boot_time()
    # The worker cannot kill it: its zygote does.
    stage.eventually(lambda: gone(child), "the attempt of the frozen worker is dead", timeout=LEASE)
    ended = [stage.end(each) for each in (job, *ahead)]
    wait_for_time(stopped_at + 2 * LEASE)
    frozen.send(signal.SIGCONT)

    stage.eventually(lambda: "came too late" in frozen.output, "the late ending was refused")
    stage.eventually(lambda: sum(row.live for row in stage.app.workers.list()) == 2, "it is back under a new id")
    assert [(each.status, each.attempts) for each in ended] == [("succeeded", 1)] * 4
    assert {each.cause for other in ahead for each in stage.attempts(other)} == {"released", "returned"}
    assert [(each.fence, each.cause) for each in stage.attempts(job)] == [(1, "lost"), (2, "returned")]
    assert begun(stage, job, 2) - stopped_at < RESCUE
    assert overlaps(stage.journal(job)) == 1
    assert all(len(stage.journal(each, "begin")) == 1 for each in ahead)
    assert [stage.app.jobs.read(each.id) for each in ended] == ended
    assert len({row.id for row in stage.app.workers.list() if row.pid == frozen.pid}) == 2


def test_a_worker_without_descriptors_gives_jobs_back_and_goes_on_when_it_has_some(stage: Stage) -> None:
    worker = stage.worker()
    assert stage.end(stage.enqueue("script")).status == "succeeded"
    taken = set(map(int, os.listdir(f"/proc/{worker.pid}/fd")))
    # What was opened while the first attempt ran lies above numbers that are free again.
    used = min(set(range(len(taken) + 1)) - taken)
    enough = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (used, enough[1]))

    job = stage.enqueue("script", [["return", "done"]])
    stage.eventually(lambda: stage.kinds(job).count("job.released") >= 2, "it was given back twice")
    released = stage.kinds(job).count("job.released")
    resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, enough)
    ended = stage.end(job)

    assert (ended.status, ended.attempts, ended.lost) == ("succeeded", 1, 0)
    assert released <= 3, "it does not try all the time"
    assert len(stage.journal(job, "begin")) == 1
