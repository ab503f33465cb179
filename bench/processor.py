"""How much processor time processes have taken, in seconds, to the nanosecond where Linux says it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.runtime import processes
from tests.services import PostgresServer

_TICKS = os.sysconf("SC_CLK_TCK")


def of_drain(server: PostgresServer | None, workers: Iterable[subprocess.Popen[str]]) -> dict[str, float]:
    """Of workers and, if there is one, of their server, by who it was; threads that have ended are not counted."""
    found: dict[str, float] = defaultdict(float)
    for worker in workers:
        for thread, seconds in _threads(worker.pid):
            found["worker, main thread" if thread == worker.pid else "worker, other threads"] += seconds
    if server is not None:
        found |= {f"PostgreSQL, {duty}": seconds for duty, seconds in of_server(server).items()}
    return found


def of_server(server: PostgresServer) -> dict[str, float]:
    """Of a server's processes, by what they are there for; those that have ended are one kind."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    found: dict[str, float] = defaultdict(float, ended=_of_ended_children(postmaster))
    for pid in (postmaster, *processes.children(postmaster)):
        found[_duty(pid)] += sum(seconds for _, seconds in _threads(pid))
    return found


def _threads(pid: int) -> Iterator[tuple[int, float]]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield int(task.name), int((task / "schedstat").read_text().split()[0]) / 1e9


def _of_ended_children(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS


def _duty(pid: int) -> str:
    """What a process of PostgreSQL calls itself; a session's title begins with its user."""
    with contextlib.suppress(OSError):
        title = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0 ")
        if not title.startswith("postgres: "):
            return "postmaster"
        words = title.removeprefix("postgres: ").split()
        return "sessions" if words[0] == "postgres" else " ".join(word for word in words[:2] if not word.isdigit())
    return "ended"
