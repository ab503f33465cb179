"""What a zygote rehearses is what a child does, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.engine import child, rehearsal
from penstock.engine.handlers import Handle
from penstock.engine.task import Task

LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def test_a_process_is_the_same_afterwards() -> None:
    app = Penstock("sqlite://")
    rehearsal.rehearse(app)
    before = _traces()

    rehearsal.rehearse(app)

    assert _traces() == before


def test_the_whole_way_is_gone_and_ends_well_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Any] = []

    def watched(app: Any, handle: Handle, task: Task, line: int, take_over: Callable[..., None]) -> None:
        ends.append(perform(app, handle, task, line, take_over))

    perform = child.perform
    monkeypatch.setattr(child, "perform", watched)

    rehearsal.rehearse(Penstock("sqlite://"))

    assert len(ends) > 8
    assert {each.trigger for each in ends} == {"succeed"}


@pytest.mark.skipif(sys.platform != "linux", reason="pages are counted by Linux")
def test_a_child_copies_fewer_pages_of_a_zygote_that_has_rehearsed() -> None:
    def pages(*, rehearsed: bool) -> int:
        text = textwrap.dedent(_FAULTS).format(rehearsed=rehearsed)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
        return int(done.stdout)

    assert pages(rehearsed=True) < pages(rehearsed=False)


_FAULTS = """
    import gc, os, resource, socket
    from penstock import Penstock
    from penstock.engine import child, rehearsal
    from penstock.engine.task import Task

    app = Penstock("sqlite://")
    gc.collect(); gc.freeze(); gc.disable()
    if {rehearsed}:
        rehearsal.rehearse(app)
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        task = Task.from_json(rehearsal._TASK.to_json())
        child.perform(app, rehearsal._Nothing(), task, theirs.fileno(), rehearsal._leave_alone)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, flush=True)
        os._exit(0)
    os.wait()
"""


def _traces() -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "limits": [resource.getrlimit(each) for each in LIMITS],
        "signals": [signal.getsignal(each) for each in signal.valid_signals()],
        "folder": os.getcwd(),
        "logging": list(logging.getLogger().handlers),
        "oom": Path("/proc/self/oom_score_adj").read_text(),
    }
