"""Where in the ready index a claim begins, so that it steps over few entries of jobs that are claimed already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.domain.instant import SECOND
from penstock.domain.job import FIRST_POSITION, Claimed, QueuePosition

_SLOW = 0.025
"""A claim from the front of the queue that takes longer is not repeated each time."""

_NOTICEABLE = 0.008
"""Nor is one that takes longer than this, and three times as long for each job as the quickest one."""

_FRONT_EVERY = 1.0
"""Seconds for which a worker goes on from its last position before it claims from the front again."""

_MANY = 5_000
"""The number of entries of claimed jobs at the front that are worth stepping around."""

_CLEARED_AFTER = 180.0
"""Seconds after which a database has usually removed the entries of claimed jobs."""

_NEAR = 5 * SECOND
"""Jobs that are created or due now rank at most this far ahead of older ones."""


@dataclass(slots=True)
class RecentClaims:
    """What a pool has claimed lately, and the position of the last job of each lane.

    The entries of claimed jobs stay at the front of the ready index until the database removes them, and a claim from
    the front steps over all of them. After many claims, a pool that had left no job in the queue first claims at the
    position of new jobs, starts them, and then claims from the front for jobs that are more urgent.
    """

    places: dict[int, QueuePosition] = field(default_factory=dict)
    claimed: int = 0
    since: float = 0.0
    empty: bool = False
    """Whether the last claim was from the front and left no job in the queue."""
    skipped_front: bool = False
    """Whether the last claim began at the position of new jobs; the next one begins at the front."""

    def start(self, now: float) -> Mapping[int, QueuePosition]:
        """Where to begin; empty: at the front."""
        if now - self.since > _CLEARED_AFTER:
            self.claimed, self.since = 0, now
        self.skipped_front, self.empty = self.empty and self.claimed >= _MANY, False
        return self.places if self.skipped_front else {}

    def note(self, claimed: list[Claimed]) -> None:
        self.claimed += len(claimed)
        for last in {each.lane: each for each in claimed}.values():
            self.places[last.lane] = QueuePosition(last.rank - _NEAR, FIRST_POSITION.job_id)

    def note_front(self, claimed: list[Claimed], *, full: bool) -> None:
        """What a claim from the front has brought."""
        self.skipped_front, self.empty = False, not full
        self.note(claimed)


@dataclass(slots=True)
class ClaimPosition:
    """How far a pool has come in its lanes.

    Claimed jobs leave entries in the ready index until no old transaction can see them. While such a transaction is
    open, a claim from the front steps over all of them. So after a slow claim the next ones go on from the last job of
    each lane, for a second.
    """

    places: dict[int, QueuePosition] = field(default_factory=dict)
    looked_at: float = 0.0
    slow: bool = False
    quickest: float = 1.0
    """Seconds for each job of the quickest claim from the front."""

    def start(self, now: float) -> Mapping[int, QueuePosition]:
        """Where to begin; empty: at the front."""
        if not self.slow or now - self.looked_at >= _FRONT_EVERY:
            self.places, self.looked_at = {}, now
        return self.places

    def note(self, claimed: list[Claimed], *, full: bool, took: float, from_front: bool) -> None:
        """What a claim has brought, and how long it took."""
        if from_front and claimed:
            each = took / len(claimed)
            self.quickest = min(self.quickest, each)
            self.slow = took > _SLOW or (took > _NOTICEABLE and each > 3 * self.quickest)
        if not full:
            # No job is left after this position: the rest is at the front.
            self.slow = False
        elif self.slow:
            for last in {each.lane: each for each in claimed}.values():
                self.places[last.lane] = QueuePosition(last.rank, last.job_id)
