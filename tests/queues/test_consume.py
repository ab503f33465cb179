"""`app.consume`: a host that is handed messages runs the job that each names, and no other."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidInput, Penstock
from penstock.launch.consume import job_id_of
from tests.queues.conformance import GARBAGE, new_id
from tests.queues.folder_queue import FolderQueue
from tests.waiting import wait_until
from tests.worker.fleet import ROOT, Gate, Stage

pytestmark = pytest.mark.xdist_group("consume")

PROJECT = """
import json, os, sys
from penstock import Penstock, Retry

app = Penstock({url!r}, schema={schema!r}, queue="tests.queues.folder_queue:make")


@app.job("work")
def work(number: int = 0) -> int:
    return number


@app.job("where")
def where() -> int:
    return os.getpid()


@app.job("again", max_attempts=2, backoff=0)
def again(ctx) -> int:
    assert ctx.attempt > 1
    return ctx.attempt


@app.job("parent")
def parent() -> str:
    return app.enqueue("work", {{"number": 5}}).id


@app.job("here", isolation="inline")
async def here() -> int:
    return os.getpid()


@app.job("gated")
def gated() -> None:
    {gate}


if __name__ == "__main__":
    said = []
    job = app.consume(
        json.loads(sys.argv[1]), acknowledge=lambda: print("acknowledged", flush=True), **json.loads(sys.argv[2])
    )
    print(json.dumps(None if job is None else {{"status": job.status, "result": job.result, "host": os.getpid()}}))
"""


class Host:
    """A program that is started for one message, as functions in a cloud are."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.gate = Gate(stage.folder)
        self.queue = FolderQueue(stage.folder / "queue")
        self._environment = {
            **stage.environment,
            "PENSTOCK_WORKER_ALLOW_ROOT": "true",
            "FOLDER_QUEUE": str(stage.folder / "queue"),
            "PYTHONPATH": f"{stage.folder}{os.pathsep}{ROOT}",
        }
        text = PROJECT.format(url=stage.url, schema=stage.schema, gate=self.gate.text.replace("\n", "\n"))
        (stage.folder / "host.py").write_text(textwrap.dedent(text))
        self._python("import host; host.app.definitions.register()")

    def begin(self, message: object, **options: Any) -> subprocess.Popen[str]:
        line = [sys.executable, str(self.stage.folder / "host.py"), json.dumps(message), json.dumps(options)]
        return subprocess.Popen(
            line,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.stage.folder,
        )

    def consume(self, message: object, **options: Any) -> Any:
        """Handle a message: whether it was acknowledged once, and what was given back."""
        process = self.begin(message, **options)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        first, answer = out.splitlines()
        assert first == "acknowledged"
        return json.loads(answer)

    def published(self) -> set[str | None]:
        return {each.job_id for each in asyncio.run(_received(self.queue))}

    def _python(self, text: str) -> None:
        subprocess.run([sys.executable, "-c", text], env=self._environment, check=True, timeout=60)


async def _received(queue: FolderQueue) -> Any:
    return await queue.receive(0.2)


@pytest.fixture
def host(stage: Stage) -> Iterator[Host]:
    made = Host(stage)
    yield made
    asyncio.run(made.queue.aclose())


def test_exactly_the_job_of_the_message_runs_in_a_process_of_its_own(host: Host) -> None:
    app = host.stage.app
    other, named = app.enqueue("work", {"number": 1}, priority=20), app.enqueue("where")

    done = host.consume(named.id)

    assert done["status"] == "succeeded"
    assert int(done["result"]) != done["host"]
    assert other.refresh().status == "queued"
    assert [each.number for each in host.stage.attempts(named)] == [1]
    assert {row.ended for row in app.workers.list()} == {"stopped"}


def test_an_inline_job_runs_in_the_host(host: Host) -> None:
    done = host.consume({"job_id": host.stage.app.enqueue("here").id})

    assert (done["status"], int(done["result"])) == ("succeeded", done["host"])


def test_a_job_that_fails_is_queued_and_published_again(host: Host) -> None:
    job = host.stage.app.enqueue("again")

    first = host.consume(job.id)
    published = host.published()
    second = host.consume(job.id)

    assert first["status"] == "queued"
    assert published == {job.id}
    assert (second["status"], second["result"]) == ("succeeded", 2)


def test_what_a_job_creates_is_published(host: Host) -> None:
    done = host.consume(host.stage.app.enqueue("parent").id)

    assert host.published() == {done["result"]}


def test_a_job_that_runs_already_or_has_ended_is_dropped(host: Host) -> None:
    job = host.stage.app.enqueue("gated")
    running = host.begin(job.id)
    host.gate.wait()

    assert host.consume(job.id) is None

    host.gate.open()
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert host.consume(job.id) is None
    assert [each.number for each in host.stage.attempts(job)] == [1]


def test_two_hosts_with_the_same_message_run_the_job_once(host: Host) -> None:
    job = host.stage.app.enqueue("work", {"number": 3})

    both = [host.begin(job.id) for _ in range(2)]

    answers = [each.communicate(timeout=60)[0].splitlines() for each in both]
    assert [first for first, _ in answers] == ["acknowledged"] * 2
    assert sorted(last == "null" for _, last in answers) == [False, True]
    assert len(host.stage.attempts(job)) == 1


def test_an_attempt_that_outlasts_the_budget_is_stopped_and_its_job_is_queued_again(host: Host) -> None:
    job = host.stage.app.enqueue("gated")

    done = host.consume(job.id, within=8)

    assert done["status"] == "queued"
    assert host.gate.passed == 1
    assert host.published() == {job.id}


def test_a_killed_host_loses_no_job(host: Host) -> None:
    job = host.stage.app.enqueue("gated")
    process = host.begin(job.id)
    host.gate.wait()
    assert process.stdout is not None
    assert process.stdout.readline() == "acknowledged\n"

    process.kill()
    process.communicate(timeout=10)
    host.gate.open()
    path = f"{host.stage.folder}{os.pathsep}{ROOT}"
    host.stage.worker(target="host:app", environment={"PYTHONPATH": path, "FOLDER_QUEUE": str(host.queue._folder)})

    assert host.stage.end(job, 60).status == "succeeded"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Penstock]:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db", queue=FolderQueue(tmp_path / "queue"))
    yield app
    app.close()


@pytest.mark.parametrize("message", [*GARBAGE, None, b"\xff", b"{}", "{", '"', [], {}, {"job_id": 1}, 3.5])
def test_garbage_is_acknowledged_and_dropped(app: Penstock, message: Any) -> None:
    calls: list[str] = []

    assert app.consume(message, acknowledge=lambda: calls.append("acknowledged")) is None

    assert calls == ["acknowledged"]


def test_a_message_of_the_queue_is_acknowledged_there(app: Penstock, tmp_path: Path) -> None:
    app.queue.publish([new_id()])

    async def once() -> None:
        for each in await app.queue.receive(5):
            assert await app.aconsume(each) is None
        await app.queue.aclose()

    asyncio.run(once())

    assert wait_until(lambda: not os.listdir(tmp_path / "queue" / "taken"), "it is acknowledged")


def test_an_acknowledgement_that_fails_is_a_line_in_the_log(app: Penstock, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ConnectionError("the broker is away")

    assert app.consume(new_id(), acknowledge=fail) is None
    assert "a message could not be acknowledged: ConnectionError" in caplog.text


def test_an_application_that_no_module_holds_is_refused_before_anything_is_acknowledged(app: Penstock) -> None:
    job = app.job("work")(_nothing).enqueue()
    calls: list[str] = []

    with pytest.raises(InvalidInput, match="not a variable of a module"):
        app.consume(job.id, acknowledge=lambda: calls.append("acknowledged"))

    assert (calls, job.refresh().status) == ([], "queued")


def test_a_budget_too_small_to_start_in_is_refused(app: Penstock) -> None:
    with pytest.raises(InvalidInput, match="at least 5 seconds"):
        app.consume(new_id(), within=1)


@pytest.mark.parametrize("form", [str, str.upper, str.encode, json.dumps, lambda each: json.dumps({"jobId": each})])
def test_an_id_is_found_in_the_usual_forms_of_a_message(form: Any) -> None:
    job_id = str(uuid.uuid4())

    assert job_id_of(form(job_id)) == job_id


@pytest.mark.parametrize(("start", "folder"), [(["code/host.py"], "."), (["-m", "host"], "code")])
def test_the_store_of_a_program_is_the_one_that_its_relative_path_names(
    tmp_path: Path, start: list[str], folder: str
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "host.py").write_text(
        'from penstock import Penstock\n\napp = Penstock("sqlite:///relative.db")\n\n\n'
        '@app.job("work")\ndef work() -> int:\n    return 7\n\n\n'
        'if __name__ == "__main__":\n    print(app.consume(work.enqueue().id).result)\n'
    )
    environment = {**os.environ, "PENSTOCK_WORKER_ALLOW_ROOT": "true", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, *start], cwd=tmp_path / folder, env=environment, capture_output=True, text=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("7\n", "")


def _nothing() -> None: ...
