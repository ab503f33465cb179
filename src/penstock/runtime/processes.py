"""What Linux knows of processes: whose children they are, what they use, and how to end all of them."""

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
"""So many objects more than were freed: a look at them costs as much as they are, and a busy worker makes many."""

_TURN_SECONDS = 0.0001
"""So long a thread that writes to the store waits for its turn while jobs run inline: less than a statement takes."""

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
    """Looks again and again who the children of a process are, without opening the files for that each time."""

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
    """Those of these processes that run or could; the dead whom nobody has buried yet are not among them."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if file.read().rpartition(b")")[2].split()[0] != b"Z":
                found.append(pid)
    return found


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process, so that it waits for another one to go on."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
    return False


def kill_tree(roots: Iterable[int]) -> int:
    """Kill these processes and everything below them; how many there were.

    Each is stopped before its children are looked up: what stands still forks nothing and reaps nobody, so that
    no process escapes and no number comes to mean another process meanwhile.
    """
    found = list(_walk(roots, stop=True))
    for pid in found:
        _signal(pid, signal.SIGKILL)
    return len(found)


def memory(pids: Iterable[int]) -> int:
    """Bytes that processes hold, what they share counted in parts; those that are gone hold none."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    total += int(line.split()[1]) * 1024
                    break
    return total


def settle_in(*, own: bool = True) -> None:
    """What is loaded stays: from now on garbage is looked for among what came later, and not so often; only where the
    process is our own. What was allocated and freed is given back to the system."""
    if own:
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE_AFTER, 20, 20)
        sys.setswitchinterval(_TURN_SECONDS)
    give_back_memory()


def give_back_memory() -> None:
    """Return to the system what was allocated and freed; what the C library of this host does not offer is left."""
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
