"""Timed work that frees the jobs of workers whose lease has ended, and repairs limits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log

GRACE = 1_000_000
"""Microseconds after the end of a lease at which the jobs of its worker are freed."""
RESCUE_SECONDS = 60.0
"""How long a rescue may take: it is a transaction of ten statements and more, and each of them may be slow."""
_REPAIR_EVERY = 10.0
_GIVE_WAY_EVERY = 2.0
_BATCH = 1000


class Rescuer:
    """Frees jobs of workers whose lease has ended, and admits blocked jobs whose concurrency key has room or is
    kept by jobs that no worker can run.

    It owns its store. `fit` tests whether this process has been in touch with the store, so that it may take silent
    workers for dead; it is called after each answer, because an answer may have come after an outage.
    """

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        every: float,
        fit: Callable[[], bool],
        pace: Pace = ALONE,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._pace = pace
        self._jobs = jobs
        self._every = every
        self._fit = fit
        self._clock = clock
        self._repaired_at = 0.0
        self._gave_way_at = 0.0
        self._after = ""

    async def close(self) -> None:
        await self._store.aclose()

    async def tick(self) -> float:
        if not self._fit():
            return min(self._every, 0.25)
        more = False
        if await self._store.arun(self._jobs.has_expired_workers(GRACE)) and self._fit():
            more = await self._reclaim()
        if self._clock() - self._gave_way_at >= _GIVE_WAY_EVERY:
            await self._give_way()
        if self._clock() - self._repaired_at >= _REPAIR_EVERY:
            looked_at = await self._store.arun(self._jobs.repair_limits(after=self._after))
            self._after = looked_at or ""
            if not self._after:
                self._repaired_at = self._clock()
        return 0.0 if more else self._pace.rest(self._every)

    async def _give_way(self) -> None:
        """Give concurrency keys that are kept by jobs without a worker to jobs that workers can run."""
        after: str | None = "" if await self._store.arun(self._jobs.has_unserved_admitted()) else None
        while after is not None:
            after = await self._store.arun(self._jobs.block_unserved(after=after))
        self._gave_way_at = self._clock()

    async def _reclaim(self) -> bool:
        """Free the jobs of one worker, which a slow store can do in time; True when there may be more."""
        freed = await self._store.arun(self._jobs.reclaim(GRACE, random.random(), 1, still=self._fit))
        for worker in freed.workers:
            log.warning("worker %s is gone; its jobs were freed", worker)
        return bool(freed.workers) or len(freed.lost) + len(freed.released) >= _BATCH
