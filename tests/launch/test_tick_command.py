"""`penstock tick`: one pass from cron does what a worker would have done, says so in JSON, and ends."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.storage.tables import change
from tests.waiting import wait_until
from tests.worker.fleet import Gate, JobFolder, Stage, WorkerProcess, command

pytestmark = pytest.mark.xdist_group("engine-tick-command")

FILES = {
    "fine.py": "def run(ctx, number: int = 0):\n    return number\n",
    "bad.py": "max_attempts = 1\ndef run(ctx):\n    raise ValueError('no')\n",
    "second_time.py": "max_attempts = 3\nbackoff = 0\ndef run(ctx):\n    assert ctx.attempt > 1\n    return 1\n",
    "alone.py": "concurrency = 1\ndef run(ctx):\n    return 1\n",
    "parent.py": "def run(ctx):\n    ctx.enqueue('fine', {'number': 7})\n",
}


class Cron:
    """Calls `penstock tick` on a folder of job files and reads what it says."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.jobs = JobFolder(stage)
        for name, text in FILES.items():
            self.jobs.save(name, text)

    def tick(self, *flags: str) -> tuple[int, dict[str, int], WorkerProcess]:
        """One pass: its exit code, what it printed, and the process for its log."""
        process = self.begin(*flags)
        return *self.end(process), process

    def begin(self, *flags: str) -> WorkerProcess:
        """Begin a pass and do not wait for it."""
        place = ("--jobs", str(self.jobs.path), "--store", self.stage.url)
        return command(self.stage, "tick", *place, *flags, wait=False)

    def end(self, process: WorkerProcess) -> tuple[int, dict[str, int]]:
        """Wait for a pass: its exit code and what it printed."""
        code = process.wait()
        lines = [line for line in process.output.splitlines() if line.startswith("{")]
        assert len(lines) == 1, process.output
        return code, json.loads(lines[0])


@pytest.fixture
def cron(stage: Stage) -> Cron:
    made = Cron(stage)
    assert made.tick()[:2] == (0, {"processed": 0, "errors": 0, "ticks": 0}), "it makes the definitions known"
    return made


def test_nothing_to_do_is_zeros_and_leaves_no_worker(cron: Cron) -> None:
    assert cron.tick("--drain")[:2] == (0, {"processed": 0, "errors": 0, "ticks": 0})

    assert [row.ended for row in cron.stage.app.workers.list()] == ["stopped"]


def test_a_pass_queues_what_is_due_and_ticks_schedules_without_running_jobs(cron: Cron) -> None:
    app = cron.stage.app
    delayed = app.enqueue("fine", delay=0.2)
    app.schedules.save("once", "fine", at=datetime.now(UTC) + timedelta(seconds=1), params={"number": 3})
    wait_until(lambda: datetime.now(UTC) > app.schedules.get("once").created_at + timedelta(seconds=1.2), "it is due")

    code, said, _ = cron.tick()

    assert (code, said) == (0, {"processed": 0, "errors": 0, "ticks": 1})
    assert delayed.refresh().status == "queued"
    (made,) = app.jobs.list(schedule_id="once").jobs
    assert made.status == "queued"

    assert cron.tick("--drain")[:2] == (0, {"processed": 2, "errors": 0, "ticks": 0})
    assert (delayed.result(1), app.jobs.read(made.id).result) == (0, 3)


def test_drain_runs_all_that_waits(cron: Cron) -> None:
    app = cron.stage.app
    jobs = [app.enqueue("fine", {"number": each}) for each in range(20)]
    alone = [app.enqueue("alone") for _ in range(4)]
    again, parent = app.enqueue("second_time"), app.enqueue("parent")

    code, said, process = cron.tick("--drain", "--slots", "3")

    assert [job.refresh().status for job in [*jobs, *alone, again, parent]] == ["succeeded"] * 26, process.output
    assert [job.result(1) for job in jobs] == list(range(20))
    assert sorted(app.jobs.iterate(definition_key="fine"), key=lambda job: job.created_at)[-1].result == 7
    assert (code, said) == (1, {"processed": 28, "errors": 1, "ticks": 0}), "one attempt failed"


def test_a_drain_raises_no_alert_about_the_jobs_that_it_takes(cron: Cron) -> None:
    app = cron.stage.app
    for _ in range(3):
        app.enqueue("fine")
    app.job("elsewhere")(_elsewhere)
    app.enqueue("elsewhere")

    code, said, _ = cron.tick("--drain")

    assert (code, said["processed"]) == (0, 3)
    assert {each.alert.id for each in app.monitoring.alert_history()} == {"unserved:elsewhere"}


def _elsewhere() -> None: ...


def test_a_drain_ends_though_a_schedule_ticks_faster_than_its_jobs_run(cron: Cron) -> None:
    app, gate = cron.stage.app, Gate(cron.stage.folder)
    cron.jobs.save("often.py", f"schedule = '1s'\noverlap = 'allow'\ndef run(ctx):\n    {gate.text}")
    cron.tick()
    before = len(app.schedules.ticks("often"))
    wait_until(lambda: _is_due(app.schedules.get("often")), "it is due")

    process = cron.begin("--drain", "--slots", "16")
    gate.wait()
    wait_until(lambda: _is_due(app.schedules.get("often"), for_seconds=1), "it has been due twice while its job ran")
    gate.open()
    code, said = cron.end(process)

    assert code == 0, process.output
    ticks = app.schedules.ticks("often")
    assert said["ticks"] == len(ticks) - before > 0, "what is ticked is counted, all of it"
    assert said["processed"] == len(ticks)
    assert {job.status for job in app.jobs.iterate(definition_key="often")} == {"succeeded"}


def test_a_drain_ends_while_others_go_on_creating_jobs(cron: Cron) -> None:
    app, gate = cron.stage.app, Gate(cron.stage.folder)
    cron.jobs.save("slow.py", f"def run(ctx):\n    {gate.text}")
    cron.tick()
    waiting = [app.enqueue("slow") for _ in range(3)]
    created = []

    process = cron.begin("--drain", "--slots", "1")
    gate.wait()
    gate.open()

    def has_ended() -> bool:
        created.append(app.enqueue("slow"))
        return not process.alive

    wait_until(has_ended, "the drain has ended")

    code, said = cron.end(process)
    assert code == 0, process.output
    assert [job.refresh().status for job in waiting] == ["succeeded"] * 3
    assert 3 <= said["processed"] <= 3 + len(created)


def test_a_drain_runs_what_stood_back_behind_a_key(cron: Cron) -> None:
    cron.jobs.save("by_key.py", "def run(ctx):\n    return 1\n")
    cron.tick()
    app = cron.stage.app
    jobs = [app.enqueue("by_key", concurrency_key="one") for _ in range(4)]

    code, said, process = cron.tick("--drain")

    assert (code, said["processed"]) == (0, 4), process.output
    assert {job.refresh().status for job in jobs} == {"succeeded"}


def test_a_job_that_fails_is_an_error(cron: Cron) -> None:
    job = cron.stage.app.enqueue("bad")

    assert cron.tick("--drain")[:2] == (1, {"processed": 1, "errors": 1, "ticks": 0})

    assert job.refresh().status == "failed"


def test_a_schedule_that_cannot_tick_is_an_error(cron: Cron) -> None:
    app = cron.stage.app
    app.schedules.save("hopeless", "fine", every="1s", params={"number": 1})
    cron.jobs.save("fine.py", "def run(ctx, other: str):\n    return other\n")
    wait_until(lambda: _is_due(app.schedules.get("hopeless")), "it is due")

    code, said, process = cron.tick()

    assert (code, said["errors"], said["ticks"]) == (1, 1, 0)
    assert "hopeless" in process.output


def test_a_schedule_that_cannot_be_read_is_an_error_and_the_rest_is_done(cron: Cron) -> None:
    app = cron.stage.app
    app.schedules.save("bad", "fine", every="1s")
    app.schedules.save("good", "fine", at=datetime.now(UTC) + timedelta(seconds=1))
    change(app.store, "UPDATE {s}schedule SET body = '{' WHERE key = 'bad'")
    wait_until(lambda: _is_due(app.schedules.get("good")) and _is_due(app.schedules.get("bad")), "both are due")

    code, said, process = cron.tick("--drain")

    assert (code, said) == (1, {"processed": 1, "errors": 1, "ticks": 1}), process.output
    assert "schedule bad cannot be read" in process.output


def test_a_paused_system_runs_nothing(cron: Cron) -> None:
    job = cron.stage.app.enqueue("fine")
    cron.stage.app.definitions.pause_all("maintenance")

    assert cron.tick("--drain")[:2] == (0, {"processed": 0, "errors": 0, "ticks": 0})

    assert job.refresh().status == "queued"


def test_jobs_of_a_worker_that_was_killed_are_freed_and_run(cron: Cron) -> None:
    stage, gate = cron.stage, Gate(cron.stage.folder)
    cron.jobs.save("long.py", f"backoff = 0\nmax_attempts = 3\ndef run(ctx):\n    {gate.text}    return 'done'\n")
    worker = cron.jobs.worker()
    job = stage.app.enqueue("long")
    gate.wait()
    worker.kill()
    gate.open()

    def freed() -> bool:
        cron.tick()
        return job.refresh().status != "running"

    stage.eventually(freed, "the dead worker's lease has ended and a pass has freed its job")
    assert (job.job.lost, gate.passed) == (1, 1)
    stage.eventually(lambda: cron.tick("--drain")[1]["processed"] == 1, "its time has come and a pass has run it")
    assert (job.result(1), gate.passed) == ("done", 2)


def test_a_folder_is_not_needed_when_an_application_is_named(quiet_stage: Stage) -> None:
    process = command(quiet_stage, "tick", "tests.worker.scripted:app", "--drain", wait=False)
    assert process.wait() == 0, process.output
    job = quiet_stage.enqueue("script", [["return", 5]])

    process = command(quiet_stage, "tick", "tests.worker.scripted:app", "--drain", wait=False)

    assert process.wait() == 0, process.output
    assert job.result(1) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "No application and no job files were given"),
        (("project:app", "--jobs", "jobs"), "not both"),
        (("--jobs", "jobs"), "No store was named"),
        (("not_there:app", "--store", "sqlite:///x.db"), "not_there"),
    ],
    ids=["nothing", "two things", "no store", "no module"],
)
def test_a_wrong_call_is_one_clear_line(quiet_stage: Stage, arguments: tuple[str, ...], words: str) -> None:
    line = [sys.executable, "-m", "penstock", "tick", *arguments]

    done = subprocess.run(line, cwd=quiet_stage.folder, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def _is_due(row: Any, for_seconds: float = 0) -> bool:
    now = datetime.now(UTC).timestamp() - for_seconds
    return row.schedule.next_run_at is not None and row.schedule.next_run_at < now * 1e6
