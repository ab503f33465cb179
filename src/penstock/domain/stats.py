"""Statistics of jobs: counts by state, throughput, durations and errors."""

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
"""The inclusive upper bounds of the buckets in seconds; one more bucket counts longer durations. The statements of the
stores have the same bounds."""

FIRST = 65
"""The code of the letter of the first bucket."""
LOST = 126
"""The code of the letter of a lost attempt."""


@dataclass(frozen=True, slots=True)
class DurationHistogram:
    """A histogram of durations: the count of each bucket, and the total seconds."""

    counts: Sequence[int] = field(default=(0,) * (len(BOUNDS) + 1))
    total: float = 0.0

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def average(self) -> float:
        return self.total / self.n if self.n else 0.0

    def quantile(self, part: float) -> float:
        """Return the approximate quantile in seconds, interpolated within its bucket."""
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
        # Longer than the last bound: the average is the best estimate.
        return max(BOUNDS[-1], self.average)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return (bound, count of durations up to it) for each bound; the last bound is infinite."""
        found: list[tuple[float, int]] = []
        so_far = 0
        for bound, count in zip((*BOUNDS, math.inf), self.counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found


def histogram_of(letters: Mapping[int, int], total: float) -> DurationHistogram:
    """Return the histogram of counted letters; lost attempts are left out."""
    return DurationHistogram(tuple(letters.get(FIRST + place, 0) for place in range(len(BOUNDS) + 1)), total)


def sum_histograms(several: Iterable[DurationHistogram]) -> DurationHistogram:
    """Return the sum of histograms."""
    counts, total = [0] * (len(BOUNDS) + 1), 0.0
    for each in several:
        counts = [a + b for a, b in zip(counts, each.counts, strict=True)]
        total += each.total
    return DurationHistogram(tuple(counts), total)


@dataclass(frozen=True, slots=True)
class Durations:
    """Average and 95th percentile of durations, in seconds."""

    average: float
    p95: float
    """Estimated from histogram buckets."""
    sample: int
    """The number of durations."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The number of changes into these states in a span of time; a retried job starts again."""

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
        """The number of jobs that ended."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def failure_rate(self) -> float | None:
        """Failed jobs as a part of those that succeeded or failed; None when there are none."""
        ended = self.succeeded + self.failed
        return self.failed / ended if ended else None


@dataclass(frozen=True, slots=True)
class DefinitionStats:
    """One definition, all its versions together."""

    definition_key: str
    counts: Mapping[Status, int] = field(default_factory=dict)
    """The number of its jobs in each stored status now."""
    flow: Flow = field(default_factory=Flow)
    """What happened since."""
    oldest_run_at: datetime | None = None
    """When its longest waiting ready job was due."""
    durations: Durations | None = None
    """Durations of its successful attempts."""
    waits: Durations | None = None
    """Durations from queueing to claim."""
    failed_last_day: int = 0
    """How many of its jobs failed in the last 24 hours."""

    @property
    def depth(self) -> int:
        """The number of its queued jobs."""
        return self.counts.get(Status.QUEUED, 0)


@dataclass(frozen=True, slots=True)
class MinuteStats:
    """The changes of all definitions in one minute or hour."""

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
    """The minutes (or hours, by `step`) with changes, in order."""
    durations: Durations | None
    waits: Durations | None = None
    step: int = 60
    """Seconds of each entry of `minutes`: 60, or 3600 for more than a day."""

    @property
    def throughput(self) -> float:
        """The number of jobs that ended per minute."""
        return self.flow.finished / max(1.0, (self.at - self.since).total_seconds() / 60)

    @property
    def depth(self) -> int:
        """The number of queued jobs."""
        return self.counts.get(Status.QUEUED, 0)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same fingerprint: the same error type and place, in one definition."""

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
    """One page of errors, the newest first; `next_cursor` continues after it, None: it is the last page."""

    errors: list[ErrorGroup]
    next_cursor: str | None
    capped: bool
    """Only the newest failures were examined; there were more."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running job and when it started."""

    job_id: str
    definition: str
    started_at: datetime
    heard_at: datetime | None = None
    """When it last reported progress; None: never."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The ready jobs of one definition and priority."""

    definition: str
    priority: int
    depth: int
    """Their number, counted up to a few thousand for the definition."""
    oldest_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class LifetimeStats:
    """Totals of one definition since the store was created."""

    definition: str
    flow: Flow
    waits: DurationHistogram
    """Durations from queueing to claim."""
    runs: DurationHistogram
    """Durations of its ended attempts; lost ones are left out."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters since the store was created, and the current sizes of queues."""

    at: datetime
    ever: Sequence[LifetimeStats]
    ready: Sequence[Ready]
    hooks_waiting: int
    deliveries_waiting: int


def durations(found: DurationHistogram) -> Durations | None:
    """Return average and 95th percentile of a histogram; None when it is empty."""
    return Durations(found.average, found.quantile(0.95), found.n) if found.n else None
