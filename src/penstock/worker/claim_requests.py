"""Claiming: which lanes are asked for how many jobs, and from where on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from penstock.domain.instant import SECOND
from penstock.domain.job import FRONT, Claimed, Held, Place
from penstock.domain.ports.store import JobsPort, Store
from penstock.runtime.durations import DurationHistogram
from penstock.runtime.service import log
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pool

_SLOW = 0.025
"""A look from the front of the queue that takes longer is not made for every claim."""

_NOTICED = 0.008
"""Nor is one that takes longer than this and thrice as long for each job as the quickest."""

_AGAIN = 1.0
"""So long a worker goes on from where it was, before it looks from the front once more."""


_MANY = 5_000
"""So many entries of claimed jobs in front of the others are worth to be stepped around."""

_SWEPT = 180.0
"""After so many seconds a database has most often cleared them away."""

_SOON = 0.005
"""So long what was found beside them has to begin, before those at the front are looked for."""

_PASSED_OVER = 5.0
"""So long jobs that cannot run here are left to other workers, before this one claims from the front again."""

_NEAR = 5 * SECOND
"""Whoever is created or due now stands no further than this in front of those who were before it."""


@dataclass(slots=True)
class RecentClaims:
    """What a pool has claimed of late, and where the last job of each lane stood.

    The entries of claimed jobs stay at the front of the ready index until the database clears them away, and a look
    from the front steps over all of them. After many, a pool that had left nobody waiting first looks where those stand
    who came just now, lets them run, and then looks from the front for those who are more urgent.
    """

    places: dict[int, Place] = field(default_factory=dict)
    claimed: int = 0
    since: float = 0.0
    empty: bool = False
    """Whether the last look was from the front and left nobody waiting."""
    looked: bool = False
    """Whether the last look was one of these; the next one is from the front."""

    def start(self, now: float) -> Mapping[int, Place]:
        """From where on to look first; empty: from the front."""
        if now - self.since > _SWEPT:
            self.claimed, self.since = 0, now
        self.looked, self.empty = self.empty and self.claimed >= _MANY, False
        return self.places if self.looked else {}

    def note(self, claimed: list[Claimed]) -> None:
        self.claimed += len(claimed)
        for last in {each.lane: each for each in claimed}.values():
            self.places[last.lane] = Place(last.rank - _NEAR, FRONT.job_id)

    def note_front(self, claimed: list[Claimed], *, full: bool) -> None:
        """What a look from the front has brought."""
        self.looked, self.empty = False, not full
        self.note(claimed)


@dataclass(slots=True)
class ClaimPosition:
    """How far a pool has come in its lanes.

    Jobs that were claimed leave entries in the ready index until no old transaction can see them. While somebody
    holds one open, a claim from the front steps over all of them; so after a slow one the next claims go on from the
    last job of each lane, for a second.
    """

    places: dict[int, Place] = field(default_factory=dict)
    looked_at: float = 0.0
    slow: bool = False
    quickest: float = 1.0
    """Seconds that each job of a look from the front took when it took least."""

    def start(self, now: float) -> Mapping[int, Place]:
        """From where on to claim; empty: from the front."""
        if not self.slow or now - self.looked_at >= _AGAIN:
            self.places, self.looked_at = {}, now
        return self.places

    def note(self, claimed: list[Claimed], *, full: bool, took: float, from_front: bool) -> None:
        """What a claim has brought, and how long it took."""
        if from_front and claimed:
            each = took / len(claimed)
            self.quickest = min(self.quickest, each)
            self.slow = took > _SLOW or (took > _NOTICED and each > 3 * self.quickest)
        if not full:
            # Nothing more behind: what there is stands in front.
            self.slow = False
        elif self.slow:
            for last in {each.lane: each for each in claimed}.values():
                self.places[last.lane] = Place(last.rank, last.job_id)


class ClaimRequests:
    """Asks the store for jobs in the name of a worker."""

    def __init__(
        self, store: Store, jobs: JobsPort, controls: LiveConfig, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._controls = controls
        self._clock = clock
        self._marks: dict[Pool, ClaimPosition] = {}
        # SQLite clears an entry away with the change that takes it out of the index.
        self._trails: dict[Pool, RecentClaims] | None = {} if store.dialect == "postgres" else None
        self._passed_over: dict[int, Place] = {}
        self._passed_until = 0.0
        self.durations: DurationHistogram = DurationHistogram()

    def pass_over(self, jobs: Iterable[Claimed]) -> None:
        """Leave these jobs, and those in front of them, to other workers for some seconds."""
        for each in jobs:
            place = Place(each.rank, each.job_id)
            self._passed_over[each.lane] = max(self._passed_over.get(each.lane, place), place)
            self._passed_until = self._clock() + _PASSED_OVER

    def figures(self, forks: int, refused: int) -> dict[str, float]:
        """What the worker has counted, with how long its claims took."""
        return self.durations.figures("claim", forks=forks, refused=refused)

    async def take(self, worker: str, pool: Pool) -> tuple[list[Claimed], bool]:
        """Claim what the pool has room for; True when there may be more."""
        pool.limited = {lane for lane in pool.lanes if lane in self._controls.limited}
        room, keeps_slot = pool.room, pool.keeps_slot
        if room < 1 or not pool.lanes or not self._controls.config.enabled:
            pool.note_limited([])
            return [], False
        # What has a limit is not claimed ahead: it takes a part of the limit while it waits.
        startable = pool.free if pool.free >= 1 else pool.idle if keeps_slot else 0
        limited = [lane for lane in pool.lanes if lane in pool.limited] if startable >= 1 else []
        limit = min(room, startable) if limited else room
        lanes = [*(lane for lane in pool.lanes if lane not in pool.limited), *limited]
        ask = partial(self._ask, worker, lanes, limit, limited, start=pool.ahead == 0)
        mark = self._marks.setdefault(pool, ClaimPosition())
        begun = self._clock()
        behind = mark.start(begun)
        trail = None if self._trails is None else self._trails.setdefault(pool, RecentClaims())
        if trail is not None and not behind and not keeps_slot and (near := trail.start(begun)):
            claimed = await ask(near)
            if claimed:
                trail.note(claimed)
                return claimed, len(claimed) == limit
            begun = self._clock()
        claimed = await ask(behind)
        full = len(claimed) == limit
        mark.note(claimed, full=full, took=self._clock() - begun, from_front=not behind)
        if trail is not None:
            trail.note_front(claimed, full=full or bool(behind))
        admits = False
        if limited:
            pool.note_limited(claimed)
            # The start of a job admits the next of its key.
            admits = any(each.concurrency_key is not None and each.lane in pool.limited for each in claimed)
        # What came from further on says nothing of what stands in front.
        return claimed, full or bool(behind) or admits

    @property
    def owed(self) -> float:
        """In how many seconds the front is to be looked at, when that was put off; 0 when it was not."""
        return _SOON if any(trail.looked for trail in (self._trails or {}).values()) else 0.0

    async def _ask(
        self,
        worker: str,
        lanes: Sequence[int],
        limit: int,
        limited: Sequence[int],
        behind: Mapping[int, Place],
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
                self._jobs.claim(worker, lanes, limit, limited=limited, start=start, behind=behind)
            )

    async def release_strays(self, worker: str, held: Sequence[Held]) -> None:
        """Put back what names the worker although it does not hold it."""
        released = await self._store.arun(self._jobs.release_unheld(worker, held))
        if released:
            log.warning("%d job(s) were given back: the answer to their claim was lost", len(released))
