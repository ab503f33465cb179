"""Descriptors that an application opened while it was imported, and what becomes of each in a job's process.

Files, devices and datagram sockets go on working in a job. A file that is written to is shared with the zygote, so that
lines of many jobs go to its end; a file that is read is opened again in each job, so that no two share a position.
Everything else (pipes, streams, event queues) is closed in jobs, and the worker names it in its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MODES = os.O_RDONLY | os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """What an application has opened, by what becomes of it in a job's process."""

    kept: tuple[int, ...] = ()
    reopened: tuple[tuple[int, int], ...] = ()
    """Files that are read, each with the flags that it was opened with."""
    closed: tuple[str, ...] = ()
    """Descriptors that jobs may not have, as shown in the log."""

    writers: tuple[Any, ...] = ()
    """Objects that buffer text for one of the files."""

    @property
    def numbers(self) -> list[int]:
        """The descriptors that stay open in a job's process, in their order."""
        return sorted({*self.kept, *(number for number, _ in self.reopened)})

    def flush(self) -> None:
        """Write out what is buffered; a job's process ends without doing so."""
        for each in self.writers:
            # A handler may have closed it, and the disk may be full.
            with contextlib.suppress(Exception):
                each.flush()

    def reopen(self) -> None:
        """Open each file that is read again, so that this process has its own position; share it where that fails."""
        for number, flags in self.reopened:
            with contextlib.suppress(OSError):
                again = os.open(f"/proc/self/fd/{number}", flags | os.O_CLOEXEC)
                os.lseek(again, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(again, number, os.get_inheritable(number))
                os.close(again)


def open_numbers() -> set[int]:
    """The descriptors of this process."""
    with contextlib.suppress(OSError):
        # The listing has a descriptor too, which is closed again here.
        return {int(name) for name in os.listdir("/proc/self/fd") if _kind(int(name)) is not None}
    return set()


def opened_since(before: set[int], *, sockets: bool) -> OpenedFiles:
    """Sort the descriptors that were opened since then; `sockets`: the operator has allowed streams too."""
    kept, reopened, closed = [], [], []
    for number in sorted(open_numbers() - before):
        kind = _kind(number) or 0
        if stat.S_ISREG(kind) and not _shares_its_position(number):
            reopened.append((number, fcntl.fcntl(number, fcntl.F_GETFL) & (_MODES | os.O_APPEND)))
        elif _is_shareable(number, kind) or (sockets and stat.S_ISSOCK(kind)):
            kept.append(number)
        else:
            closed.append(_shown(number))
    found = OpenedFiles(tuple(kept), tuple(reopened), tuple(closed), tuple(_writers({*kept, *dict(reopened)})))
    # Otherwise each job's process would write the buffered text again.
    found.flush()
    return found


def is_datagram(number: int) -> bool:
    """Whether it is a socket that sends whole messages, which processes can share."""
    try:
        shared = socket.socket(fileno=os.dup(number))
    except OSError:
        return False
    with shared:
        return shared.type == socket.SOCK_DGRAM


def _is_shareable(number: int, kind: int) -> bool:
    """Whether processes can use the same one without disturbing each other."""
    if stat.S_ISSOCK(kind):
        return is_datagram(number)
    return stat.S_ISREG(kind) or stat.S_ISDIR(kind) or (stat.S_ISCHR(kind) and not os.isatty(number))


def _writers(numbers: set[int]) -> Iterator[Any]:
    """The objects of this process that buffer what is written to one of these."""
    kinds = io.BufferedWriter | io.BufferedRandom | io.TextIOWrapper
    for each in gc.get_objects() if numbers else ():
        with contextlib.suppress(Exception):
            if isinstance(each, kinds) and each.writable() and each.fileno() in numbers:
                yield each


def _shares_its_position(number: int) -> bool:
    """Whether a file is only written to."""
    return fcntl.fcntl(number, fcntl.F_GETFL) & _MODES == os.O_WRONLY


def _kind(number: int) -> int | None:
    try:
        return os.fstat(number).st_mode
    except OSError:
        return None


def _shown(number: int) -> str:
    try:
        return f"{number} ({os.readlink(f'/proc/self/fd/{number}')})"
    except OSError:
        return str(number)
