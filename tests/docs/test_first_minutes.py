"""The commands of README and of the first page of the guide, run as they stand there, each page in an empty folder.

In a block of the kind `console` a line that begins with `$` is a command, and what follows is what it prints; each …
stands for anything. A command that does not end by itself is left running once it has printed that.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, python_blocks
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("first-minutes")

PATIENCE = 60
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide" / "getting-started.md"
STAYS = ("penstock dev", "penstock serve", "penstock worker")
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One command and what it is said to print."""

    line: str
    prints: str

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\s*…\s*", self.prints.strip())
        return re.compile(".*".join(re.escape(part).replace(r"\ ", r"\s+") for part in parts), re.DOTALL)


def commands(page: Path) -> list[Command]:
    found: list[Command] = []
    for block in _BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, prints = part.partition("\n")
            found.append(Command(line, prints))
    return found


class Terminal:
    """Runs commands one after the other, as somebody would who reads the page."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._home = folder
        self._running: list[subprocess.Popen[bytes]] = []
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        # Any port will do, for the one of the page may be taken.
        self._environment = {**kept, "PATH": path, "PENSTOCK_PORT": "0", "PYTHONPATH": str(folder)}

    def run(self, command: Command) -> None:
        if command.line.startswith("cd "):
            self._folder = self._folder / command.line.removeprefix("cd ")
        elif command.line.startswith(STAYS):
            self._stay(command)
        else:
            done = subprocess.run(
                ["bash", "-c", command.line], cwd=self._folder, env=self._environment, capture_output=True, text=True,
                timeout=PATIENCE,
            )  # fmt: skip
            assert done.returncode == 0, f"{command.line}\n{done.stdout}{done.stderr}"
            assert command.pattern.search(done.stdout), f"{command.line} printed\n{done.stdout}"

    def _stay(self, command: Command) -> None:
        """Start it and wait for what it prints; the one before it is ended first."""
        self.close()
        root = " --allow-root" if os.getuid() == 0 and not command.line.startswith("penstock dev") else ""
        log = self._home / f"log-{len(self._running)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.line}{root}"], cwd=self._folder, env=self._environment,
                stdout=file, stderr=file,
            )  # fmt: skip
        self._running.append(process)
        wait_until(
            lambda: command.pattern.search(log.read_text()) or process.poll() is not None,
            f"{command.line} prints what the page says",
            PATIENCE,
        )
        assert command.pattern.search(log.read_text()), log.read_text()

    def close(self) -> None:
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("page", [README, GUIDE], ids=["README", "getting-started"])
def test_the_commands_of_a_page_do_what_it_says(page: Path, terminal: Terminal, tmp_path: Path) -> None:
    found = commands(page)
    assert len(found) >= 5
    # What the page has its reader write; on the page of the guide the folder of the project is the current one.
    folder = tmp_path if page == README else tmp_path / "shop"
    folder.mkdir(exist_ok=True)
    (program,) = [block.code for block in python_blocks(page) if "mail.send" in block.code and "__main__" in block.code]
    (folder / "mails.py").write_text(program)

    for command in found:
        terminal.run(command)


def test_a_command_that_prints_something_else_is_found_out(terminal: Terminal) -> None:
    with pytest.raises(AssertionError, match="printed"):
        terminal.run(Command("echo one", "two"))
    with pytest.raises(AssertionError):
        terminal.run(Command("false", ""))
    terminal.run(Command("echo one two three", "one…three"))
