"""Calls that interrupt another call of their own thread, from signal handlers and finalizers.

The interrupted call continues only after the other one has ended, so the other one must wait for nothing that it holds.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Lock, get_ident
from types import FrameType


class OngoingCalls:
    """The running calls, one for each thread."""

    def __init__(self) -> None:
        self._frames: dict[int, FrameType] = {}

    def begin(self) -> bool:
        """Begin a call in the calling function; False when it interrupts another call of its thread."""
        thread = get_ident()
        if thread in self._frames and self.is_interrupted:
            return False
        self._frames[thread] = sys._getframe(1)
        return True

    def end(self) -> None:
        self._frames.pop(get_ident(), None)

    @property
    def is_interrupted(self) -> bool:
        """Whether a call of this thread is running, further up on its stack."""
        begun = self._frames.get(get_ident())
        if begun is None:
            return False
        # A call that was left without `end`, by an exception in a signal handler, is on no stack.
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not begun:
            frame = frame.f_back
        return frame is not None


class Waker:
    """Wakes a thread. Unlike an Event it may be set by a call that interrupts another call of `set`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        if self._lock.locked():
            with suppress(RuntimeError):  # set meanwhile
                self._lock.release()

    def wait(self) -> None:
        """Wait until it is set, and unset it."""
        self._lock.acquire()
