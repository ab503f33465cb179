"""The requests by which a worker claims jobs: of which lanes, how many, and from which position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from penstock.domain.job import Claimed, Held, QueuePosition
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.runtime.durations import DurationHistogram
from penstock.runtime.service import log
from penstock.worker.claim_positions import ClaimPosition, RecentClaims
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pool

_SOON = 0.005
"""Seconds in which new jobs start, before those at the front are claimed."""

_PASSED_OVER = 5.0
"""Seconds for which jobs that cannot run here are left to other workers."""


class ClaimRequests:
    """Asks the store for jobs for the free slots of a pool."""

    def __init__(
        self, store: Store, jobs: JobsPort, config: LiveConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._config = config
        self._clock = clock
        self._positions: dict[Pool, ClaimPosition] = {}
        # SQLite clears an entry away with the change that takes it out of the index.
        self._recent: dict[Pool, RecentClaims] | None = {} if store.dialect == "postgres" else None
        self._passed_over: dict[int, QueuePosition] = {}
        self._passed_until = 0.0
        self.durations: DurationHistogram = DurationHistogram()

    def pass_over(self, jobs: Iterable[Claimed]) -> None:
        """Leave these jobs, and those that rank ahead of them, to other workers for some seconds."""
        for each in jobs:
            place = QueuePosition(each.rank, each.job_id)
            self._passed_over[each.lane] = max(self._passed_over.get(each.lane, place), place)
            self._passed_until = self._clock() + _PASSED_OVER

    def figures(self, forks: int, refused: int) -> dict[str, float]:
        """The worker's counts, with the durations of its claims."""
        return self.durations.figures("claim", forks=forks, refused=refused)

    async def take(self, worker: str, pool: Pool) -> tuple[list[Claimed], bool]:
        """Claim what the pool has room for; True when there may be more."""
        pool.limited = {lane for lane in pool.lanes if lane in self._config.limited}
        room, keeps_slot = pool.room, pool.keeps_slot
        if room < 1 or not pool.lanes or not self._config.config.enabled:
            pool.note_limited([])
            return [], False
        # A job with a limit is not claimed ahead: it takes a part of the limit while it waits.
        startable = pool.free if pool.free >= 1 else pool.idle if keeps_slot else 0
        limited = [lane for lane in pool.lanes if lane in pool.limited] if startable >= 1 else []
        limit = min(room, startable) if limited else room
        lanes = [*(lane for lane in pool.lanes if lane not in pool.limited), *limited]
        ask = partial(self._ask, worker, lanes, limit, limited, start=pool.ahead == 0)
        position = self._positions.setdefault(pool, ClaimPosition())
        begun = self._clock()
        start_after = position.start(begun)
        recent = None if self._recent is None else self._recent.setdefault(pool, RecentClaims())
        if recent is not None and not start_after and not keeps_slot and (near := recent.start(begun)):
            claimed = await ask(near)
            if claimed:
                recent.note(claimed)
                return claimed, len(claimed) == limit
            begun = self._clock()
        claimed = await ask(start_after)
        full = len(claimed) == limit
        position.note(claimed, full=full, took=self._clock() - begun, from_front=not start_after)
        if recent is not None:
            recent.note_front(claimed, full=full or bool(start_after))
        admits = False
        if limited:
            pool.note_limited(claimed)
            # The start of a job admits the next of its key.
            admits = any(each.concurrency_key is not None and each.lane in pool.limited for each in claimed)
        # Jobs from a later position say nothing about the front.
        return claimed, full or bool(start_after) or admits

    @property
    def owed(self) -> float:
        """Seconds until the front is claimed from, when that was put off; 0 when it was not."""
        return _SOON if any(recent.skipped_front for recent in (self._recent or {}).values()) else 0.0

    async def _ask(
        self,
        worker: str,
        lanes: Sequence[int],
        limit: int,
        limited: Sequence[int],
        behind: Mapping[int, QueuePosition],
        *,
        start: bool,
    ) -> list[Claimed]:
        if self._passed_over:
            if self._clock() >= self._passed_until:
                self._passed_over = {}
            passed = {lane: max(behind.get(lane, place), place) for lane, place in self._passed_over.items()}
            behind = {**behind, **passed}
        with self.durations.timed():
            return await self._store.arun(
                self._jobs.claim(worker, lanes, limit, limited=limited, start=start, after=behind)
            )

    async def release_unheld(self, worker: str, held: Sequence[Held]) -> None:
        """Release jobs that the store has given to this worker and that it does not hold."""
        released = await self._store.arun(self._jobs.release_unheld(worker, held))
        if released:
            log.warning("%d job(s) were given back: the answer to their claim was lost", len(released))
