"""Forks: what must not be in the middle of an operation while its process forks.

SQLite keeps a list of open files and locks per process, and a fork copies it: the child would believe that it
holds the parent's locks. So a store closes its connections before the fork and both sides open their own.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Protocol
from weakref import WeakSet

_PATIENCE = 10.0


class Forkable(Protocol):
    """An object that prepares itself for a fork."""

    def before_fork(self) -> None: ...

    def after_fork(self, *, child: bool) -> None: ...


def watch(each: Forkable) -> None:
    """Call its methods at every fork, for as long as it is referenced."""
    _watched.add(each)


class Gate:
    """Admits any number of threads, and shuts once all are out."""

    def __init__(self) -> None:
        self._door = threading.RLock()
        """Reentrant: a signal handler that reads may interrupt a reader of its own thread here."""
        self._inside: list[None] = []

    def __enter__(self) -> None:
        with self._door:
            self._inside.append(None)

    def __exit__(self, *_: object) -> None:
        self._inside.pop()

    def shut(self, patience: float = _PATIENCE) -> bool:
        """Admit no more threads; True once all are out, False after the timeout."""
        end = time.monotonic() + patience
        if not self._door.acquire(timeout=patience):
            return False
        while self._inside and time.monotonic() < end:
            time.sleep(0.001)
        if self._inside:
            self._door.release()
            return False
        return True

    def reopen(self) -> None:
        self._door.release()


_watched: WeakSet[Forkable] = WeakSet()


def _before() -> None:
    for each in list(_watched):
        each.before_fork()


def _after_in_parent() -> None:
    for each in list(_watched):
        each.after_fork(child=False)


def _after_in_child() -> None:
    for each in list(_watched):
        each.after_fork(child=True)


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
