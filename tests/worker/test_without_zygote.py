"""A worker whose zygote is gone: it keeps no job from others, reports why, and goes on when its code can be loaded."""

from __future__ import annotations

import os
import signal

import pytest

from penstock import JobHandle
from penstock.domain.alerts import Alert
from penstock.domain.worker import Duty, WorkerRow
from penstock.runtime import processes
from tests.storage.tables import change
from tests.worker.fleet import ROOT, Gate, Stage, WorkerProcess

pytestmark = pytest.mark.xdist_group("engine-without-zygote")

BODY = """
import os, time
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])

@app.job("work", backoff=0)
def work(gated: bool):
    if not gated:
        return
    {gate}

@app.job("quick", isolation="inline")
async def quick():
    return os.getpid()
"""
BROKEN = "def broken(:\n"
FLAGS = ("--slots", "2", "--ahead", "4")


class Project:
    """A module of a user in a folder of its own; a gate holds the jobs that ask for it."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.folder = stage.folder / name
        self.folder.mkdir()
        self.gate = Gate(stage.folder)
        self.good = BODY.format(gate=self.gate.text)
        self.save(self.good)

    def save(self, text: str) -> None:
        written = self.folder / ".project.saving"
        written.write_text(text)
        written.replace(self.folder / "project.py")

    def worker(self, *flags: str) -> WorkerProcess:
        path = f"{self.folder}{os.pathsep}{ROOT}"
        return self.stage.worker(*FLAGS, *flags, target="project:app", environment={"PYTHONPATH": path})


def row(stage: Stage, worker: WorkerProcess) -> WorkerRow:
    return next(each for each in stage.app.workers.list() if each.pid == worker.pid and each.live)


def load_duty(stage: Stage, worker: WorkerProcess) -> Duty | None:
    return next((each for each in row(stage, worker).duties if each.name == "load"), None)


def alert_of(stage: Stage, worker: WorkerProcess) -> Alert | None:
    found = {each.id: each for each in stage.app.monitoring.alerts()}
    return found.get(f"worker_failing:{row(stage, worker).id}")


def held_up(stage: Stage, project: Project, worker: WorkerProcess) -> list[JobHandle[None]]:
    """Six jobs: two run, four were claimed ahead."""
    jobs: list[JobHandle[None]] = [stage.app.enqueue("work", {"gated": True}) for _ in range(6)]
    project.gate.wait(2)
    stage.eventually(lambda: _claimed_by(stage, jobs, worker) == 6, "all are claimed")
    return jobs


def _claimed_by(stage: Stage, jobs: list[JobHandle[None]], worker: WorkerProcess) -> int:
    own = row(stage, worker).id
    return sum(job.refresh().worker_id == own for job in jobs)


def test_a_worker_that_cannot_load_its_code_leaves_jobs_to_others_and_says_so_once(stage: Stage) -> None:
    sick, healthy = Project(stage, "sick"), Project(stage, "healthy")
    worker = sick.worker()
    jobs = held_up(stage, sick, worker)

    sick.save(BROKEN)
    os.kill(worker.zygote, signal.SIGKILL)

    stage.eventually(lambda: _claimed_by(stage, jobs, worker) == 0, "it has given back what it cannot start")
    stage.eventually(lambda: [each.code for each in jobs[5].why()] == ["no_worker"], "the job says why it waits")
    (reason,) = jobs[5].why()
    assert reason.by == row(stage, worker).id
    assert "cannot start its application" in reason.message
    stage.eventually(lambda: (load_duty(stage, worker) or Duty("", 0, 0)).last_error, "its duty says so")
    duty = load_duty(stage, worker)
    assert duty is not None
    assert duty.errors > 0
    assert "SyntaxError" in (duty.last_error or "")
    alert = alert_of(stage, worker)
    assert alert is not None
    assert "unserved:work" in {each.id for each in stage.app.monitoring.alerts()}
    assert stage.app.enqueue("quick").result(30) == worker.pid, "inline jobs go on"

    other = healthy.worker()
    sick.gate.open()
    assert {stage.end(job).status for job in jobs} == {"succeeded"}
    done_by = {each.worker_id for job in jobs for each in stage.attempts(job) if each.cause == "returned"}
    assert done_by == {row(stage, other).id}
    assert max(job.refresh().lost for job in jobs) <= 1
    assert "unserved:work" not in {each.id for each in stage.app.monitoring.alerts()}
    assert alert_of(stage, worker) is not None, "the others do not hide what is wrong with this one"
    stage.eventually(lambda: (load_duty(stage, worker) or Duty("", 0, 0)).errors >= 3, "it has tried again and again")
    assert worker.output.count("SyntaxError") == 1, worker.output

    other.stop()
    sick.save(sick.good)
    assert stage.app.enqueue("work", {"gated": False}).result(60) is None
    stage.eventually(lambda: alert_of(stage, worker) is None, "the alert is over")
    found = load_duty(stage, worker)
    assert found is not None
    assert found.last_error is None
    assert worker.output.count("has the application loaded again") == 1


def test_a_worker_that_watches_its_files_goes_on_when_they_are_repaired(quiet_stage: Stage) -> None:
    project = Project(quiet_stage, "watched")
    worker = quiet_stage.worker(
        *FLAGS, "--watch", target="project:app", environment={"PYTHONPATH": f"{project.folder}{os.pathsep}{ROOT}"}
    )
    project.save(BROKEN)
    os.kill(worker.zygote, signal.SIGKILL)
    quiet_stage.eventually(lambda: (load_duty(quiet_stage, worker) or Duty("", 0, 0)).errors, "it cannot load them")

    project.save(project.good)

    assert quiet_stage.app.enqueue("work", {"gated": False}).result(60) is None
    quiet_stage.eventually(lambda: alert_of(quiet_stage, worker) is None, "the alert is over")


def test_an_import_that_takes_long_holds_no_jobs(stage: Stage) -> None:
    slow, quick = Project(stage, "slow"), Project(stage, "quick")
    worker = slow.worker()
    jobs = held_up(stage, slow, worker)
    loading, go_on = stage.folder / "loading", stage.folder / "go-on"
    held = f"import os, time\nopen({str(loading)!r}, 'w')\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.01)\n"
    slow.save(held + slow.good)

    os.kill(worker.zygote, signal.SIGKILL)

    stage.eventually(loading.exists, "another zygote loads")
    other = quick.worker()
    slow.gate.open()
    assert {stage.end(job).status for job in jobs} == {"succeeded"}
    assert not go_on.exists(), "all that happened while the first worker was loading"
    go_on.touch()
    other.stop()
    assert stage.app.enqueue("work", {"gated": False}).result(60) is None


def test_a_zygote_that_is_killed_again_and_again_keeps_no_job_from_another_worker(stage: Stage) -> None:
    first, second = Project(stage, "first"), Project(stage, "second")
    worker = first.worker()
    second.worker()
    first.gate.open()
    jobs = []
    for _ in range(4):
        os.kill(_own_zygote(worker), signal.SIGKILL)
        jobs += [stage.app.enqueue("work", {"gated": False}) for _ in range(10)]

    assert {stage.end(job, 60).status for job in jobs} == {"succeeded"}
    stage.eventually(lambda: _own_zygote(worker), "a zygote lives")
    stage.eventually(lambda: alert_of(stage, worker) is None, "nothing is wrong any more", 60)


def test_an_inline_job_with_a_loss_is_left_to_others_and_holds_up_none_of_its_lane(stage: Stage) -> None:
    sick, healthy = Project(stage, "sick"), Project(stage, "healthy")
    worker = sick.worker()
    sick.save(BROKEN)
    os.kill(worker.zygote, signal.SIGKILL)
    stage.eventually(lambda: (load_duty(stage, worker) or Duty("", 0, 0)).last_error, "it has no zygote")
    stage.app.definitions.pause("quick", "until it has a loss")
    suspect = stage.app.enqueue("quick")
    change(stage.app.store, f"UPDATE {{s}}job SET lost = 1 WHERE id = '{suspect.id}'")
    stage.app.definitions.resume("quick")
    stage.eventually(lambda: stage.attempts(suspect), "it was given back")

    assert [stage.app.enqueue("quick").result(20) for _ in range(3)] == [worker.pid] * 3
    assert len(stage.attempts(suspect)) <= 10, "it is not claimed all the time"
    other = healthy.worker()
    assert stage.end(suspect).status == "succeeded"
    assert stage.attempts(suspect)[-1].worker_id == row(stage, other).id


def _own_zygote(worker: WorkerProcess) -> int:
    living = [pid for pid in processes.children(worker.pid) if processes.living([pid])]
    return living[0] if living else worker.zygote
