"""What operators do reaches workers that run: pause, resume and cancel, wherever the job stands."""

from __future__ import annotations

import signal

from penstock.storage import ports
from tests.worker.fleet import Stage

V1 = """
import os
from penstock import Penstock
app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

@app.job("deployed", version=1)
def deployed() -> str:
    return "old"

@app.job("removed")
def removed() -> str:
    return "still there"
"""
V2 = """
import os
from penstock import Penstock
app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

@app.job("deployed", version=2)
def deployed() -> str:
    return "new"

@app.job("added")
def added() -> str:
    return "from now on"
"""


def test_pause_and_resume_reach_a_worker_that_runs(stage: Stage) -> None:
    stage.worker()
    stage.app.definitions.pause("script", "for a while")
    paused = stage.enqueue("script", [["return", 1]])
    other = stage.enqueue("coroutine", [["return", 2]])

    assert stage.end(other).status == "succeeded", "others go on"
    assert (paused.refresh().status, paused.why()[0].code) == ("queued", "paused")
    stage.app.definitions.resume("script")
    assert stage.end(paused).status == "succeeded"

    stage.app.definitions.pause_all("for a while")
    system = stage.enqueue("script", [["return", 3]])
    # A claim that was under way when the system was paused is over by the second heartbeat.
    beats = stage.app.workers.list()[0].heartbeat_at
    stage.eventually(lambda: stage.app.workers.list()[0].heartbeat_at > beats, "a heartbeat has passed")
    assert (system.refresh().status, system.why()[0].code) == ("queued", "system_paused")
    stage.app.definitions.resume_all()
    assert stage.end(system).status == "succeeded"


def test_a_job_is_cancelled_wherever_it_stands(stage: Stage) -> None:
    worker = stage.worker("--slots", "1", "--ahead", "1")
    running = stage.enqueue("hooked", [["sleep", 60]])
    stage.noted(running, "begin")
    ahead = stage.enqueue("script")
    stage.until(ahead, "running")
    queued = stage.enqueue("script")
    later = stage.enqueue("script", delay=3600)

    assert [job.cancel() for job in (queued, later)] == ["cancelled", "cancelled"]
    assert ahead.cancel() == "cancelling"
    assert stage.end(ahead).status == "cancelled"
    assert running.cancel() == "cancelling"
    ended = stage.end(running)

    assert (ended.status, ended.attempts) == ("cancelled", 1)
    assert [each.cause for each in stage.attempts(running)] == ["cancelled"]
    assert not stage.journal(ahead)
    assert not stage.journal(queued)
    assert len(stage.noted(running, "on_cancel")) == 1
    assert worker.alive


def test_a_job_in_backoff_is_cancelled_and_not_tried_again(stage: Stage) -> None:
    stage.worker()
    job = stage.enqueue("tried_again", [["retry", 3600]])
    stage.until(job, "scheduled")

    assert job.cancel() == "cancelled"
    assert len(stage.journal(job, "begin")) == 1


def test_a_job_is_cancelled_during_the_drain(stage: Stage) -> None:
    worker = stage.worker("--drain", "60")
    job = stage.enqueue("script", [["sleep", 60]])
    stage.noted(job, "begin")

    worker.send(signal.SIGTERM)
    stage.eventually(lambda: "stopping" in worker.output, "it drains")
    assert job.cancel() == "cancelling"

    assert worker.wait() == 0
    assert job.refresh().status == "cancelled"
    assert [each.cause for each in stage.attempts(job)] == ["cancelled"]


def test_versions_of_a_rolling_deploy_live_side_by_side(stage: Stage) -> None:
    for name, text in (("old", V1), ("new", V2)):
        (stage.folder / f"{name}.py").write_text(text)
    old = stage.worker(target=f"{stage.folder}/old.py:app")
    new = stage.worker(target=f"{stage.folder}/new.py:app")

    jobs = [
        stage.app.enqueue("deployed", {}, definition_version=1),
        stage.app.enqueue("deployed", {}, definition_version=2),
        stage.app.enqueue("removed", {}), stage.app.enqueue("added", {}),
    ]  # fmt: skip
    results = [stage.end(job).result for job in jobs]
    ran_on = [stage.attempts(job)[0].worker_id for job in jobs]

    assert results == ["old", "new", "still there", "from now on"]
    assert ran_on[0] == ran_on[2] != ran_on[1] == ran_on[3]

    # Then the old one goes, and what only it had loaded waits and can be seen.
    assert old.stop() == 0
    left = [stage.app.enqueue("deployed", {}, definition_version=1), stage.app.enqueue("removed", {})]
    served = stage.app.enqueue("deployed", {})
    assert stage.end(served).result == "new"
    assert [job.refresh().status for job in left] == ["queued", "queued"]
    assert [job.why()[0].code for job in left] == ["no_worker", "no_worker"]
    unserved = stage.app.store.run(ports.admin.unserved())
    assert sorted(unserved) == [("deployed", 1, 1), ("removed", 1, 1)]
    assert new.alive
