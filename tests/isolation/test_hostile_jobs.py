"""Jobs that attack what runs them. Each test says what is refused, or what the guide says is possible.

They run in three ways: as the worker's own user, which has no privileges; as another user than their worker; and as
root, like their worker. After each attack the worker goes on, and other jobs succeed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.job import Job
from penstock.runtime import processes
from tests.isolation.hostile import DONE
from tests.waiting import wait_until
from tests.worker.fleet import QUICK, Stage, WorkerProcess, command, gone

pytestmark = pytest.mark.xdist_group("engine-hostile")

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can run jobs as another user")
WAYS = ["own", pytest.param("nobody", marks=needs_root), pytest.param("root", marks=needs_root)]
CANARY = "canary-4711-of-the-worker"
REFUSED = {"EACCES", "EPERM"}
_NO_CAPABILITIES = """
import os, sys
from penstock.isolation import capabilities
capabilities.give_up_inheritance()
os.execv(sys.argv[1], sys.argv[1:])
"""


class Prison:
    """A worker with hostile jobs, and how they relate to it: `own`, `nobody` or `root`."""

    def __init__(self, way: str, stage: Stage, worker: WorkerProcess) -> None:
        self.way = way
        self.stage = stage
        self.worker = worker

    @property
    def same_user(self) -> bool:
        return self.way != "nobody"

    def attack(self, name: str, *given: Any, definition: str = "attack") -> Job:
        """Let a job attack, and see that its worker and other jobs go on."""
        ended = self.stage.end(self.stage.app.enqueue(definition, {"name": name, "given": list(given)}), 60)
        self.assert_unharmed()
        return ended

    def attack_with_each(self, name: str, attacks: dict[str, list[Any]]) -> dict[str, Job]:
        """The same for many attacks at the same time, by what they are."""
        jobs = {
            what: self.stage.app.enqueue("attack", {"name": name, "given": given}) for what, given in attacks.items()
        }
        ended = {what: self.stage.end(job, 60) for what, job in jobs.items()}
        self.assert_unharmed()
        return ended

    def result(self, name: str, *given: Any, definition: str = "attack") -> Any:
        ended = self.attack(name, *given, definition=definition)
        assert ended.status == "succeeded", ended.error
        return ended.result

    def assert_unharmed(self) -> None:
        jobs = [self.stage.app.enqueue("honest", {"number": number}) for number in range(3)]
        assert [self.stage.end(job).result for job in jobs] == [1, 2, 3]
        assert self.worker.alive
        assert "Traceback" not in self.worker.output, self.worker.output


@pytest.fixture(scope="module", params=WAYS)
def prison(request: pytest.FixtureRequest) -> Iterator[Prison]:
    with tempfile.TemporaryDirectory(prefix="engine-hostile-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        stage = Stage(f"sqlite:///{folder}/jobs.db", "penstock", folder)
        stage.environment["PENSTOCK_TEST_CANARY"] = CANARY
        yield Prison(request.param, stage, started(stage, request.param))
        stage.close()


def started(stage: Stage, way: str) -> WorkerProcess:
    """A worker without privileges for `own`: as root it gives up all capabilities before it starts."""
    if way == "nobody":
        return stage.worker("--user", "nobody", target="tests.isolation.hostile:app")
    if way == "root":
        return stage.worker(target="tests.isolation.hostile:app")
    allowed = ["--allow-root"] if os.getuid() == 0 else []
    line = [sys.executable, "-m", "penstock", "worker", "tests.isolation.hostile:app", *allowed, *QUICK]
    worker = WorkerProcess([sys.executable, "-c", _NO_CAPABILITIES, *line], stage.environment, stage.folder / "own.log")
    stage.workers.append(worker)
    return worker.ready()


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that every user can reach and that no job has any business in."""
    with tempfile.TemporaryDirectory(prefix="engine-outside-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "file").write_text("survives")
        yield folder


@pytest.fixture
def victim(prison: Prison, outside: Path) -> Iterator[tuple[int, Path]]:
    """Another job that runs: its process and its private folder."""
    said = outside / "victim"
    job = prison.stage.app.enqueue("attack", {"name": "victim", "given": [str(said)]})
    pid, folder = wait_until(lambda: said.read_text().split() if said.exists() else [], "the victim runs")
    yield int(pid), Path(folder)
    job.cancel()
    prison.stage.end(job)


def test_nothing_of_worker_and_zygote_can_be_looked_into(prison: Prison) -> None:
    found = prison.result("inspect")

    allowed = {f"{name} {way}: {said}" for name in found for way, said in found[name].items() if said not in REFUSED}
    assert allowed == set()
    assert set(found) == {"worker", "zygote"}


def test_a_job_has_no_capability_and_gains_no_privileges(prison: Prison) -> None:
    status = prison.result("status")

    assert {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {
        "CapInh": 0, "CapPrm": 0, "CapEff": 0, "CapAmb": 0,
    }  # fmt: skip
    assert status["NoNewPrivs"] == "1"
    if os.getuid() == 0:
        assert int(status["CapBnd"], 16) == 0
        assert set(prison.result("privileged").values()) <= REFUSED


def test_other_jobs_can_be_looked_into_by_the_same_user_until_they_have_changed_it(
    prison: Prison, victim: tuple[int, Path]
) -> None:
    pid, folder = victim

    found = prison.result("inspect", pid)

    # The guide says so: all jobs of a worker have one user. Linux hides the memory of a process that has changed it.
    assert (found["environ"] == DONE) == prison.same_user
    assert (found["mem"] == DONE) == prison.same_user
    assert prison.result("open", str(folder), str(folder / "secret")) == {
        str(folder): DONE, str(folder / "secret"): DONE,
    }  # fmt: skip


def test_the_store_is_open_to_the_worker_s_own_user_alone(prison: Prison) -> None:
    files = [str(prison.stage.folder / f"jobs.db{end}") for end in ("", "-wal", "-shm")]

    found = prison.result("open", *files)

    assert all((said == DONE) == prison.same_user for said in found.values()), found


def test_only_jobs_of_the_worker_s_own_user_may_signal_it(prison: Prison) -> None:
    found = prison.result("signal", 0)

    assert found == dict.fromkeys(("worker", "zygote"), DONE if prison.same_user else "EPERM")


def test_jobs_may_signal_each_other(prison: Prison, victim: tuple[int, Path]) -> None:
    assert prison.result("signal", 0, victim[0]) == {"job": DONE}


def test_a_job_that_kills_its_zygote_again_and_again_fails(prison: Prison) -> None:
    zygote = prison.worker.zygote

    ended = prison.attack("end_zygote", int(signal.SIGKILL), 10)

    assert ended.status == "failed"
    assert gone(zygote) == prison.same_user
    assert ("forked this attempt died" if prison.same_user else "Operation not permitted") in str(ended.error)


def test_a_zygote_that_a_job_has_stopped_is_replaced(prison: Prison) -> None:
    zygote = prison.worker.zygote

    ended = prison.attack("end_zygote", int(signal.SIGSTOP), 1)

    assert gone(zygote) == prison.same_user
    assert ended.status == ("succeeded" if prison.same_user else "failed"), ended.error


def frame(body: str | bytes) -> str:
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    return (len(data).to_bytes(4, "big") + data).hex()


def said(**facts: Any) -> str:
    return frame(json.dumps({"message": None, "phase": None, **facts}))


LIES = {
    "no JSON": frame("hello"),
    "a list": frame("[]"),
    "a number": frame("5"),
    "nothing": frame(""),
    "no text": frame(b"\xff\xfe"),
    "two frames in one": frame('{"say": "done"}{"say": "done"}'),
    "a length of 4 GiB": "ffffffff",
    "a length just too long": (8 * 1024 * 1024 + 1).to_bytes(4, "big").hex(),
    "10,000 lists in each other": frame('{"say": ' + "[" * 10_000 + "]" * 10_000 + "}"),
    "100,000 objects in each other": frame('{"a":' * 100_000),
    "a number of 10,000 digits": frame('{"say": "progress", "percent": ' + "9" * 10_000 + "}"),
    "no verb": frame("{}"),
    "a verb that is a list": frame('{"say": ["done"]}'),
    "a verb that is nothing": frame('{"say": null}'),
    "a verb of the zygote": frame('{"say": "exited", "number": 1, "status": 0, "cpu": 0, "memory": 0}'),
    "an order of the worker": frame('{"do": "fork", "numbers": [1, 2, 3]}'),
    "NaN": frame('{"say": "progress", "percent": NaN, "message": null, "phase": null}'),
    "infinity": frame('{"say": "progress", "percent": -Infinity, "message": null, "phase": null}'),
    "a percentage that is an object": said(say="progress", percent={}),
    "a phase that is a list": said(say="progress", percent=1, phase=["run"]),
    "a position that is true": said(say="phase", name="run", position=True),
    "a position beyond all": said(say="phase", name="run", position=2**70),
    "a level that is an object": said(say="log", level={"a": 1}, details=None),
    "details that are no JSON": said(say="log", level="info", details="{"),
    "an event without a kind": said(say="event", kind="", data=None),
    "an event of 1,000 letters": said(say="event", kind="x" * 1000, data=None),
    "an outcome that no handler has": frame('{"say": "outcome", "trigger": "cancel"}'),
    "an outcome without its parts": frame('{"say": "outcome", "trigger": "succeed"}'),
    "an outcome of a foreign cause": said(
        say="outcome", trigger="succeed", cause="x", result="1", retryable=1, delay=None, note=None, data=None,
        failure=None,
    ),
}  # fmt: skip


def test_a_forged_frame_ends_its_own_attempt(prison: Prison) -> None:
    ended = prison.attack_with_each("forge", {what: [True, data] for what, data in LIES.items()})

    broken = "The attempt broke the protocol of its line"
    assert {
        what: (job.status, job.error)
        for what, job in ended.items()
        if job.status != "failed" or not str(job.error).startswith(broken)
    } == {}


TRUTHS = {
    "a message that is a list": said(say="log", level="info", message=[1], details=None),
    "halves of characters": said(say="log", level="\ud800", message="\udfff\x00", details=None, phase="\ud800"),
    "names of other jobs": frame('{"say": "done", "number": 1, "job_id": "x", "fence": 99}'),
    "two endings": frame('{"say": "done"}') + said(say="progress", percent=50) + frame('{"say": "done"}'),
}  # fmt: skip


def test_a_strange_frame_says_something_of_its_own_attempt_alone(prison: Prison) -> None:
    ended = prison.attack_with_each("forge", {what: [False, data] for what, data in TRUTHS.items()})

    assert {what: (job.status, job.error) for what, job in ended.items() if job.status != "succeeded"} == {}


def test_questions_without_a_wish_for_answers_end_the_attempt(prison: Prison) -> None:
    before = processes.memory([prison.worker.pid])

    ended = prison.attack("ask_without_end", 100)

    assert "requests wait for an answer" in str(ended.error)
    assert processes.memory([prison.worker.pid]) - before < 50_000_000


def test_descriptors_that_a_job_sends_are_not_taken(prison: Prison) -> None:
    def opened() -> int:
        return len(os.listdir(f"/proc/{prison.worker.pid}/fd"))

    before = opened()

    assert prison.result("pass_descriptors", 20) == "sent"

    assert opened() < before + 50


def test_links_that_a_job_plants_lead_the_worker_nowhere(prison: Prison, outside: Path) -> None:
    found = prison.result("plant", str(outside))

    assert set(found) == {DONE} if prison.same_user else set(found) <= REFUSED
    assert (outside / "file").read_text() == "survives"
    assert outside.stat().st_mode & 0o777 == 0o777


def test_a_fork_bomb_ends_at_its_limit(prison: Prison) -> None:
    ended = prison.attack("bomb", definition="attack_within_limits")

    assert ended.status == "failed"
    assert prison.worker.children() == []


def test_a_file_that_grows_and_files_that_multiply_meet_their_limits(prison: Prison) -> None:
    assert prison.result("fill", definition="attack_within_limits") == {"large": "EFBIG", "many": "EMFILE"}


def test_a_daemon_does_not_outlive_its_attempt(prison: Prison, outside: Path) -> None:
    said = outside / "daemon"

    ended = prison.attack("daemon", str(said))

    assert ended.status == "succeeded"
    assert gone(int(said.read_text()))


def test_a_server_cannot_be_looked_into_by_its_own_user(tmp_path: Path) -> None:
    stage = Stage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    try:
        server = command(stage, "serve", "--store", stage.url, "--no-worker", "--port", "0", wait=False)
        wait_until(lambda: "penstock serving on" in server.output or not server.alive, "it serves")
        look = f"""
from penstock.isolation import capabilities
capabilities.give_up()
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{server.pid}/{{name}}", "rb").read(1)
    except PermissionError:
        print("refused")
"""

        said = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)

        assert said.stdout.splitlines() == ["refused"] * 3, server.output
    finally:
        stage.close()
