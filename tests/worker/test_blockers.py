"""Whatever a stranger holds for longer than a lease: everybody else's jobs are created, run, rescued and cancelled."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import apsw
import psycopg
import pytest

from penstock import JobHandle
from penstock.domain.states import Status
from penstock.domain.webhook.settings import WebhookSettings
from penstock.runtime.processes import boot_time
from penstock.worker.heartbeat import EXIT_UNTRUSTED
from tests.background.receivers import Receiver
from tests.worker.faults import LEASE, freeze, wait_for_time
from tests.worker.fleet import QUICK, Stage, WorkerProcess, command

pytestmark = pytest.mark.xdist_group("engine-blockers")

Blocker = Callable[["Field"], AbstractContextManager[None]]
FOREVER = 600
LONG_AT_FIRST: list[list[Any]] = [["tick_before", 2, 60], ["return", "done"]]
TOML = """
[webhooks]
allow_http = true
ports = [{port}]
allowed_networks = ["127.0.0.0/8"]
timeout = 30
"""


PROJECT = """
from tests.worker.scripted import QUICK, app, arun, run

app.job("own", **QUICK)(run)
app.job("own_inline", **QUICK, isolation="inline")(arun)
"""


def project(stage: Stage, *flags: str) -> WorkerProcess:
    """A worker that alone has some more definitions."""
    return stage.project(PROJECT, *flags)


@dataclass
class Field:
    """A store, a worker that is well, and a receiver of webhooks that can hold requests."""

    stage: Stage
    receiver: Receiver
    well: WorkerProcess
    stopped: list[JobHandle[Any]] = field(default_factory=list)
    """Jobs that the blocker holds up; they run once it lets go."""

    @property
    def table(self) -> str:
        return f"{self.stage.schema}." if self.stage.url.startswith("postgres") else ""

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.stage.url)

    def keep(self, key: str, *script: Any, **options: Any) -> JobHandle[Any]:
        """A job that the blocker holds up."""
        self.stopped.append(self.stage.enqueue(key, script, **options))
        return self.stopped[-1]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def ground(stage: Stage, receiver: Receiver) -> Field:
    (stage.folder / "penstock.toml").write_text(TOML.format(port=receiver.port))
    well = command(
        stage, "worker", "tests.worker.scripted:app", *QUICK, "--slots", "8", "--hook-timeout", "5", "--name", "well"
    )
    return Field(stage, receiver, well)


# What strangers hold


@contextlib.contextmanager
def open_enqueue(ground: Field) -> Iterator[None]:
    """An application has created a job under a key and does not commit; others of the key end, and are due."""
    stage = ground.stage
    ending = stage.app.enqueue("keyed", {"key": "k", "script": [["tick", 1]]})
    ground.stopped.append(stage.app.enqueue("keyed", {"key": "k", "script": []}, delay=1))
    stage.noted(ending, "tick")
    with ground.connect() as connection:
        stage.app.enqueue("keyed", {"key": "k", "script": []}, connection=connection)
        yield


def locked_rows(table: str, condition: str) -> Blocker:
    @contextlib.contextmanager
    def locked(ground: Field) -> Iterator[None]:
        ground.keep("single", ["return", 1], delay=2)
        ground.keep("rated", ["return", 1], delay=2)
        with ground.connect() as connection:
            rows = connection.execute(
                f"SELECT 1 FROM {ground.table}{table} WHERE {condition} FOR UPDATE".encode()
            ).fetchall()
            assert rows, f"nothing is locked in {table}"
            yield

    return locked


@contextlib.contextmanager
def old_snapshot(ground: Field) -> Iterator[None]:
    """A reader keeps its transaction open."""
    if ground.stage.url.startswith("sqlite"):
        reader = apsw.Connection(ground.stage.url.removeprefix("sqlite:///"))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM job").fetchall()
        yield
        reader.close()
        return
    with ground.connect() as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SELECT count(*) FROM {ground.table}job".encode())
        yield


@contextlib.contextmanager
def frozen_worker(ground: Field) -> Iterator[None]:
    """Another worker is stopped with two jobs that run and others that it has claimed ahead."""
    other = project(ground.stage, "--slots", "2", "--ahead", "3")
    jobs = [ground.keep("own", *LONG_AT_FIRST) for _ in range(2)]
    for job in jobs:
        ground.stage.noted(job, "tick")
    ahead = [ground.keep("own") for _ in range(3)]
    ground.stage.eventually(lambda: any(job.refresh().status == "running" for job in ahead), "one is claimed ahead")
    freeze(ground.stage, other)
    yield
    other.send(signal.SIGCONT)


@contextlib.contextmanager
def dead_zygote(ground: Field) -> Iterator[None]:
    """A worker whose application cannot be loaded any more, and whose zygote was killed."""
    broken = project(ground.stage, "--slots", "4")
    (ground.stage.folder / "project.py").write_text("def broken(:\n")
    os.kill(broken.zygote, signal.SIGKILL)
    ground.stage.eventually(lambda: "no new zygote" in broken.output or "load" in broken.output, "it says so")
    yield


@contextlib.contextmanager
def blocked_loop(ground: Field) -> Iterator[None]:
    """An inline handler of another worker blocks its event loop."""
    other = project(ground.stage, "--slots", "4")
    job = ground.stage.enqueue("own_inline", [["block", FOREVER]])
    ground.stage.noted(job, "begin")
    yield
    ground.stage.eventually(lambda: not other.alive, "the blocked worker has ended itself")
    assert other.code == EXIT_UNTRUSTED


@contextlib.contextmanager
def slow_receiver(ground: Field) -> Iterator[None]:
    """Webhooks go to a server that does not answer."""
    ground.stage.app.webhooks.settings = WebhookSettings(
        allow_http=True, ports=(ground.receiver.port,), allowed_networks=("127.0.0.0/8",)
    )
    url = ground.receiver.answers("/slow", ground.receiver.hold)
    ground.stage.app.webhooks.save(url)
    for _ in range(30):
        ground.stage.app.enqueue("noop", webhook_url=url)
    ground.receiver.wait("/slow")
    yield
    ground.receiver.released.set()


@contextlib.contextmanager
def hanging_hooks(ground: Field) -> Iterator[None]:
    for _ in range(10):
        ground.keep("stuck")
    ground.stage.noted(ground.stopped[0], "on_success")
    yield


@contextlib.contextmanager
def used_up_limit(ground: Field) -> Iterator[None]:
    """A definition with a limit of one has a job that does not end, and many that wait; so does a key."""
    single = ground.stage.enqueue("single", [["sleep", FOREVER]])
    keyed = ground.stage.app.enqueue("keyed", {"key": "k", "script": [["sleep", FOREVER]]})
    for job in (single, keyed):
        ground.stage.noted(job, "begin")
    for _ in range(50):
        ground.keep("single", priority=20)
        ground.stopped.append(ground.stage.app.enqueue("keyed", {"key": "k", "script": []}, priority=20))
    yield
    single.cancel()
    keyed.cancel()


@contextlib.contextmanager
def silent_clients(ground: Field) -> Iterator[None]:
    """Connections to PostgreSQL that say nothing use up a part of its places."""
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(ground.connect())
            connection.execute("SELECT 1")
        yield


EVERYWHERE: dict[str, Blocker] = {
    "an old snapshot": old_snapshot,
    "a frozen worker": frozen_worker,
    "a dead zygote": dead_zygote,
    "a blocked loop": blocked_loop,
    "a slow receiver": slow_receiver,
    "hanging hooks": hanging_hooks,
    "a used-up limit": used_up_limit,
}
ON_POSTGRES: dict[str, Blocker] = {
    "an open enqueue": open_enqueue,
    "silent clients": silent_clients,
    "a waiting job": locked_rows("job", f"status = {Status.SCHEDULED.code}"),
    "a definition": locked_rows("definition", "key = 'single'"),
    "the control of a definition": locked_rows("control", "key = 'single'"),
    "a rate": locked_rows("bucket", "true"),
    "another worker": locked_rows("worker", "name = 'another'"),
    "another schedule": locked_rows("schedule", "key = 'other'"),
    "the cursor of webhooks": locked_rows("webhook_feed", "true"),
}


CASES = [("sqlite", name) for name in EVERYWHERE] + [("postgres", name) for name in EVERYWHERE | ON_POSTGRES]


@pytest.mark.parametrize(("stage", "name"), CASES, indirect=["stage"])
def test_work_goes_on_beside_what_is_held_for_longer_than_a_lease(ground: Field, name: str) -> None:
    stage, blocker = ground.stage, (EVERYWHERE | ON_POSTGRES)[name]
    stage.app.schedules.save("often", "noop", every="1s")
    stage.app.schedules.save("other", "noop", every="1h")
    doomed = stage.worker("--slots", "1", "--name", "doomed")
    freeze(stage, ground.well)
    rescued = stage.enqueue("script", LONG_AT_FIRST)
    stage.noted(rescued, "tick")
    ground.well.send(signal.SIGCONT)
    if name == "another worker":
        command(stage, "worker", "tests.worker.scripted:app", *QUICK, "--slots", "1", "--name", "another")
    if name == "a rate":
        stage.enqueue("rated").wait(30)

    with blocker(ground):
        began = boot_time()
        doomed.kill()
        ticks = len(stage.app.schedules.ticks("often", 1000))
        work_goes_on(stage)
        assert stage.end(rescued).result == "done"
        stage.eventually(lambda: len(stage.app.schedules.ticks("often", 1000)) > ticks + 1, "the schedule ticks")
        wait_for_time(began + 1.5 * LEASE)
        work_goes_on(stage)

    for job in ground.stopped:
        assert stage.end(job, timeout=60).status == "succeeded"
    assert ground.well.alive, ground.well.output


def work_goes_on(stage: Stage) -> None:
    """Jobs of other definitions, keys and lanes go all their ways."""
    plain = [stage.app.enqueue("noop") for _ in range(20)]
    later = stage.app.enqueue("noop", delay=0.5)
    others = [
        stage.enqueue("script", [["return", 1]]),
        stage.enqueue("inline", [["return", 1]]),
        stage.app.enqueue("keyed", {"key": "another", "script": []}),
        stage.enqueue("tried_again", [["crash_before", 2]]),
        stage.app.enqueue("phased", {"scripts": {}}),
    ]
    cancelled = stage.enqueue("script", [["sleep", FOREVER]])
    stage.noted(cancelled, "begin")
    cancelled.cancel()

    assert stage.until(cancelled, "cancelled")
    assert {stage.end(job).status for job in (*plain, later, *others)} == {"succeeded"}
