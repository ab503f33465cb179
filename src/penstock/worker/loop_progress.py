"""Proof for other threads that the event loop runs, and a report of what blocks it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from penstock.runtime.log_lines import JOB, about, logger
from penstock.runtime.own_frames import is_own
from penstock.runtime.processes import boot_time
from penstock.worker.inline import InlineAttempt

_ASYNCIO = os.path.dirname(asyncio.__file__)

log: logging.Logger = logger("penstock.worker")


class LoopProgress:
    """A time stamp that the loop renews for as long as it runs, and that any thread may read."""

    def __init__(
        self,
        every: float,
        resumed: Callable[[], object],
        attempt_in: Callable[[asyncio.Task[Any] | None], InlineAttempt | None],
    ) -> None:
        """`resumed` is called in the loop when a stamp comes late. `attempt_in` finds the attempt that runs in a task,
        from any thread."""
        self._at = boot_time()
        self._excused_until = 0.0
        self._every = every
        self._resumed = resumed
        self._attempt_in = attempt_in
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def at(self) -> float:
        """When the loop has run last, by the boot clock; while it is excused, now."""
        return max(self._at, min(self._excused_until, boot_time()))

    @contextmanager
    def excused(self, seconds: float) -> Iterator[None]:
        """Count the enclosed work as progress, for at most these seconds; only from the loop's thread."""
        self._excused_until = boot_time() + seconds
        try:
            yield
        finally:
            self._at, self._excused_until = self.at, 0.0

    def start(self) -> None:
        """Renew the stamp from now on; only from the loop's thread."""
        if self._timer is None:
            self._renew()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def report(self, level: int, text: str) -> None:
        """Log a line with the job that runs in the loop and the stack of the loop's thread; from any thread."""
        frame = sys._current_frames().get(self._thread)
        try:
            found = self._present_attempt()
        except Exception:
            # An attempt that cannot be named must not keep the worker from ending.
            found = None
        by = "" if found is None else f"; inline job {found.job_id} of {found.key} runs in it"
        record = log.makeRecord(
            log.name, level, __file__, 0, "%s%s", (text, by), None, extra=about(found.job_id) if found else None
        )
        record.exc_text = "\n".join(f"  {line}" for line in _lines(frame))
        log.handle(record)

    def _present_attempt(self) -> InlineAttempt | None:
        task = asyncio.current_task(self._loop)
        if (found := self._attempt_in(task)) is not None:
            return found
        # A task that the handler has made: from Python 3.12 on its context can be read.
        context: Mapping[ContextVar[Any], Any] = getattr(task, "get_context", dict)()
        return busy if isinstance(busy := context.get(JOB), InlineAttempt) else None

    def _renew(self) -> None:
        now = boot_time()
        late = now - self._at > 2 * self._every
        self._at = now
        self._timer = self._loop.call_later(self._every, self._renew)
        if late:
            self._resumed()


def _lines(frame: FrameType | None) -> list[str]:
    """The lines of a stack; where it has frames of a handler, only those."""
    if frame is None:
        return []
    frames = traceback.extract_stack(frame)
    own = [is_own(each.filename) or each.filename.startswith(_ASYNCIO) for each in frames]
    # What is above the first frame of ours has started the worker.
    theirs = [each for place, each in enumerate(frames) if not own[place] and any(own[:place])]
    return "".join(traceback.format_list(theirs or frames)).rstrip("\n").split("\n")
