"""Job files through the real command: what is saved, broken, repaired, added and removed while a worker runs."""

from __future__ import annotations

import pytest

from penstock.domain.errors import NotFound
from tests.worker.fleet import Gate, JobFolder, Stage, WorkerProcess, command

pytestmark = pytest.mark.xdist_group("engine-job-files")


def gives(value: object, *lines: str) -> str:
    """The text of a file whose job gives this."""
    return "\n".join([*lines, "def run(ctx):", f"    return {value!r}", ""])


def reloads(worker: WorkerProcess) -> int:
    return worker.output.count("INFO reloaded: ")


def errors(worker: WorkerProcess, words: str) -> list[str]:
    return [line for line in worker.output.splitlines() if " ERROR " in line and words in line]


def keys(stage: Stage) -> list[str]:
    return sorted(row.schedule.key for row in stage.app.schedules.list())


def test_a_save_is_picked_up(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save("greet.py", gives("hello"))
    jobs.worker("--watch")
    assert jobs.result("greet") == "hello"

    jobs.save("greet.py", gives("good day"))

    jobs.comes_to_give("greet", "good day")


def test_a_save_while_the_worker_starts_is_not_overlooked(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("greet.py", f"{gives(1)}open({str(quiet_stage.folder / 'loading')!r}, 'w')\n")
    worker = jobs.worker("--watch", wait=False)
    quiet_stage.eventually((quiet_stage.folder / "loading").exists, "the first text is loaded")

    jobs.save("greet.py", gives(2))

    worker.ready()
    jobs.comes_to_give("greet", 2)


def test_a_hundred_saves_end_with_the_last_text_after_a_few_loads(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save("count.py", gives(0))
    worker = jobs.worker("--watch")

    for number in range(1, 101):
        jobs.save("count.py", gives(number))

    jobs.comes_to_give("count", 100)
    assert 1 <= reloads(worker) <= 10, worker.output


def test_a_syntax_error_is_said_once_with_its_line_and_the_last_good_text_runs_until_a_repair(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save("greet.py", gives("good", "schedule = '0 3 * * *'"))
    jobs.save("other.py", gives(1))
    worker = jobs.worker("--watch")

    jobs.save("greet.py", "def run(ctx):\n    retrun 1\n")

    stage.eventually(lambda: errors(worker, "greet.py:2"), "the error is said")
    assert jobs.result("greet") == "good"
    assert keys(stage) == ["greet"]

    jobs.save("other.py", gives(2))
    jobs.comes_to_give("other", 2)
    assert jobs.result("greet") == "good"
    assert len(errors(worker, "greet.py:2")) == 1

    jobs.save("greet.py", gives("repaired"))
    jobs.comes_to_give("greet", "repaired")
    stage.eventually(lambda: not keys(stage), "the repaired file has no schedule any more")


def test_a_file_that_is_broken_from_the_start_keeps_nobody_from_working(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("broken.py", "import not_there_at_all\n")
    jobs.save("greet.py", gives("hello"))
    worker = jobs.worker("--watch")
    assert jobs.result("greet") == "hello"
    assert len(errors(worker, "broken.py:1: ModuleNotFoundError")) == 1

    jobs.save("broken.py", gives("repaired"))

    quiet_stage.eventually(lambda: reloads(worker), "the repair is loaded")
    jobs.comes_to_give("broken", "repaired")


def test_a_repaired_file_is_loaded_while_an_import_hangs(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("work.py", gives(1))
    worker = jobs.worker("--watch")
    jobs.comes_to_give("work", 1)
    importing = quiet_stage.folder / "importing"
    jobs.save("work.py", f"import time\nopen({str(importing)!r}, 'w').close()\ntime.sleep(600)\n" + gives(2))
    quiet_stage.eventually(importing.exists, "the import hangs")
    assert jobs.result("work") == 1
    quiet_stage.eventually(lambda: "is still being loaded" in worker.output, "the log names it")

    jobs.save("work.py", gives(3))

    jobs.comes_to_give("work", 3)


def test_a_new_file_appears_with_its_schedule(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save("first.py", gives(1))
    worker = jobs.worker("--watch")

    jobs.save("reports/often.py", gives("report", "schedule = '1s'"))

    stage.eventually(lambda: keys(stage) == ["reports.often"], "the schedule is known")
    stage.eventually(lambda: stage.app.jobs.list(schedule_id="reports.often").jobs, "it has ticked")
    made = stage.app.jobs.list(schedule_id="reports.often").jobs[0]
    assert stage.end(made.id).result == "report"
    assert reloads(worker) == 1


def test_events_of_a_file_name_it_its_schedule_and_its_error(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save(
        "reports/often.py", "schedule = '1s'\nmax_attempts = 1\ndef run(ctx):\n    raise ValueError('no paper')\n"
    )
    jobs.worker("--watch")
    stage.eventually(lambda: stage.app.jobs.list(schedule_id="reports.often").jobs, "it has ticked")
    made = stage.app.jobs.list(schedule_id="reports.often").jobs[0]
    stage.end(made.id)

    failed = next(each for each in stage.app.events.follow(job_id=made.id, timeout=10) if each.type == "job.failed")

    assert str(failed.source).endswith("reports/often.py")
    assert (failed.schedule_id, failed.schedule_expression, failed.attempt) == ("reports.often", "1s", 1)
    assert failed.duration is not None
    assert failed.data == {"error": "no paper", "errorType": "ValueError"}


def test_a_file_that_is_removed_while_its_job_runs(stage: Stage) -> None:
    jobs, gate = JobFolder(stage), Gate(stage.folder)
    jobs.save("long.py", f"schedule = '0 3 * * *'\ndef run(ctx):\n    {gate.text}    return 'old code'\n")
    jobs.save("stays.py", gives(1))
    worker = jobs.worker("--watch")
    stage.app.schedules.save("by hand", "long", cron="0 4 * * *", by="ann")
    running = stage.app.enqueue("long")
    gate.wait()

    (jobs.path / "long.py").unlink()
    stage.eventually(lambda: keys(stage) == ["by hand"], "its schedule is gone, and the operator's stays")
    stage.eventually(lambda: reloads(worker), "the others are reloaded")
    later = stage.app.enqueue("long")
    gate.open()

    assert (stage.end(running).result, running.refresh().lost) == ("old code", 0)
    assert jobs.result("stays") == 1, "claims go on"
    assert (later.refresh().status, gate.passed) == ("queued", 1)

    jobs.save("long.py", gives("new code"))
    assert later.result(30) == "new code"


def test_a_jobs_folder_may_be_made_later_and_go_and_come_again(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage, "later/jobs")
    worker = jobs.worker("--watch")
    assert "runs 0 definition(s)" in worker.output

    jobs.save("greet.py", gives("hello"))
    quiet_stage.eventually(lambda: reloads(worker) == 1, "the folder is seen")
    assert jobs.result("greet") == "hello"

    jobs.path.rename(quiet_stage.folder / "aside")
    quiet_stage.eventually(lambda: "reloaded: 0 definition(s)" in worker.output, "it is seen to be gone")
    jobs.save("greet.py", gives("here again"))
    jobs.comes_to_give("greet", "here again")

    jobs.save("greet.py", gives("and watched"))
    jobs.comes_to_give("greet", "and watched")


def test_two_files_of_one_name_are_both_named_and_the_first_one_runs_on(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("reports/daily.py", gives("folder"))
    worker = jobs.worker("--watch")

    jobs.save("reports.daily.py", gives("dot"))

    quiet_stage.eventually(lambda: reloads(worker), "it is looked at")
    said = errors(worker, "are both called 'reports.daily'")
    assert said
    assert all("reports.daily.py" in line and "reports/daily.py" in line for line in said)
    assert jobs.result("reports.daily") == "folder"

    (jobs.path / "reports/daily.py").unlink()
    jobs.comes_to_give("reports.daily", "dot")


def test_without_watch_nothing_is_loaded_anew(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("greet.py", gives("old"))
    still, watching = jobs.worker("--name", "still"), JobFolder(quiet_stage, "beside")
    watching.save("witness.py", gives("old"))
    watching.worker("--watch")

    jobs.save("greet.py", gives("new"))
    jobs.save("added.py", gives("new"))
    watching.save("witness.py", gives("new"))

    watching.comes_to_give("witness", "new")
    assert jobs.result("greet") == "old"
    assert reloads(still) == 0
    with pytest.raises(NotFound, match="added"):
        quiet_stage.app.enqueue("added")


def test_penstock_toml_says_what_a_worker_without_arguments_does(stage: Stage) -> None:
    jobs = JobFolder(stage, "work")
    jobs.save("look.py", "import os\ndef run(ctx):\n    return [ctx.resources['word'], os.environ.get('SEEN')]\n")
    (stage.folder / "things.py").write_text("def word():\n    yield 'hello'\n")
    (stage.folder / "penstock.toml").write_text(
        f'store = "{stage.url}"\njobs = "work"\nname = "shop"\n[resources]\nword = "things:word"\n'
        '[worker]\nslots = 3\nname = "toml"\nenvironment = ["SEEN"]\nlease = 3\nheartbeat = 0.5\npoll = 0.2\n'
    )
    stage.environment["SEEN"] = "yes"
    plain = command(stage, "worker")

    assert "with 3 slot(s)" in plain.output
    assert jobs.result("look") == ["hello", "yes"]
    assert [row.name for row in stage.app.workers.list()] == ["toml"]
    assert plain.stop() == 0

    told = command(stage, "worker", "--slots", "2", "--name", "flag")
    assert "with 2 slot(s)" in told.output
    assert [row.name for row in stage.app.workers.list() if row.ended is None] == ["flag"]


def test_a_wrong_setting_in_penstock_toml_is_named(quiet_stage: Stage) -> None:
    (quiet_stage.folder / "penstock.toml").write_text("[worker]\nslot = 3\n")

    worker = command(quiet_stage, "worker", wait=False)

    assert worker.wait() == 2
    assert "slot" in worker.output
    assert "Traceback" not in worker.output
