"""Timeouts of attempts that share a loop: one timer for all with the same timeout, as most end long before it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class HasTimeout(Protocol):
    """Something that has to end in time."""

    def time_out(self) -> None:
        """Its time is over."""
        ...


class Timeouts:
    """Keeps attempts with the same timeout in the order of their start: only the first has to be checked."""

    def __init__(self) -> None:
        self._same: dict[float, dict[HasTimeout, float]] = {}
        self._set: set[float] = set()

    def begin(self, timed: HasTimeout, seconds: float) -> None:
        """Start the timeout."""
        self._same.setdefault(seconds, {})[timed] = time.monotonic() + seconds
        if seconds not in self._set:
            self._wait(seconds, seconds)

    def end(self, timed: HasTimeout, seconds: float) -> None:
        """End the timeout early."""
        self._same[seconds].pop(timed, None)

    def _wait(self, seconds: float, left: float) -> None:
        self._set.add(seconds)
        asyncio.get_running_loop().call_later(left, self._look, seconds)

    def _look(self, seconds: float) -> None:
        self._set.discard(seconds)
        same, now = self._same[seconds], time.monotonic()
        late: list[HasTimeout] = []
        for timed, due in same.items():
            if due > now:
                self._wait(seconds, due - now)
                break
            late.append(timed)
        for timed in late:
            del same[timed]
            timed.time_out()
