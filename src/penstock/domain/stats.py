"""Figures about jobs: how many stand where, how many came to an end, how long they take, what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from penstock.domain.states import Status

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 14_400.0, 86_400.0,
)  # fmt: skip
"""The upper bounds of the buckets in seconds, themselves included; one more bucket holds whatever is longer. The
statements of the stores have the same ones."""

FIRST = 65
"""The code of the letter that stands for the first bucket."""
LOST = 126
"""The code of the letter that stands for an attempt that was lost, however long it took."""


@dataclass(frozen=True, slots=True)
class DurationHistogram:
    """A histogram: how many fell into each bucket, and how many seconds they were together."""

    counts: Sequence[int] = field(default=(0,) * (len(BOUNDS) + 1))
    total: float = 0.0

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def average(self) -> float:
        return self.total / self.n if self.n else 0.0

    def quantile(self, part: float) -> float:
        """About how many seconds that part of them took at most, in a straight line between a bucket's bounds."""
        if not self.n:
            return 0.0
        left = max(1, math.ceil(part * self.n))
        for place, count in enumerate(self.counts):
            if left <= count:
                if place == len(BOUNDS):
                    break
                low = BOUNDS[place - 1] if place else 0.0
                return low + (BOUNDS[place] - low) * left / count
            left -= count
        # Longer than the last bound: nobody knows how much, but the average may.
        return max(BOUNDS[-1], self.average)

    def cumulative(self) -> list[tuple[float, int]]:
        """How many took at most so many seconds, bound by bound; the last bound is infinite."""
        found: list[tuple[float, int]] = []
        so_far = 0
        for bound, count in zip((*BOUNDS, math.inf), self.counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found


def histogram_of(letters: Mapping[int, int], total: float) -> DurationHistogram:
    """A histogram from how many letters of each code there are; lost attempts are no part of it."""
    return DurationHistogram(tuple(letters.get(FIRST + place, 0) for place in range(len(BOUNDS) + 1)), total)


def sum_histograms(several: Iterable[DurationHistogram]) -> DurationHistogram:
    """Histograms added up."""
    counts, total = [0] * (len(BOUNDS) + 1), 0.0
    for each in several:
        counts = [a + b for a, b in zip(counts, each.counts, strict=True)]
        total += each.total
    return DurationHistogram(tuple(counts), total)


@dataclass(frozen=True, slots=True)
class Durations:
    """How long something took, in seconds."""

    average: float
    p95: float
    """From the buckets that lengths are counted in: as good as these are fine."""
    sample: int
    """How many were measured."""


@dataclass(frozen=True, slots=True)
class Flow:
    """How many jobs came into these states during some time; a job that is tried again starts again."""

    queued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0
    """Attempts that failed and were followed by another one."""
    lost: int = 0
    """Attempts whose worker's lease ended."""

    @property
    def finished(self) -> int:
        """How many jobs came to an end."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def failure_rate(self) -> float | None:
        """The part of those that ended by themselves that failed; None when none did."""
        ended = self.succeeded + self.failed
        return self.failed / ended if ended else None


@dataclass(frozen=True, slots=True)
class DefinitionStats:
    """One definition, all its versions together."""

    definition_key: str
    counts: Mapping[Status, int] = field(default_factory=dict)
    """How many of its jobs stand in each stored status now."""
    flow: Flow = field(default_factory=Flow)
    """What happened since."""
    oldest_run_at: datetime | None = None
    """When the longest waiting of its jobs that are ready was due."""
    durations: Durations | None = None
    """How long its attempts took that succeeded."""
    waits: Durations | None = None
    """How long its jobs stood in the queue before they were claimed."""
    failed_last_day: int = 0
    """How many of its jobs failed in the last 24 hours."""

    @property
    def depth(self) -> int:
        """How many of its jobs stand in the queue."""
        return self.counts.get(Status.QUEUED, 0)


@dataclass(frozen=True, slots=True)
class MinuteStats:
    """One minute, or hour, all definitions together."""

    minute: datetime
    flow: Flow


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a store at one moment."""

    at: datetime
    since: datetime
    """The beginning of the first minute that is counted."""
    counts: Mapping[Status, int]
    flow: Flow
    definitions: Sequence[DefinitionStats]
    minutes: Sequence[MinuteStats]
    """The minutes (hours, where `step` says so) in which something happened, the first one first."""
    durations: Durations | None
    waits: Durations | None = None
    step: int = 60
    """How many seconds each of `minutes` is long: 60, or 3600 for more than a day."""

    @property
    def throughput(self) -> float:
        """How many jobs came to an end per minute."""
        return self.flow.finished / max(1.0, (self.at - self.since).total_seconds() / 60)

    @property
    def depth(self) -> int:
        """How many jobs stand in the queue."""
        return self.counts.get(Status.QUEUED, 0)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures that look alike: the same kind of error from the same place, in one definition."""

    fingerprint: str
    definition_key: str
    error_type: str | None
    error: str
    """The first line of the newest one."""
    jobs: int
    attempts: int
    first_at: datetime
    last_at: datetime
    job_id: str
    """The job that had the newest one."""


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """One page of errors, the newest first; `cursor` continues after it, None says that this was the last."""

    errors: list[ErrorGroup]
    next_cursor: str | None
    capped: bool
    """There were more failures than are looked at: only the newest ones are counted."""


@dataclass(frozen=True, slots=True)
class Running:
    """A job that runs now, and since when."""

    job_id: str
    definition: str
    started_at: datetime
    heard_at: datetime | None = None
    """When it last said how far it is; None: it never did."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Jobs of one definition and priority that are ready."""

    definition: str
    priority: int
    depth: int
    """How many there are, of the first some thousand of the definition."""
    oldest_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class LifetimeStats:
    """What happened to one definition since the store began."""

    definition: str
    flow: Flow
    waits: DurationHistogram
    """How long its jobs stood in the queue before they were claimed."""
    runs: DurationHistogram
    """How long its attempts took, however they ended; lost ones are not among them."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures that only rise, and those of this moment that belong to them."""

    at: datetime
    ever: Sequence[LifetimeStats]
    ready: Sequence[Ready]
    hooks_waiting: int
    deliveries_waiting: int


def durations(found: DurationHistogram) -> Durations | None:
    """Average and 95th percentile of what was measured; None when nothing was."""
    return Durations(found.average, found.quantile(0.95), found.n) if found.n else None
