"""Reloading code: running attempts keep their code, and a death in between costs no more than it would otherwise."""

from __future__ import annotations

import os
import signal

import pytest

from penstock import Penstock
from penstock.runtime import processes
from penstock.worker.loaded_code import LoadedCode
from tests.worker.faults import outage
from tests.worker.fleet import QUICK, Gate, JobFolder, Stage, WorkerProcess, command, gone

pytestmark = pytest.mark.xdist_group("engine-reload")

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only a worker of root can be told to run jobs as root")

HEAD = """
import os
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])
"""


def gives(value: object, *lines: str) -> str:
    return "\n".join([*lines, "def run(ctx):", f"    return {value!r}", ""])


def held_up(gate: Gate, value: str) -> str:
    """The text of a file whose job stops before it gives this."""
    return f"backoff = 0\nmax_attempts = 3\ndef run(ctx):\n    {gate.text}    return {value!r}\n"


def reloaded(stage: Stage, worker: WorkerProcess, times: int = 1) -> None:
    stage.eventually(lambda: worker.output.count("INFO reloaded: ") >= times, f"{times} reload(s)")


def test_an_attempt_keeps_its_old_code_over_reloads(stage: Stage) -> None:
    jobs, gates = JobFolder(stage), [Gate(stage.folder, f"gate{each}") for each in range(3)]
    jobs.save("long.py", held_up(gates[0], "text 0"))
    worker = jobs.worker("--watch", "--slots", "4")
    running = []
    for number, gate in enumerate(gates):
        if number:
            jobs.save("long.py", held_up(gate, f"text {number}"))
            reloaded(stage, worker, number)
        running.append(stage.app.enqueue("long"))
        gate.wait()
    assert len(processes.children(worker.pid)) == 3, "one zygote for each text"

    for gate in gates:
        gate.open()

    assert [job.result(30) for job in running] == ["text 0", "text 1", "text 2"]
    assert [job.refresh().attempts for job in running] == [1, 1, 1]
    stage.eventually(lambda: len(processes.children(worker.pid)) == 1, "zygotes without attempts have left")


def test_the_death_of_a_retiring_zygote_costs_its_attempts_only(stage: Stage) -> None:
    jobs, old, new = JobFolder(stage), Gate(stage.folder, "old"), Gate(stage.folder, "new")
    jobs.save("long.py", held_up(old, "old"))
    jobs.save("other.py", held_up(new, "other"))
    worker = jobs.worker("--watch", "--slots", "4")
    retiring = worker.zygote
    lost = stage.app.enqueue("long")
    old.wait()
    jobs.save("long.py", gives("new", "backoff = 0", "max_attempts = 3"))
    reloaded(stage, worker)
    untouched = stage.app.enqueue("other")
    new.wait()

    os.kill(retiring, signal.SIGKILL)

    assert lost.result(30) == "new"
    assert [each.cause for each in stage.attempts(lost)] == ["lost", "returned"]
    new.open()
    assert untouched.result(30) == "other"
    assert (untouched.refresh().attempts, untouched.job.lost) == (1, 0)
    assert "died; a new one is started" not in worker.output
    stage.eventually(lambda: len(processes.descendants(worker.pid)) == 1, "one zygote is left, and nothing else")


def test_the_death_of_the_present_zygote_leaves_attempts_of_a_retiring_one_alone(stage: Stage) -> None:
    jobs, old = JobFolder(stage), Gate(stage.folder, "old")
    jobs.save("long.py", held_up(old, "old"))
    worker = jobs.worker("--watch")
    retiring = worker.zygote
    kept = stage.app.enqueue("long")
    old.wait()
    jobs.save("long.py", gives("new"))
    reloaded(stage, worker)
    (present,) = [pid for pid in processes.children(worker.pid) if pid != retiring]

    os.kill(present, signal.SIGKILL)

    stage.eventually(lambda: "died; a new one is started" in worker.output, "the worker has noticed")
    assert stage.app.enqueue("long").result(30) == "new"
    old.open()
    assert kept.result(30) == "old"
    assert (kept.refresh().attempts, kept.job.lost) == (1, 0)


def test_what_jobs_of_a_retiring_zygote_started_dies_with_it(quiet_stage: Stage) -> None:
    jobs, gate, pid = JobFolder(quiet_stage), Gate(quiet_stage.folder), quiet_stage.folder / "pid"
    jobs.save(
        "long.py",
        "import subprocess\nmax_attempts = 1\ndef run(ctx):\n"
        "    sleeper = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        f"    open({str(pid)!r}, 'w').write(str(sleeper.pid))\n    {gate.text}",
    )
    worker = jobs.worker("--watch")
    retiring = worker.zygote
    quiet_stage.app.enqueue("long")
    gate.wait()
    jobs.save("other.py", gives(1))
    reloaded(quiet_stage, worker)

    os.kill(retiring, signal.SIGKILL)

    quiet_stage.eventually(lambda: gone(int(pid.read_text())), "the job's own process is gone too")
    assert jobs.result("other") == 1


def test_a_zygote_that_dies_after_its_files_have_changed_comes_back_with_what_they_hold(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("first.py", gives(1))
    worker = jobs.worker()
    first = worker.zygote
    jobs.save("second.py", gives(2))

    os.kill(first, signal.SIGKILL)

    quiet_stage.eventually(lambda: "second" in _known(quiet_stage), "the new file is registered")
    assert (jobs.result("first"), jobs.result("second")) == (1, 2)


def test_many_reloads_while_jobs_run_lose_none(stage: Stage) -> None:
    jobs = JobFolder(stage)
    jobs.save("count.py", gives(0, "max_attempts = 1"))
    worker = jobs.worker("--watch", "--slots", "2", "--ahead", "4")
    handles = []
    for number in range(1, 5):
        handles += [stage.app.enqueue("count") for _ in range(15)]
        jobs.save("count.py", gives(number, "max_attempts = 1"))
        reloaded(stage, worker, number)

    results = [handle.result(60) for handle in handles]

    assert set(results) <= set(range(5))
    assert [(each.refresh().attempts, each.job.lost) for each in handles] == [(1, 0)] * len(handles)
    assert jobs.result("count") == 4
    assert "Traceback" not in worker.output, worker.output


# A file of SQLite that is held is waited for, longer than a test should last.
@pytest.mark.parametrize("stage", ["postgres"], indirect=True)
def test_what_is_saved_while_the_store_is_away_is_loaded_when_it_is_back(
    stage: Stage, request: pytest.FixtureRequest
) -> None:
    jobs = JobFolder(stage)
    jobs.save("first.py", gives(1))
    worker = jobs.worker("--watch")

    with outage(stage, lambda: request.getfixturevalue("postgres")):
        jobs.save("second.py", gives(2, "schedule = '0 3 * * *'"))
        stage.eventually(lambda: "WARNING not reloaded: " in worker.output, "it could not be made known")

    stage.eventually(lambda: "second" in _known(stage), "the new file is registered")
    stage.eventually(lambda: [row.schedule.key for row in stage.app.schedules.list()] == ["second"], "and its schedule")
    assert (jobs.result("first"), jobs.result("second")) == (1, 2)


def test_inline_jobs_get_their_new_code(quiet_stage: Stage) -> None:
    jobs = JobFolder(quiet_stage)
    jobs.save("quick.py", "isolation = 'inline'\nasync def run(ctx):\n    return 'old'\n")
    jobs.worker("--watch")
    assert jobs.result("quick") == "old"

    jobs.save("quick.py", "isolation = 'inline'\nasync def run(ctx):\n    return 'new'\n")

    jobs.comes_to_give("quick", "new")


@needs_root
def test_what_a_reload_brings_does_not_run_as_root_unless_that_is_allowed(stage: Stage) -> None:
    jobs = JobFolder(stage)
    quick = "isolation = 'inline'\nasync def run(ctx):\n    return {}\n"
    jobs.save("quick.py", quick.format(1))
    worker = command(stage, "worker", "--jobs", str(jobs.path), "--store", stage.url, *QUICK, "--watch", root=False)
    assert jobs.result("quick") == 1

    jobs.save("who.py", "import os\ndef run(ctx):\n    return os.getuid()\n")
    stage.eventually(lambda: "reloaded: " in worker.output, "the file was seen")

    assert "not reloaded: This worker runs as root, and so would its jobs" in worker.output
    assert _known(stage) == ["quick"]
    (jobs.path / "who.py").unlink()
    jobs.save("quick.py", quick.format(2))
    jobs.comes_to_give("quick", 2)


def test_an_application_is_loaded_anew_and_a_mistake_in_it_is_said(quiet_stage: Stage) -> None:
    module = quiet_stage.folder / "project.py"
    body = HEAD + "\n@app.job('greet')\ndef greet():\n    return {value!r}\n"
    module.write_text(body.format(value="old"))

    worker = command(quiet_stage, "worker", "project:app", "--watch", *QUICK)
    assert quiet_stage.app.enqueue("greet").result(30) == "old"

    module.write_text("def broken(:\n")
    quiet_stage.eventually(lambda: "not reloaded: " in worker.output, "the mistake is said")
    assert quiet_stage.app.enqueue("greet").result(30) == "old"

    module.write_text(body.format(value="a new result"))
    reloaded(quiet_stage, worker)
    assert quiet_stage.app.enqueue("greet").result(30) == "a new result"


def test_inline_jobs_of_an_application_get_the_new_code_of_all_its_modules(quiet_stage: Stage) -> None:
    module, helper = quiet_stage.folder / "project.py", quiet_stage.folder / "helper.py"
    module.write_text(
        HEAD + "import helper\n\n@app.job('greet', isolation='inline')\nasync def greet():\n    return helper.WORD\n"
    )
    helper.write_text("WORD = 'old'\n")
    worker = command(quiet_stage, "worker", "project:app", "--watch", *QUICK)
    assert quiet_stage.app.enqueue("greet").result(30) == "old"

    helper.write_text("WORD = 'broken'\nraise RuntimeError('only where jobs run inline')\n")
    quiet_stage.eventually(lambda: "not reloaded: " in worker.output, "the mistake is said")
    assert quiet_stage.app.enqueue("greet").result(30) == "old"

    helper.write_text("WORD = 'a new one'\n")
    reloaded(quiet_stage, worker)
    assert quiet_stage.app.enqueue("greet").result(30) == "a new one"


def test_what_inline_jobs_have_opened_is_closed_when_the_worker_ends_also_after_a_reload(quiet_stage: Stage) -> None:
    module, told = quiet_stage.folder / "project.py", quiet_stage.folder / "told"
    body = HEAD + (
        "@app.resource('line')\ndef line():\n"
        f"    with open({str(told)!r}, 'a') as file:\n"
        "        print('open {value}', file=file, flush=True)\n        yield {value!r}\n"
        "        print('close {value}', file=file, flush=True)\n        {then}\n\n"
        "@app.job('use', isolation='inline')\nasync def use(ctx):\n    return ctx.resources['line']\n"
    )
    module.write_text(body.format(value="old", then="raise OSError('it does not close')"))
    worker = command(quiet_stage, "worker", "project:app", "--watch", *QUICK)
    assert [quiet_stage.app.enqueue("use").result(30) for _ in range(2)] == ["old", "old"]

    module.write_text(body.format(value="new", then="pass"))
    reloaded(quiet_stage, worker)
    assert [quiet_stage.app.enqueue("use").result(30) for _ in range(2)] == ["new", "new"]
    worker.stop()

    assert told.read_text().split("\n")[:-1] == ["open old", "open new", "close new", "close old"]
    assert "a resource of inline jobs could not be closed" in worker.output


def test_a_worker_that_begins_anew_goes_on_with_what_its_inline_jobs_have_opened() -> None:
    app = Penstock("sqlite://")
    app.resource("word")(lambda: "word")
    first, second = LoadedCode({}, app), LoadedCode({}, app)
    assert first.resources["word"] == "word"

    second.replace(first, lambda lane, code: code)

    assert second.resources is first.resources


def test_jobs_see_the_variables_that_their_file_names_now(quiet_stage: Stage) -> None:
    quiet_stage.environment["PENSTOCK_TEST_VARIABLE"] = "seen"
    body = "import os\n{}def run(ctx):\n    return os.environ.get('PENSTOCK_TEST_VARIABLE')\n"
    jobs = JobFolder(quiet_stage)
    jobs.save("look.py", body.format(""))
    jobs.worker("--watch")
    assert jobs.result("look") is None

    jobs.save("look.py", body.format("environment = ['PENSTOCK_TEST_VARIABLE']\n"))
    jobs.comes_to_give("look", "seen")

    jobs.save("look.py", body.format(""))
    jobs.comes_to_give("look", None)


def _known(stage: Stage) -> list[str]:
    return [row.definition.key for row in stage.app.definitions.list()]
