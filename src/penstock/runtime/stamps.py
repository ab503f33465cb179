"""Stamps: when something happens in an attempt; converted into the store's time when it is written.

A stamp counts microseconds of the clock since boot, which a worker and its children share and which only rises. The
difference to the store's clock is measured once for an attempt: its times keep their order and their distances,
whatever happens to either clock in between.
"""

from __future__ import annotations

import sys
import time
from typing import Any

_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC


def now() -> int:
    """The stamp of this moment."""
    return time.clock_gettime_ns(_CLOCK) // 1000


def within(value: Any, earliest: int) -> int:
    """A stamp that a child has sent, forced into the time of its attempt."""
    latest = now()
    if isinstance(value, bool) or not isinstance(value, int):
        return latest
    return min(latest, max(earliest, value))
