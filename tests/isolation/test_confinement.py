"""What a job sees of the world, asserted from inside of it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-confinement")

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as somebody else")
OWN = {"HOME", "TMPDIR", "PENSTOCK_JOB_ID", "PENSTOCK_FENCE", "PENSTOCK_ATTEMPT"}
ALLOWED = {"PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ"}


def looked(stage: Stage, definition: str) -> dict[str, Any]:
    """What an attempt of a definition saw of itself."""
    job = stage.enqueue(definition, [["look"]])
    ended = stage.end(job)
    assert ended.status == "succeeded", ended.error
    return stage.journal(job, "look")[0]


@pytest.fixture
def inside(shared_stage: Stage) -> dict[str, Any]:
    return looked(shared_stage, "script")


@pytest.fixture
def open_stage() -> Iterator[Stage]:
    """A SQLite file in a folder that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="engine-open-") as folder:
        Path(folder).chmod(0o755)
        stage = Stage(f"sqlite:///{folder}/jobs.db", "penstock", Path(folder))
        yield stage
        stage.close()


def test_the_environment_is_what_is_allowed_and_nothing_else(shared_stage: Stage, inside: dict[str, Any]) -> None:
    seen = inside["environ"]

    assert set(seen) == OWN | (ALLOWED & set(os.environ))
    assert (seen["PENSTOCK_JOB_ID"], seen["PENSTOCK_FENCE"], seen["PENSTOCK_ATTEMPT"]) == (inside["job"], "1", "1")
    assert seen["HOME"] == seen["TMPDIR"] == inside["cwd"]
    assert "PENSTOCK_TEST_STORE" in shared_stage.environment


def test_the_environment_cannot_be_read_from_proc_either(inside: dict[str, Any]) -> None:
    assert not [entry for entry in inside["environ_file"] if "PENSTOCK_TEST" in entry]


def test_a_definition_sees_the_variables_that_it_names(shared_stage: Stage) -> None:
    assert looked(shared_stage, "few_files")["environ"]["PENSTOCK_TEST_ALLOWED"] == "seen"


def test_only_the_line_and_the_three_streams_are_open(inside: dict[str, Any]) -> None:
    seen = dict(inside["descriptors"])
    # The one with which the folder of descriptors was read is gone when it is looked at.
    seen = {number: target for number, target in seen.items() if target}

    assert set(seen) == {"0", "1", "2", "3"}
    assert seen["0"] == "/dev/null"
    assert seen["1"].startswith("pipe:")
    assert seen["2"].startswith("pipe:")
    assert seen["1"] != seen["2"]
    assert seen["3"].startswith("socket:")


def test_it_works_in_a_private_folder(inside: dict[str, Any]) -> None:
    assert Path(inside["cwd"]).parent.name.startswith("penstock-")
    assert (inside["mode"], inside["umask"]) == (0o700, 0o077)


def test_two_jobs_at_once_do_not_share_a_folder(shared_stage: Stage) -> None:
    script: list[list[Any]] = [["look"], ["sleep", 60]]
    jobs = [shared_stage.enqueue("script", script) for _ in range(2)]
    folders = [shared_stage.noted(job, "look")[0]["cwd"] for job in jobs]

    for job in jobs:
        job.cancel()

    assert folders[0] != folders[1]
    assert [shared_stage.end(job).status for job in jobs] == ["cancelled", "cancelled"]


def test_it_is_alone_in_its_session_with_one_thread(inside: dict[str, Any]) -> None:
    assert (inside["session"], inside["threads"]) == (inside["pid"], 1)


def test_it_leaves_no_core_and_gains_no_privileges(inside: dict[str, Any]) -> None:
    assert inside["limits"]["CORE"] == [0, 0]
    assert inside["no_new_privileges"]
    assert int(inside["oom_score"]) >= 800


def test_limits_of_the_definition_hold(shared_stage: Stage) -> None:
    limits = looked(shared_stage, "few_files")["limits"]

    assert limits["NOFILE"] == [32, 32]
    assert limits["FSIZE"] == [1_000_000, 1_000_000]
    assert looked(shared_stage, "busy")["limits"]["CPU"][0] == 1


def test_it_runs_as_whoever_the_worker_is_unless_told_otherwise(inside: dict[str, Any]) -> None:
    assert inside["uid"] == [os.getuid()] * 3


@needs_root
def test_jobs_of_another_user_have_its_id_and_no_groups(stage: Stage) -> None:
    stage.worker("--user", "nobody")

    inside = looked(stage, "script")

    nobody = pwd.getpwnam("nobody")
    assert inside["uid"] == [nobody.pw_uid] * 3
    assert set(inside["groups"]) <= {nobody.pw_gid}
    assert (inside["mode"], inside["owner"]) == (0o700, nobody.pw_uid)
    assert inside["no_new_privileges"]
    assert not [entry for entry in inside["environ_file"] if "PENSTOCK_TEST" in entry]


@needs_root
def test_a_job_of_another_user_cannot_read_the_store(open_stage: Stage) -> None:
    open_stage.worker("--user", "nobody")
    path = open_stage.folder / "jobs.db"

    refused = open_stage.end(open_stage.enqueue("script", [["read", str(path)]], max_attempts=1))

    assert refused.status == "failed"
    assert f"Permission denied: '{path}'" in str(refused.error)
    other = open_stage.folder / "other"
    other.write_text("open to all")
    assert open_stage.end(open_stage.enqueue("script", [["read", str(other)]])).status == "succeeded"


@needs_root
def test_threads_of_other_programs_of_the_user_leave_a_job_its_processes(stage: Stage) -> None:
    stage.worker("--user", "nobody")
    text = f"""
import os, threading
os.setuid({pwd.getpwnam("nobody").pw_uid})
threads = [threading.Thread(target=threading.Event().wait, daemon=True).start() for _ in range(200)]
print("at work", flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"at work\n"

        ended = stage.end(stage.enqueue("few_processes", [["zombies", 2], ["return", "done"]]))

        program.communicate(b"\n")
    assert (ended.status, ended.result, ended.error) == ("succeeded", "done", None)


@needs_root
@pytest.mark.parametrize("flags", [[], ["--user", "nobody-at-all"]])
def test_a_worker_of_root_wants_to_be_told_as_whom_jobs_run(quiet_stage: Stage, flags: list[str]) -> None:
    worker = quiet_stage.worker(*flags, wait=False, root=False)

    assert worker.wait() == 2
    says = "There is no user 'nobody-at-all'" if flags else "--user nobody"
    assert says in worker.output
    assert "Traceback" not in worker.output


def test_nothing_of_a_folder_is_left_and_nothing_beyond_it_is_touched(shared_stage: Stage, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "file"
    outside.parent.mkdir()
    outside.write_text("survives")
    outside.parent.chmod(0o755)
    job = shared_stage.enqueue("script", [["mess", str(outside)]])

    ended = shared_stage.end(job)

    (mess,) = shared_stage.journal(job, "mess")
    assert ended.status == "succeeded"
    assert not Path(mess["cwd"]).exists() or os.listdir(mess["cwd"]) == []
    assert outside.read_text() == "survives"
    assert outside.parent.stat().st_mode & 0o777 == 0o755


def test_a_job_may_remove_its_own_folder(shared_stage: Stage) -> None:
    job = shared_stage.enqueue("script", [["remove_home"], ["return", 1]])

    assert shared_stage.end(job).result == 1
    assert shared_stage.end(shared_stage.enqueue("script", [["look"], ["return", 2]])).result == 2


def test_no_folder_outlives_its_worker(quiet_stage: Stage) -> None:
    worker = quiet_stage.worker()
    folder = Path(looked(quiet_stage, "script")["cwd"]).parent

    assert worker.stop() == 0
    assert not folder.exists()


def test_a_worker_whose_folder_was_removed_makes_another(stage: Stage) -> None:
    worker = stage.worker()
    folder = Path(looked(stage, "script")["cwd"]).parent

    shutil.rmtree(folder)
    job = stage.enqueue("script", [["look"], ["return", 1]])

    assert (stage.end(job).status, stage.kinds(job).count("job.started")) == ("succeeded", 1)
    another = Path(stage.noted(job, "look")[0]["cwd"]).parent
    assert another != folder
    assert worker.stop() == 0
    assert not another.exists()


def test_a_job_whose_folder_cannot_be_made_is_given_back_until_it_can(stage: Stage) -> None:
    parent = stage.folder / "temporary"
    parent.mkdir()
    worker = stage.worker(environment={"TMPDIR": str(parent)})
    looked(stage, "script")

    # In one step: what is deleted piece by piece is made again in between by whoever misses it.
    parent.rename(stage.folder / "taken away")
    job = stage.enqueue("script", [["return", 1]])
    stage.eventually(lambda: f"job {job.id} could not be run" in worker.output, "the worker says so")
    stage.eventually(lambda: "job.released" in stage.kinds(job), "it is given back at once")
    parent.mkdir()

    assert stage.end(job).status == "succeeded"
    assert "Exception in callback" not in worker.output


def test_random_numbers_differ_between_children(shared_stage: Stage) -> None:
    jobs = [shared_stage.enqueue("script", [["dice"]]) for _ in range(4)]

    thrown = {shared_stage.noted(job, "dice")[0]["random"] for job in jobs}

    assert len(thrown) == 4
