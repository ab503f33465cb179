"""Claiming: which lanes are asked for how many jobs, and from where on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.job import Claimed, Held, Place
from penstock.core.ports import JobsPort, Store
from penstock.engine.controls import Controls
from penstock.engine.laps import Laps
from penstock.engine.pool import Pool
from penstock.engine.service import log

_SLOW = 0.025
"""A look from the front of the queue that takes longer is not made for every claim."""

_AGAIN = 1.0
"""So long a worker goes on from where it was, before it looks from the front once more."""


@dataclass(slots=True)
class Mark:
    """How far a pool has come in its lanes.

    Jobs that were claimed leave entries in the ready index until no old transaction can see them. While somebody
    holds one open, a claim from the front steps over all of them; so after a slow one the next claims go on from the
    last job of each lane, for a second.
    """

    places: dict[int, Place] = field(default_factory=dict)
    looked_at: float = 0.0
    slow: bool = False

    def start(self, now: float) -> Mapping[int, Place]:
        """From where on to claim; empty: from the front."""
        if not self.slow or now - self.looked_at >= _AGAIN:
            self.places, self.looked_at = {}, now
        return self.places

    def note(self, claimed: list[Claimed], *, full: bool, took: float, from_front: bool) -> None:
        """What a claim has brought, and how long it took."""
        if from_front:
            self.slow = took > _SLOW
        if not full:
            # Nothing more behind: what there is stands in front.
            self.slow = False
        elif self.slow:
            for each in claimed:
                self.places[each.lane] = Place(each.rank, each.job_id)


class Claims:
    """Asks the store for jobs in the name of a worker."""

    def __init__(self, store: Store, jobs: JobsPort, controls: Controls) -> None:
        self._store = store
        self._jobs = jobs
        self._controls = controls
        self._marks: dict[Pool, Mark] = {}
        self.laps = Laps()

    async def take(self, worker: str, pool: Pool) -> tuple[list[Claimed], bool]:
        """Claim what the pool has room for; True when there may be more."""
        room = pool.room
        if room < 1 or not pool.lanes or not self._controls.config.enabled:
            return [], False
        ahead = pool.ahead > 0
        free = [lane for lane in pool.lanes if lane not in self._controls.limited]
        limited = [] if ahead and pool.free < 1 else [lane for lane in pool.lanes if lane in self._controls.limited]
        limit = room if not limited else min(room, max(1, pool.free))
        mark = self._marks.setdefault(pool, Mark())
        begun = time.monotonic()
        behind = mark.start(begun)
        plan = self._jobs.claim(worker, [*free, *limited], limit, limited=limited, start=not ahead, behind=behind)
        with self.laps.timed():
            claimed = await self._store.arun(plan)
        full = len(claimed) == limit
        mark.note(claimed, full=full, took=time.monotonic() - begun, from_front=not behind)
        # What came from further on says nothing of what stands in front.
        return claimed, full or bool(behind)

    async def release_strays(self, worker: str, held: Sequence[Held]) -> None:
        """Put back what names the worker although it does not hold it."""
        released = await self._store.arun(self._jobs.release_unheld(worker, held))
        if released:
            log.warning("%d job(s) were given back: the answer to their claim was lost", len(released))
