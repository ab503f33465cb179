"""The curl commands of README and guide, run as they stand there against `penstock serve` on README's own application.

A line `# → …` says what the command before it answers; each … stands for anything.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, python_blocks
from tests.http.servers import ServerProcess, serve
from tests.services import unavailable
from tests.waiting import wait_until
from tests.worker.fleet import PATIENCE, Stage

pytestmark = pytest.mark.xdist_group("web-readme")

README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide" / "http.md"
ADDRESS = "127.0.0.1:7367"
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Call:
    """One command and what it is said to answer."""

    command: str
    answer: str

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(".*".join(map(re.escape, self.answer.split("…"))), re.DOTALL)


def calls(page: Path) -> list[Call]:
    """The curl commands of a page, each with its answer."""
    found: list[Call] = []
    for block in _BLOCK.findall(page.read_text()):
        command = ""
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("curl "):
                assert not command, f"{command} has no answer"
                command = line
            elif line.startswith("# → "):
                found.append(Call(command, line.removeprefix("# → ")))
                command = ""
        assert not command, f"{command} has no answer"
    return found


class Shell:
    """Runs commands as somebody would who reads the page; curl finds the server of the test at the page's address."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        here = server.url.removeprefix("http://")
        (folder / ".curlrc").write_text(f'silent\nshow-error\nnoproxy = "*"\nconnect-to = "{ADDRESS}:{here}"\n')
        self._folder = folder
        self._environment = {**os.environ, "CURL_HOME": str(folder), "HOME": str(folder)}

    def run(self, call: Call) -> str:
        """What a command prints; one that watches is ended once it has printed what it should."""
        if " -N " in call.command:
            return self._watch(call)
        done = subprocess.run(
            ["bash", "-c", call.command], env=self._environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        if call.command.startswith("curl -X POST") and "/v1/jobs " in call.command:
            self._environment["JOB"] = json.loads(done.stdout)["jobId"]
        return done.stdout

    def _watch(self, call: Call) -> str:
        path = self._folder / "watched"
        with path.open("wb") as file:
            watching = subprocess.Popen(["bash", "-c", f"exec {call.command}"], env=self._environment, stdout=file)
        try:
            wait_until(lambda: call.pattern.fullmatch(path.read_text()), f"it prints {call.answer}", PATIENCE)
        finally:
            watching.terminate()
            watching.wait()
        return path.read_text()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A server on the application of README's ten lines, started as README says."""
    if shutil.which("curl") is None:
        unavailable("curl is not installed (Debian: apt-get install curl)")
    assert "penstock serve mails:app" in README.read_text()
    (tmp_path / "mails.py").write_text(python_blocks(README)[0].code)
    stage = Stage(f"sqlite:///{tmp_path}/jobs.db", "penstock", tmp_path)
    server = serve(stage, target="mails:app", folder=tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    yield Shell(server, tmp_path)
    stage.close()


@pytest.mark.parametrize("page", [README, GUIDE], ids=["README", "guide"])
def test_the_curl_commands_of_a_page_answer_what_it_says(page: Path, shell: Shell) -> None:
    commands = calls(page)
    assert len(commands) >= 5

    for call in commands:
        printed = shell.run(call)
        assert call.pattern.fullmatch(printed), f"{call.command}\nanswered\n{printed}"


def test_the_five_calls_of_the_job_interface_are_in_the_readme() -> None:
    text = "\n".join(call.command for call in calls(README))

    for path in ("/v1/jobs -H", "/v1/jobs/$JOB\n", "/v1/jobs/$JOB/events", "/v1/jobs/$JOB/cancel", "/v1/jobs?status="):
        assert path in text
