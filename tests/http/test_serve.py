"""`penstock serve`: it starts, answers, works, stops promptly, and refuses to be reached by strangers."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.background.receivers import Receiver
from tests.http.servers import ServerProcess, opened, serve
from tests.signals import ignored
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, ROOT, Gate, JobFolder, Stage

pytestmark = pytest.mark.xdist_group("web-serve")


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


@pytest.fixture
def quiet_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A SQLite file, for tests to which the store is all the same."""
    yield from opened(request, tmp_path, "sqlite")


def test_a_server_answers_and_runs_what_it_is_asked_to_start(stage: Stage) -> None:
    server = serve(stage)

    answer = server.request("POST", "/v1/jobs", json={"definitionKey": "script", "params": {"script": [["return", 5]]}})

    assert answer.status_code == 201
    assert "server" not in answer.headers
    assert server.until(answer.json()["jobId"], "succeeded")["result"] == 5
    assert server.stop() == 0
    assert "Traceback" not in server.output


def test_a_stop_lets_running_jobs_end_and_takes_no_more_requests(stage: Stage) -> None:
    server = serve(stage)
    job = server.start_job(script=[["sleep", 2], ["return", "done"]])
    server.until(job, "running")

    server.send(signal.SIGTERM)

    wait_until(lambda: not _reachable(server), "no connection is taken any more", 2)
    assert server.alive, "the job is still waited for"
    assert server.wait() == 0
    assert stage.end(job).status == "succeeded"


def test_a_second_signal_does_not_wait_for_jobs(quiet_stage: Stage) -> None:
    server = serve(quiet_stage, "--drain", "60")
    job = server.start_job(script=[["sleep", 60]])
    server.until(job, "running")

    server.send(signal.SIGTERM)
    wait_until(lambda: "stopping: 1 job(s)" in server.output, "it drains", PATIENCE)
    server.send(signal.SIGTERM)

    begun = time.monotonic()
    assert server.wait() == 0
    assert time.monotonic() - begun < 10
    assert quiet_stage.app.get(job).status == "queued", "it was given back"


def test_a_server_started_with_sigint_ignored_is_stopped_by_sigterm_alone(quiet_stage: Stage) -> None:
    with ignored(signal.SIGINT):
        server = serve(quiet_stage)

    server.send(signal.SIGINT)
    server.send(signal.SIGINT)

    server.until(server.start_job(script=[["return", 5]]), "succeeded")
    assert "stopping" not in server.output
    assert server.stop() == 0


def test_a_stop_with_idle_connections_is_prompt(quiet_stage: Stage) -> None:
    server = serve(quiet_stage, worker=False)
    address = _address(server)
    idle = [socket.create_connection(address) for _ in range(20)]
    half = socket.create_connection(address)
    half.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: 127")

    begun = time.monotonic()
    assert server.stop() == 0

    assert time.monotonic() - begun < 4
    for each in (*idle, half):
        each.close()


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_fault_of_the_server(quiet_stage: Stage) -> None:
    server = serve(quiet_stage, target=None)
    for path in ("/v1/jobs", "/v1/jobs/batch"):
        with socket.create_connection(_address(server)) as client:
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            client.sendall(head.encode() + b"Content-Length: 1000\r\n\r\n{")

    assert server.get("/v1/jobs")["jobs"] == []
    assert server.stop() == 0
    assert "Traceback" not in server.output
    assert "ERROR" not in server.output


def test_a_stop_with_open_streams_is_prompt_and_says_goodbye(quiet_stage: Stage) -> None:
    server = serve(quiet_stage, worker=False)
    streams = [_Stream(server.url) for _ in range(5)]
    for each in streams:
        each.begun.wait(PATIENCE)

    begun = time.monotonic()
    server.send(signal.SIGTERM)
    for each in streams:
        each.join(PATIENCE)
    ended = time.monotonic() - begun

    assert server.wait() == 0
    assert ended < 1.5, "streams end within a second, and a slow machine has half a second more"
    assert all("event: bye" in each.text for each in streams)
    assert "Cancel" not in server.output


def test_other_hosts_are_let_in_only_once_there_is_a_token(stage: Stage) -> None:
    refused = serve(stage, "--host", "0.0.0.0", target=None, wait=False)

    assert refused.wait() == 2
    assert "There is no token yet" in refused.output
    assert "penstock tokens create" in refused.output
    assert "Traceback" not in refused.output

    stage.app.tokens.create("operator", "admin")
    server = serve(stage, "--host", "0.0.0.0", target=None)
    port = _address(server)[1]
    answer = httpx2.get(f"http://127.0.0.1:{port}/v1/jobs", trust_env=False)
    assert answer.status_code == 401


def test_a_taken_port_is_a_clear_error(quiet_stage: Stage) -> None:
    server = serve(quiet_stage, target=None)
    port = _address(server)[1]

    second = serve(quiet_stage, target=None, port=port, wait=False)

    assert second.wait() == 2
    assert f"Port {port} of 127.0.0.1 is in use" in second.output
    assert "Traceback" not in second.output
    assert server.get("/v1/jobs")["jobs"] == []


def test_what_was_acknowledged_before_a_kill_is_run_after_the_restart(stage: Stage) -> None:
    server = serve(stage)
    acknowledged: list[str] = []

    def create() -> None:
        with httpx2.Client(base_url=server.url, timeout=5, trust_env=False) as client:
            while True:
                try:
                    answer = client.post(
                        "/v1/jobs", json={"definitionKey": "script", "params": {"script": [["return", 1]]}}
                    )
                except httpx2.HTTPError:
                    return
                acknowledged.append(answer.json()["jobId"])

    creators = [threading.Thread(target=create) for _ in range(4)]
    for each in creators:
        each.start()
    wait_until(lambda: len(acknowledged) >= 50, "50 jobs are acknowledged", PATIENCE)
    server.kill()
    for each in creators:
        each.join(PATIENCE)

    serve(stage)
    for job in acknowledged:
        assert stage.end(job).status == "succeeded"


def test_without_a_worker_jobs_wait_for_one_and_what_is_timed_is_done(stage: Stage) -> None:
    server = serve(stage, worker=False)

    job = server.start_job(delay=0.5)

    assert server.until(job, "queued")["status"] == "queued", "the server's own duty queued it"
    assert stage.app.workers.list() == []
    stage.worker()
    server.until(job, "succeeded")


def test_a_server_without_code_speaks_for_the_store(stage: Stage) -> None:
    stage.worker()
    server = serve(stage, target=None)

    job = server.start_job(script=[["return", 1]])

    assert server.until(job, "succeeded")["result"] == 1
    assert server.post("/v1/jobs/trigger") == {"processed": 0, "errors": 0}


def test_a_server_without_code_frees_the_jobs_of_a_dead_worker(stage: Stage) -> None:
    server = serve(stage, target=None)
    worker = stage.worker()
    job = server.start_job(script=[["sleep", 30]])
    server.until(job, "running")

    worker.kill()

    found = server.until(job, "queued", "scheduled")
    assert found["lost"] == 1


def test_trigger_runs_what_waits_through_the_running_worker(stage: Stage) -> None:
    server = serve(stage, "--slots", "4")
    stage.eventually(lambda: stage.app.workers.list(), "the worker is registered")
    later = [server.start_job(script=[["sleep", 3], ["return", 1]]) for _ in range(3)]
    bad = server.start_job(script=[["sleep", 3], ["raise", "no"]])

    done = server.post("/v1/jobs/trigger")

    assert [server.get(f"/v1/jobs/{job}")["status"] for job in (*later, bad)] == ["succeeded"] * 3 + ["failed"]
    assert done == {"processed": 4, "errors": 1}
    assert server.post("/v1/jobs/trigger") == {"processed": 0, "errors": 0}


def test_trigger_without_a_worker_does_one_pass_of_its_own(stage: Stage) -> None:
    server = serve(stage, worker=False)
    jobs = [server.start_job(script=[["return", 1]]) for _ in range(3)]

    assert server.post("/v1/jobs/trigger") == {"processed": 3, "errors": 0}

    assert [server.get(f"/v1/jobs/{job}")["status"] for job in jobs] == ["succeeded"] * 3
    assert server.post("/v1/jobs/trigger") == {"processed": 0, "errors": 0}


def test_trigger_without_a_worker_waits_for_no_receiver_of_webhooks(quiet_stage: Stage) -> None:
    receiver = Receiver()
    hook = receiver.answers("/hook", receiver.hold)
    (quiet_stage.folder / "penstock.toml").write_text(
        f'[webhooks]\nallow_http = true\nports = [{receiver.port}]\nallowed_networks = ["127.0.0.0/8"]\ntimeout = 300\n'
    )
    server = serve(quiet_stage, worker=False, folder=quiet_stage.folder, environment={"PYTHONPATH": str(ROOT)})
    server.post("/v1/webhooks", {"url": hook, "events": ["onEnd"]})

    server.start_job(script=[["return", 1]])
    assert server.post("/v1/jobs/trigger") == {"processed": 1, "errors": 0}
    receiver.wait("/hook")
    # The pass has ended while the receiver still has to answer: the next one is a pass of its own.
    server.start_job(script=[["return", 2]])
    assert server.post("/v1/jobs/trigger") == {"processed": 1, "errors": 0}

    receiver.close()


@pytest.mark.parametrize("worker", [True, False])
def test_a_trigger_leaves_no_pending_task_and_no_line_of_a_library_in_the_log(stage: Stage, worker: bool) -> None:
    server = serve(stage, "--log-level", "debug", worker=worker)
    for _ in range(3):
        job = server.start_job(script=[["return", 1]])
        server.post("/v1/jobs/trigger")
        server.until(job, "succeeded")

    assert server.stop() == 0

    assert not re.search(
        r"was destroyed|never awaited|never retrieved|Traceback|httpcore|receive_response", server.output
    )


@pytest.mark.parametrize("worker", [True, False])
def test_trigger_does_nothing_while_the_workers_are_disabled(stage: Stage, worker: bool) -> None:
    stage.app.workers.configure({"enabled": False})
    server = serve(stage, worker=worker)
    job = server.start_job(script=[["return", 1]])

    assert server.post("/v1/jobs/trigger") == {"processed": 0, "errors": 0}

    assert server.get(f"/v1/jobs/{job}")["status"] == "queued"
    stage.app.workers.configure({"enabled": True})
    assert server.post("/v1/jobs/trigger")["errors"] == 0
    server.until(job, "succeeded")


@pytest.mark.parametrize("flags", [(), ("--no-worker",)])
def test_changed_job_files_are_served_as_they_are_now(quiet_stage: Stage, flags: tuple[str, ...]) -> None:
    folder = JobFolder(quiet_stage)
    folder.save("first.py", "def run(ctx):\n    return 1\n")
    server = serve(quiet_stage, "--jobs", str(folder.path), "--watch", *flags, target=None)

    folder.save("second.py", "def run(ctx):\n    return 2\n")

    def started() -> Any:
        answer = server.request("POST", "/v1/jobs", json={"definitionKey": "second"})
        return answer.json()["jobId"] if answer.status_code == 201 else None

    job = wait_until(started, "the new file is known", PATIENCE)
    server.post("/v1/jobs/trigger")
    assert server.until(job, "succeeded")["result"] == 2


def test_settings_come_from_the_file_the_environment_and_the_flags_in_this_order(quiet_stage: Stage) -> None:
    (quiet_stage.folder / "penstock.toml").write_text('[web]\nhost = "127.0.0.9"\nmax_body = 100\n')
    server = serve(quiet_stage, target=None, folder=quiet_stage.folder)
    assert server.url.startswith("http://127.0.0.9:")
    refused = server.request("POST", "/v1/jobs", json={"definitionKey": "x" * 200})
    assert refused.status_code == 413

    environment = {"PENSTOCK_HOST": "127.0.0.8"}
    server = serve(quiet_stage, target=None, folder=quiet_stage.folder, environment=environment)
    assert server.url.startswith("http://127.0.0.8:")

    server = serve(quiet_stage, "--host", "127.0.0.7", target=None, folder=quiet_stage.folder, environment=environment)
    assert server.url.startswith("http://127.0.0.7:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[web]\nmax_bodi = 1\n", "'max_bodi'"),
        ('[web]\nkeep_alive = "5"\n', "'5' cannot be keep_alive"),
        ('[web]\nproxies = ["all"]\n', "'all' is no address"),
        ("web = 1\n", "[web] is a table"),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_is_started(quiet_stage: Stage, text: str, said: str) -> None:
    (quiet_stage.folder / "penstock.toml").write_text(text)

    server = serve(quiet_stage, target=None, folder=quiet_stage.folder, wait=False)

    assert server.wait() == 2
    assert said in server.output
    assert "Traceback" not in server.output


def test_a_long_job_of_a_pass_goes_on_after_a_stop_was_asked_for(quiet_stage: Stage) -> None:
    gate = Gate(quiet_stage.folder)
    folder = JobFolder(quiet_stage)
    folder.save("slow.py", f"def run(ctx):\n    {gate.text}    return 1\n")
    server = serve(quiet_stage, "--jobs", str(folder.path), "--no-worker", target=None)
    job = server.post("/v1/jobs", {"definitionKey": "slow"})["jobId"]
    asking = threading.Thread(target=lambda: _quietly(server, "/v1/jobs/trigger"))
    asking.start()
    gate.wait()

    server.send(signal.SIGTERM)
    wait_until(lambda: not _reachable(server), "no connection is taken any more", 2)
    gate.open()

    assert server.wait() == 0
    assert quiet_stage.end(job).result == 1
    asking.join(PATIENCE)


class _Stream(threading.Thread):
    """A client that reads an event stream to its end."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.begun = threading.Event()
        self.text = ""
        self._url = url
        self.start()

    def run(self) -> None:
        headers = {"Accept": "text/event-stream"}
        with httpx2.stream(
            "GET", f"{self._url}/v1/events", headers=headers, timeout=PATIENCE, trust_env=False
        ) as answer:
            self.begun.set()
            for part in answer.iter_text():
                self.text += part


def _quietly(server: ServerProcess, path: str) -> None:
    """A request whose answer may be cut off."""
    try:
        httpx2.post(server.url + path, timeout=PATIENCE, trust_env=False)
    except httpx2.HTTPError:
        return


def _address(server: ServerProcess) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def _reachable(server: ServerProcess) -> bool:
    try:
        socket.create_connection(_address(server), timeout=1).close()
    except OSError:
        return False
    return True
