"""Processes on Linux: their children, their memory, and how to end all of them."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_KILL = int(signal.SIGKILL)
_MOST_PROCESSES = 100_000
_CHUNK = 65_536
_GARBAGE_AFTER = 20_000
"""New objects after which garbage is collected: a collection costs time for each, and a busy worker makes many."""

_TURN_SECONDS = 0.0001
"""How long a thread that writes to the store waits while jobs run inline: less than a statement takes."""

boot_time: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic
)
"""Seconds since this host started, asleep or not: no clock that anybody can set."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, _KILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent is gone."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def gain_no_privileges() -> None:
    """Let no program that is started from here have more rights than this process."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def refuse_inspection() -> None:
    """Let no process of the same user read the memory, the environment or the descriptors of this one, or trace it.

    A forked child inherits that, a program that is started does not. No core file is written either.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def allow_inspection() -> None:
    """Let processes of the same user inspect this one again."""
    _prctl(_PR_SET_DUMPABLE, 1)


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


class Children:
    """Lists the children of a process repeatedly, and keeps the files for that open."""

    def __init__(self, pid: int) -> None:
        self._files: list[int] = []
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                self._files.append(os.open(f"/proc/{pid}/task/{task}/children", os.O_RDONLY))

    def look(self) -> list[int]:
        found: list[int] = []
        for file in self._files:
            text = b""
            while part := os.pread(file, _CHUNK, len(text)):
                text += part
            found += map(int, text.split())
        return found


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, those nearest to it first."""
    found: list[int] = []
    for parent in _walk([pid]):
        found.append(parent)
    return found[1:]


def living(pids: Iterable[int]) -> list[int]:
    """The processes among these that are alive; zombies are not."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if file.read().rpartition(b")")[2].split()[0] != b"Z":
                found.append(pid)
    return found


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process until another one continues it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


def kill_tree(roots: Iterable[int]) -> int:
    """Kill these processes and everything below them; how many there were.

    Each is stopped before its children are listed: a stopped process neither forks nor reaps, so that no process
    escapes and no number is used again for another process.
    """
    found = list(_walk(roots, stop=True))
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


def memory(pids: Iterable[int]) -> int:
    """The memory of processes in bytes, shared memory counted in parts; 0 for those that are gone."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1]) * 1024
                    break
    return total


def tune_memory(*, own: bool = True) -> None:
    """Keep loaded code out of garbage collection, and collect less often; only where the process is our own.

    Freed memory is returned to the system."""
    if own:
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE_AFTER, 20, 20)
        sys.setswitchinterval(_TURN_SECONDS)
    give_back_memory()


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library of this host can."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


def threads() -> int:
    """How many threads this process has, those of C libraries too."""
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 1


def _walk(roots: Iterable[int], *, stop: bool = False) -> Iterable[int]:
    waiting = list(roots)
    seen = set(waiting)
    while waiting and len(seen) < _MOST_PROCESSES:
        pid = waiting.pop(0)
        if stop:
            _signal(pid, signal.SIGSTOP)
        yield pid
        fresh = [child for child in children(pid) if child not in seen]
        seen.update(fresh)
        waiting += fresh


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux" and _libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}) failed: {os.strerror(error)}")
