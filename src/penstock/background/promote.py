"""Timed work that moves due jobs to the queue."""

from __future__ import annotations

from collections.abc import Callable

from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.runtime.pace import ALONE, Pace

_LONGEST_REST = 1.0
_BATCH = 1000
_UNMOVED = 0.05
"""Seconds until the next look when another worker was faster, or no job could be moved because its concurrency key is
taken."""


class Promoter:
    """Moves due jobs to the queue, and admits jobs whose concurrency key has room."""

    def __init__(self, store: Store, jobs: JobsPort, promoted: Callable[[list[str]], None], pace: Pace = ALONE) -> None:
        self._store = store
        self._jobs = jobs
        self._promoted = promoted
        self._pace = pace

    async def tick(self) -> float:
        left = await self._store.arun(self._jobs.next_due())
        if left is None:
            return self._pace.rest(_LONGEST_REST)
        if left > 0:
            return min(self._pace.rest(_LONGEST_REST), max(0.005, left / 1e6))
        moved = await self._store.arun(self._jobs.promote(_BATCH))
        self._promoted(moved)
        if not moved:
            return _UNMOVED
        return 0.0 if len(moved) == _BATCH else 0.01
