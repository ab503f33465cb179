"""How long things take, counted in fixed buckets: what is added up never has to be looked at again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
class Lengths:
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


def lengths(letters: Mapping[int, int], total: float) -> Lengths:
    """A histogram from how many letters of each code there are; lost attempts are no part of it."""
    return Lengths(tuple(letters.get(FIRST + place, 0) for place in range(len(BOUNDS) + 1)), total)


def together(several: Iterable[Lengths]) -> Lengths:
    """Histograms added up."""
    counts, total = [0] * (len(BOUNDS) + 1), 0.0
    for each in several:
        counts = [a + b for a, b in zip(counts, each.counts, strict=True)]
        total += each.total
    return Lengths(tuple(counts), total)
