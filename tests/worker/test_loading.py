"""Loading a project: what works, and what is refused with a message that says what to do."""

from __future__ import annotations

import pytest

from penstock.domain.errors import InvalidInput
from penstock.execution import handlers
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-loading")

HEAD = """
import os
from penstock import Penstock

app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])
"""


def test_a_project_that_imports_numpy_loads_and_its_random_numbers_differ(stage: Stage) -> None:
    stage.project(
        HEAD
        + """
import random
import numpy

matrix = numpy.random.random((200, 200))

@app.job("draw")
def draw():
    threads = len(os.listdir("/proc/self/task"))
    (matrix @ matrix).sum()
    return [random.random(), numpy.random.random(), numpy.random.randint(2**31), threads]
"""
    )
    jobs = [stage.app.enqueue("draw") for _ in range(3)]

    drawn = [job.result(30) for job in jobs]

    for numbers in list(zip(*drawn, strict=True))[:3]:
        assert len(set(numbers)) == 3
    assert [each[3] for each in drawn] == [1, 1, 1]


def test_what_every_result_is_written_with_is_loaded_before_the_fork(stage: Stage) -> None:
    stage.project(
        HEAD
        + """
import sys

@app.job("look")
def look():
    return "pydantic_core" in sys.modules
"""
    )

    assert stage.app.enqueue("look").result(30) is True


REFUSED = {
    "a thread": (
        HEAD + "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n",
        ["1 thread(s) run", "project.py:7", "--allow-preload-threads", "inside of functions"],
    ),
    "a thread pool": (
        HEAD + "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(int)\n",
        ["1 thread(s) run", "project.py:8"],
    ),
    "a socket": (HEAD + "import socket\nline = socket.socket()\n", ["1 socket(s) are open", "project.py:7"]),
    "a syntax error": (HEAD + "def broken(:\n", ["SyntaxError", "project.py, line 6"]),
    "an error on import": (HEAD + "1 / 0\n", ["ZeroDivisionError", "project.py", "line 6", "1 / 0"]),
    "an exit on import": (HEAD + "raise SystemExit(0)\n", ["SystemExit"]),
    "a death on import": (HEAD + "os._exit(0)\n", ["ended without an answer"]),
    "a missing module inside": (HEAD + "import not_there_at_all\n", ["No module named 'not_there_at_all'", "line 6"]),
    "no application": ("import os\n", ["has nothing called 'app'"]),
    "something else": ("app = 5\n", ["is no Penstock application, but int"]),
    "a bad definition": (HEAD + '@app.job("x", max_attempts=0)\ndef x(): ...\n', ["max_attempts must be 1 to 1000"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_project_that_cannot_be_run_is_refused_with_the_reason(quiet_stage: Stage, what: str) -> None:
    source, says = REFUSED[what]

    worker = quiet_stage.project(source, wait=False)

    assert worker.wait() == 2
    assert worker.output.startswith("error: 'project:app' cannot be loaded: ") or what == "a death on import"
    for text in says:
        assert text in worker.output
    assert "penstock/engine" not in worker.output


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("not_there:app", "There is no module 'not_there' in"),
        ("not.there.either:app", "There is no module 'not.there.either' in"),
        (":app", "names no application"),
        ("not_there.py:app", "There is no file"),
    ],
)
def test_a_target_that_is_not_there_is_refused(quiet_stage: Stage, target: str, says: str) -> None:
    worker = quiet_stage.worker(target=target, wait=False)

    assert worker.wait() == 2
    assert says in worker.output
    assert "Traceback" not in worker.output


def test_threads_are_let_through_when_that_was_said(quiet_stage: Stage) -> None:
    source, _ = REFUSED["a thread"]
    quiet_stage.project(source + '@app.job("f")\ndef f():\n    return 1\n', "--allow-preload-threads")

    assert quiet_stage.app.enqueue("f").result(30) == 1


def test_a_file_can_be_named_instead_of_a_module(quiet_stage: Stage) -> None:
    path = quiet_stage.folder / "loose.py"
    path.write_text(HEAD + '@app.job("f")\ndef f():\n    return 1\n')
    quiet_stage.worker(target=str(path))

    assert quiet_stage.app.enqueue("f").result(30) == 1


def test_the_only_application_of_a_module_need_not_be_named() -> None:
    found = handlers.load("tests.worker.scripted")

    assert "script" in {each.definition.key for each in found.definitions.declared}


def test_a_module_without_an_application_says_how_to_name_one() -> None:
    with pytest.raises(InvalidInput, match="must name one application, and the module has none"):
        handlers.load("tests.waiting")
