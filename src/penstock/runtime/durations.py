"""Durations of a repeated operation, counted in buckets."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds; one more bucket holds longer durations."""


class DurationHistogram:
    """A histogram of one process; it is written by one thread and may be read by others."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the duration of the block, unless it fails."""
        begun = time.monotonic()
        yield
        took = time.monotonic() - begun
        self._counts[bisect_left(BOUNDS, took)] += 1
        self._seconds += took

    def figures(self, name: str, **others: float) -> dict[str, float]:
        """The counts by name: the total seconds, the number in each bucket, and other figures."""
        counts = {f"{name}_{place}": float(count) for place, count in enumerate(self._counts) if count}
        return {f"{name}_seconds": self._seconds, **counts, **others}
