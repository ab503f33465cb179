"""Programs that tests start get default signal handling, and a test that exceeds its time limit leaves none behind."""

import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest

from tests.signals import ignored

ROOT = Path(__file__).parent.parent
HEAD = """
import os, pytest, signal, subprocess, sys
PROGRAM = [sys.executable, "-c", "import time; time.sleep(300)", {!r}]
"""


class Run:
    """One run of pytest with the rules of this folder; its tests may start PROGRAM."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "test_program.py"
        self._mark = uuid.uuid4().hex

    def __call__(self, tests: str) -> "subprocess.CompletedProcess[str]":
        self._file.write_text(HEAD.format(self._mark) + textwrap.dedent(tests))
        options = ["-q", "-n", "0", "-p", "tests.conftest", "-p", "no:cacheprovider", "--timeout", "3"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--rootdir", str(self._file.parent), str(self._file)],
            cwd=ROOT, capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip

    def programs(self) -> list[str]:
        """The command lines of the programs that still run."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if self._mark.encode() in line:
                found.append(line.decode().replace("\0", " "))
        return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_test_that_exceeds_its_time_limit_leaves_no_program_behind(run: Run) -> None:
    done = run(
        """
        def test_waits():
            with subprocess.Popen(["bash", "-c", 'exec "$@" & wait', "bash", *PROGRAM]), subprocess.Popen(PROGRAM):
                signal.pause()

        def test_goes_on():
            pass
        """
    )

    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed"), done.stdout
    assert "Timeout (>3.0s)" in done.stdout
    assert run.programs() == []


def test_a_program_of_a_shared_fixture_survives_the_time_limit_of_a_test(run: Run) -> None:
    done = run(
        """
        @pytest.fixture(scope="module")
        def program():
            with subprocess.Popen(PROGRAM) as process:
                yield process
                process.kill()

        def test_waits(program):
            signal.pause()

        def test_goes_on(program):
            assert program.poll() is None
        """
    )

    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed"), done.stdout
    assert run.programs() == []


def test_a_fixture_that_waits_for_a_program_after_a_failure_has_a_time_limit(run: Run) -> None:
    done = run(
        """
        @pytest.fixture
        def program():
            with subprocess.Popen(PROGRAM) as process:
                yield process

        def test_fails(program):
            assert program.poll()

        def test_goes_on():
            pass
        """
    )

    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 error"), done.stdout
    assert run.programs() == []


def test_programs_handle_signals_by_default_where_the_tests_ignore_them(run: Run) -> None:
    tests = """
        def test_programs():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGHUP)

            code = "import signal as s; print(*[s.getsignal(n) for n in (s.SIGHUP, s.SIGINT, s.SIGQUIT, s.SIGTERM)])"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

            assert done.stdout
            assert "SIG_IGN" not in done.stdout
        """

    with ignored(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        done = run(tests)

    assert done.stdout.splitlines()[-1].startswith("1 passed"), done.stdout
