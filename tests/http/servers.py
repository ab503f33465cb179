"""Real servers in processes of their own: `penstock serve` on free ports."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, QUICK, ROOT, Stage, WorkerProcess

SCRIPTED = "tests.worker.scripted:app"
_CODE = re.compile(r"setup code: (\S+)")
_READY = re.compile(r"penstock serving on (http://\S+)")
_numbers = itertools.count()


class ServerProcess(WorkerProcess):
    """One `penstock serve`; killed at the end, whatever happens."""

    @property
    def url(self) -> str:
        """Where it listens, as it said itself."""
        found = _READY.search(self.output)
        assert found is not None, self.output
        return found[1]

    @property
    def setup_code(self) -> str | None:
        """What it printed for the making of the first token."""
        found = _CODE.search(self.output)
        return None if found is None else found[1]

    def ready(self) -> ServerProcess:
        """Wait until it answers."""
        wait_until(lambda: _READY.search(self.output) or not self.alive, "the server answers", PATIENCE)
        assert self.alive, self.output
        return self

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Make one request over a connection of its own; its answer must not be a fault of the server."""
        code = {} if self.setup_code is None else {"X-Penstock-Setup-Code": self.setup_code}
        with httpx2.Client(base_url=self.url, headers=code, timeout=PATIENCE, trust_env=False) as client:
            answer = client.request(method, path, **options)
        assert answer.status_code != 500, self.output[-4000:]
        return answer

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of an answer that must be a good one."""
        return self._good(self.request("GET", path, **options))

    def post(self, path: str, json: Any = None, **options: Any) -> Any:
        return self._good(self.request("POST", path, **({} if json is None else {"json": json}), **options))

    def put(self, path: str, json: Any, **options: Any) -> Any:
        return self._good(self.request("PUT", path, json=json, **options))

    def start_job(self, key: str = "script", script: Any = (), **fields: Any) -> str:
        """Start a job of the scripted application; its id."""
        params = {"script": [list(step) for step in script]}
        started: str = self.post("/v1/jobs", {"definitionKey": key, "params": params, **fields})["jobId"]
        return started

    def until(self, job_id: str, *statuses: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Poll a job until it stands in one of these states."""
        found: dict[str, Any] = {}

        def stands() -> bool:
            found.update(self.get(f"/v1/jobs/{job_id}"))
            return found["status"] in statuses

        wait_until(stands, f"the job is {' or '.join(statuses)}", timeout)
        return found

    def _good(self, answer: httpx2.Response) -> Any:
        assert answer.is_success, f"{answer.status_code} {answer.text}\n{self.output[-4000:]}"
        return answer.json()


def serve(
    stage: Stage, *flags: str, target: str | None = SCRIPTED, worker: bool = True, wait: bool = True, port: int = 0,
    folder: Path = ROOT, environment: dict[str, str] | None = None,
) -> ServerProcess:  # fmt: skip
    """Start a server on a store; without a target it has no code, and without `worker` it runs no jobs."""
    named = ["--store", stage.url] if target is None else [target]
    allowed = ["--allow-root"] if os.getuid() == 0 else []
    quick = QUICK if worker and target is not None else ("--no-worker",) if target is not None else ()
    command = [sys.executable, "-m", "penstock", "serve", *named, *allowed, *quick, "--port", str(port), *flags]
    log = stage.folder / f"server-{next(_numbers)}.log"
    own = {**stage.environment, "PENSTOCK_SCHEMA": stage.schema, **(environment or {})}
    server = ServerProcess(command, own, log, folder)
    stage.workers.append(server)
    return server.ready() if wait else server


def opened(request: pytest.FixtureRequest, folder: Path, kind: str) -> Iterator[Stage]:
    """An empty store, "sqlite" or "postgres", with room for servers and workers."""
    if kind == "sqlite":
        made = Stage(f"sqlite:///{folder}/jobs.db", "penstock", folder)
    else:
        made = Stage(request.getfixturevalue("postgres_18_database"), f"serve_{os.getpid()}_{next(_numbers)}", folder)
    yield made
    made.close()
