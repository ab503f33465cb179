"""What a zygote rehearses is what a child does, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain.attempt import Task
from penstock.execution.handlers import Handle
from penstock.isolation import child, rehearsal
from penstock.runtime import tracing


def test_a_process_is_the_same_afterwards() -> None:
    before, after = _said_by(_TRACES).splitlines()

    assert after == before


def test_the_whole_way_is_gone_and_ends_well_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Any] = []

    def watched(app: Any, handle: Handle, task: Task, line: int, take_over: Callable[..., None]) -> None:
        ends.append(perform(app, handle, task, line, take_over))

    perform = child.run_task
    monkeypatch.setattr(child, "run_task", watched)
    # Others may have switched it on in this process.
    monkeypatch.setattr(tracing, "on", lambda: False)

    rehearsal.rehearse(Penstock("sqlite://"))

    assert len(ends) > 8
    assert {each.trigger for each in ends} == {"succeed"}


def test_what_is_traced_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run_task", lambda *_: pytest.fail("this would be a span"))
    monkeypatch.setattr(tracing, "on", lambda: True)

    rehearsal.rehearse(Penstock("sqlite://"))


def test_a_child_copies_fewer_pages_of_a_zygote_that_has_rehearsed() -> None:
    rehearsed = int(_said_by(_FAULTS, "rehearsed"))

    assert rehearsed < int(_said_by(_FAULTS))


def test_threads_that_a_zygote_has_are_still_known_to_it() -> None:
    assert _said_by(_THREADS).split() == ["2", "True"]


def _said_by(program: str, *arguments: str) -> str:
    """What a process of its own prints, in which nothing else happens."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


_TRACES = """
    import logging, os, resource, signal
    from penstock import Penstock
    from penstock.isolation import rehearsal

    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

    def traces():
        with open("/proc/self/oom_score_adj") as file:
            oom = file.read()
        return (
            sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")), oom, os.getcwd(),
            [resource.getrlimit(each) for each in limits],
            [signal.getsignal(each) for each in sorted(signal.valid_signals())],
            logging.getLogger().handlers,
        )

    app = Penstock("sqlite://")
    print(traces())
    rehearsal.rehearse(app)
    print(traces())
"""
_FAULTS = """
    import gc, os, resource, socket, sys
    from penstock import Penstock
    from penstock.isolation import child, rehearsal
    from penstock.domain.attempt import Task

    app = Penstock("sqlite://")
    gc.collect(); gc.freeze(); gc.disable()
    if "rehearsed" in sys.argv:
        rehearsal.rehearse(app)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        task = Task.from_json(rehearsal._TASK.to_json())
        child.run_task(app, rehearsal._EmptyHandler(), task, theirs.fileno(), rehearsal._leave_alone)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, flush=True)
        os._exit(0)
    os.wait()
"""

_THREADS = """
    import threading
    from penstock import Penstock
    from penstock.isolation.rehearsal import rehearse

    done = threading.Event()
    other = threading.Thread(target=done.wait, daemon=True)
    other.start()
    rehearse(Penstock("sqlite://"))
    print(threading.active_count(), other.is_alive())
"""
