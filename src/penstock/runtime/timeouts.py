"""Timeouts of what shares a loop: one timer for all that have the same time, for most of them end long before."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Timed(Protocol):
    """What has to end in time."""

    def time_out(self) -> None:
        """Its time is over."""
        ...


class Timeouts:
    """Who began later has its end later, where all have the same time: only the first has to be looked at."""

    def __init__(self) -> None:
        self._same: dict[float, dict[Timed, float]] = {}
        self._set: set[float] = set()

    def begin(self, timed: Timed, seconds: float) -> None:
        """From now on it has so many seconds."""
        self._same.setdefault(seconds, {})[timed] = time.monotonic() + seconds
        if seconds not in self._set:
            self._wait(seconds, seconds)

    def end(self, timed: Timed, seconds: float) -> None:
        """It has ended by itself."""
        self._same[seconds].pop(timed, None)

    def _wait(self, seconds: float, left: float) -> None:
        self._set.add(seconds)
        asyncio.get_running_loop().call_later(left, self._look, seconds)

    def _look(self, seconds: float) -> None:
        self._set.discard(seconds)
        same, now = self._same[seconds], time.monotonic()
        late: list[Timed] = []
        for timed, due in same.items():
            if due > now:
                self._wait(seconds, due - now)
                break
            late.append(timed)
        for timed in late:
            del same[timed]
            timed.time_out()
