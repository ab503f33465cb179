"""Two servers and two workers on one PostgreSQL: what is asked of one is seen and changed through the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx2
import pytest

from tests.http.servers import ServerProcess, opened, serve
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, Stage

pytestmark = pytest.mark.xdist_group("web-two-servers")


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    yield from opened(request, tmp_path_factory.mktemp("two"), "postgres")


@pytest.fixture(scope="module")
def servers(stage: Stage) -> tuple[ServerProcess, ServerProcess]:
    """Two servers without code, and two workers."""
    for _ in range(2):
        stage.worker("--slots", "2", wait=False)
    pair = serve(stage, target=None, wait=False), serve(stage, target=None, wait=False)
    for each in stage.workers:
        each.ready()
    return pair


class Watcher(threading.Thread):
    """Reads the events of one server's stream until one of them is there."""

    def __init__(self, server: ServerProcess, path: str, last: str) -> None:
        super().__init__(daemon=True)
        self.kinds: list[str] = []
        self.opened = threading.Event()
        self._server, self._path, self._last = server, path, last
        self.start()
        assert self.opened.wait(PATIENCE)

    def run(self) -> None:
        headers = {"Accept": "text/event-stream"}
        address = self._server.url + self._path
        with httpx2.stream("GET", address, headers=headers, timeout=PATIENCE, trust_env=False) as answer:
            self.opened.set()
            for line in answer.iter_lines():
                if line.startswith("event: job."):
                    self.kinds.append(line.removeprefix("event: "))
                if line == f"event: {self._last}":
                    return

    def seen(self) -> list[str]:
        """What it saw, once it has seen the last."""
        self.join(PATIENCE)
        assert not self.is_alive(), self.kinds
        return self.kinds


def test_a_job_started_on_one_is_watched_on_the_other(servers: tuple[ServerProcess, ServerProcess]) -> None:
    here, there = servers
    job = here.start_job(script=[["sleep", 0.3], ["return", 7]], delay=1)
    watcher = Watcher(there, f"/v1/jobs/{job}/events", "job.succeeded")

    assert watcher.seen() == ["job.enqueued", "job.started", "job.succeeded"]
    assert there.get(f"/v1/jobs/{job}")["result"] == 7


def test_everything_is_seen_on_both(servers: tuple[ServerProcess, ServerProcess]) -> None:
    here, there = servers
    watchers = [Watcher(each, "/v1/events?type=job.cancelled", "job.cancelled") for each in servers]

    job = here.start_job(delay=600)
    there.post(f"/v1/jobs/{job}/cancel")

    for each in watchers:
        assert each.seen() == ["job.cancelled"]


@pytest.mark.parametrize("which", [0, 1])
def test_a_running_job_is_cancelled_through_either(servers: tuple[ServerProcess, ServerProcess], which: int) -> None:
    job = servers[0].start_job(script=[["sleep", 60]])
    servers[which].until(job, "running")

    answer = servers[which].request("POST", f"/v1/jobs/{job}/cancel")

    assert answer.status_code == 202
    for each in servers:
        assert each.until(job, "cancelled")["status"] == "cancelled"
    assert servers[which].request("POST", f"/v1/jobs/{job}/cancel").status_code == 409


def test_a_key_that_one_server_has_seen_gives_the_same_job_on_the_other(
    servers: tuple[ServerProcess, ServerProcess],
) -> None:
    asked = {"definitionKey": "script", "params": {"script": []}, "idempotencyKey": "once", "delay": 600}

    first, second = (each.request("POST", "/v1/jobs", json=asked) for each in servers)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["jobId"] == second.json()["jobId"]


def test_both_workers_take_part(servers: tuple[ServerProcess, ServerProcess], stage: Stage) -> None:
    # More than one of them has slots for.
    jobs = [servers[number % 2].start_job(script=[["sleep", 60]]) for number in range(4)]

    def busy() -> bool:
        running = [servers[0].get(f"/v1/jobs/{job}") for job in jobs]
        return len({each["workerId"] for each in running if each["status"] == "running"}) == 2

    wait_until(busy, "both workers run jobs at once", PATIENCE)
    for job in jobs:
        servers[0].post(f"/v1/jobs/{job}/cancel")
    for job in jobs:
        servers[1].until(job, "cancelled")
