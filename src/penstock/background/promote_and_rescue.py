"""Timed work that every worker does: promote what is due, rescue what others left behind, repair limits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from penstock.domain.job import JobFilter
from penstock.domain.ports.store import AdminPort, ControlPort, JobsPort, Store
from penstock.domain.states import Status
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log

_GRACE = 1_000_000
_SAFETY = 1.0
_REPAIR_EVERY = 10.0
_GIVE_WAY_EVERY = 2.0
_BATCH = 1000
_FORGOTTEN = 15.0
_REPUBLISH_EVERY = 15.0
RESCUE_SECONDS = 60.0
"""So long a rescue may take: it is a transaction of ten statements and more, and each of them may be slow."""
_UNMOVED = 0.05
"""Seconds until the next look when another worker was faster, or a concurrency key is held."""


class Promoter:
    """Move due jobs to the queue, and admit jobs whose concurrency key has room."""

    def __init__(self, store: Store, jobs: JobsPort, promoted: Callable[[list[str]], None], pace: Pace = ALONE) -> None:
        self._store = store
        self._jobs = jobs
        self._promoted = promoted
        self._pace = pace

    async def tick(self) -> float:
        left = await self._store.arun(self._jobs.next_due())
        if left is None:
            return self._pace.rest(_SAFETY)
        if left > 0:
            return min(self._pace.rest(_SAFETY), max(0.005, left / 1e6))
        moved = await self._store.arun(self._jobs.promote(_BATCH))
        self._promoted(moved)
        if not moved:
            return _UNMOVED
        return 0.0 if len(moved) == _BATCH else 0.01


class Republisher:
    """Publish jobs again that have been ready for a while: a queue may have lost their messages."""

    def __init__(
        self,
        store: Store,
        control: ControlPort,
        admin: AdminPort,
        publish: Callable[[Sequence[str]], None],
        pace: Pace = ALONE,
    ) -> None:
        self._store = store
        self._control = control
        self._admin = admin
        self._publish = publish
        self._pace = pace
        self._after: str | None = None

    async def tick(self) -> float:
        return 0.0 if await self.once() else self._pace.rest(_REPUBLISH_EVERY)

    async def once(self, age: float = _FORGOTTEN) -> bool:
        """One batch of jobs that were created more than `age` seconds ago; True when there are more."""
        before = await self._store.arun(self._admin.clock()) - int(age * 1e6)
        which = JobFilter(status=(Status.QUEUED,), created_to=before)
        ids = await self._store.arun(self._control.select(which, _BATCH, self._after))
        self._after = ids[-1] if len(ids) == _BATCH else None
        if ids:
            self._publish(ids)
        return self._after is not None


class Rescuer:
    """Free jobs of workers whose lease has ended; admit blocked jobs whose concurrency key has room, or is
    kept by jobs that no worker can run.

    It owns the store that it is given. `fit` says whether this process has been in touch with the store, so that it may
    take others for dead; it is asked after each answer, because an answer may have come through an outage.
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
        if await self._store.arun(self._jobs.forsaken(_GRACE)) and self._fit():
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
        """Let jobs that workers can run have the concurrency keys that others keep."""
        after: str | None = "" if await self._store.arun(self._jobs.keys_kept()) else None
        while after is not None:
            after = await self._store.arun(self._jobs.give_way(after=after))
        self._gave_way_at = self._clock()

    async def _reclaim(self) -> bool:
        """Free the jobs of one worker, so that a slow store can do it in time; whether there may be more."""
        freed = await self._store.arun(self._jobs.reclaim(_GRACE, random.random(), 1, still=self._fit))
        for worker in freed.workers:
            log.warning("worker %s is gone; its jobs were freed", worker)
        return bool(freed.workers) or len(freed.lost) + len(freed.released) >= _BATCH
