"""`penstock` as it is typed: commands in processes of their own, against a server or straight on a store."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from penstock import Penstock
from tests.http.servers import ServerProcess
from tests.worker.fleet import PATIENCE, Stage

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


class Shell:
    """Calls `penstock` in a folder of its own, with a clean environment."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = (), **environment: str) -> None:
        self.folder = folder
        self.flags = flags
        outside = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        for name in ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            outside.pop(name, None)
        self.environment = {**outside, "XDG_CONFIG_HOME": str(folder / "config"), **environment}

    def line(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "penstock", *words, *self.flags]

    def run(self, *words: str, code: int | None = 0, stdin: str = "", **environment: str) -> Done:
        """Run a command to its end; its exit code must be this one."""
        done = subprocess.run(
            self.line(*words), cwd=self.folder, env={**self.environment, **environment}, input=stdin,
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return Done(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, shape: str | None = None, code: int = 0, **options: Any) -> Any:
        """What a command prints with `--json`; `shape` names the route, method and status of the API."""
        told = json.loads(self.run(*words, "--json", code=code, **options).out)
        if shape is not None:
            check_shape(shape, told)
        return told

    def refused(self, *words: str, code: int, **options: Any) -> dict[str, Any]:
        """The error that a command gives with `--json`: on stderr, and nothing on stdout."""
        done = self.run(*words, "--json", code=code, **options)
        assert done.out == ""
        problem: dict[str, Any] = json.loads(done.err)["error"]
        assert set(problem) == {"code", "message", "hint", "details"}
        return problem

    def terminal(self, *words: str, **environment: str) -> Terminal:
        """Start a command on a terminal."""
        return Terminal(self.line(*words), self.folder, {**self.environment, "TERM": "xterm-256color", **environment})


class Place(Shell):
    """A store with a server and a worker, and commands that reach it over HTTP or straight."""

    def __init__(self, stage: Stage, server: ServerProcess, flags: tuple[str, ...]) -> None:
        super().__init__(stage.folder, flags, PENSTOCK_SCHEMA=stage.schema)
        self.app = stage.app
        self.stage = stage
        self.server = server

    def start(self, *script: Any, key: str = "script", **options: Any) -> str:
        """Start a job; its id."""
        return self.stage.enqueue(key, script, **options).id

    def ended(self, *script: Any, key: str = "script", **options: Any) -> str:
        """Start a job and let it end; its id."""
        found = self.start(*script, key=key, **options)
        self.app.jobs.wait(found, PATIENCE)
        return found

    def waiting(self, key: str = "noop", params: Any = None, **options: Any) -> str:
        """A job that is due much later."""
        return self.app.enqueue(key, params or {}, delay=86_400, **options).id


class Terminal:
    """A command on a pseudo terminal: what it shows, and keys for it."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.shown = ""
        self._master, follower = pty.openpty()
        self._process = subprocess.Popen(
            command, cwd=folder, env={"COLUMNS": "120", **environment}, stdin=follower, stdout=follower,
            stderr=follower, start_new_session=True,
        )  # fmt: skip
        os.close(follower)

    @property
    def plain(self) -> str:
        """What was shown, without colours and moves of the cursor."""
        return _ESCAPES.sub("", self.shown)

    def until(self, text: str) -> None:
        """Read until a text was shown."""
        end = time.monotonic() + PATIENCE
        while text not in self.plain:
            assert time.monotonic() < end, self.plain
            assert self._read(end - time.monotonic()), f"it ended without showing {text!r}: {self.plain}"

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        """Read until the command has ended; its exit code."""
        end = time.monotonic() + PATIENCE
        while self._read(max(0.0, end - time.monotonic())):
            pass
        os.close(self._master)
        return self._process.wait(PATIENCE)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:
            # The other end is closed.
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def check_shape(shape: str, told: Any) -> None:
    """Compare a document with what the OpenAPI document says of a route's answer."""
    problems = [str(each) for each in _validator(shape).iter_errors(told)]
    assert not problems, problems[:3]


@lru_cache
def _document() -> dict[str, Any]:
    # Imported late: most commands are tested without it, and it is slow.
    from penstock.http.application import create

    return create(Penstock("sqlite://")).openapi()


@lru_cache
def _validator(shape: str) -> Any:
    method, route, status = shape.split()
    answer = _document()["paths"][route][method.lower()]["responses"][status]
    schema = answer["content"]["application/json"]["schema"]
    return jsonschema_rs.validator_for({**schema, "components": _document()["components"]})
