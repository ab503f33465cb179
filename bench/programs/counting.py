"""What a program was told by its environment, and how its handlers tell that they ran."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache

ADDRESS = os.environ.get("BENCH_ADDRESS", "")
"""Where the jobs are: a URL, a socket or a file."""

STAMP = "stamp"
NOTHINGS = [f"nothing_{number}" for number in range(int(os.environ.get("BENCH_DEFINITIONS", "0")))]
STAMPS = [STAMP] if os.environ.get("BENCH_STAMP") == "1" else []
"""The definitions that this process has: some that do nothing, and one that tells how long it was on its way."""


def count() -> None:
    """One more job has run; a write each, for workers with threads or processes."""
    os.write(_file(), b".")


class Counter:
    """Counts on an event loop; the file hears of it every few milliseconds, so that counting costs next to nothing."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self) -> None:
        self._seen += 1
        if self._seen == 1:
            asyncio.get_running_loop().call_later(0.005, self._tell)

    def _tell(self) -> None:
        seen, self._seen = self._seen, 0
        os.write(_file(), b"." * seen)


def stamp(sent: int) -> None:
    """Write down how many nanoseconds lie between the call that created the job and now."""
    taken = time.monotonic_ns() - sent
    os.write(_file(), f"{taken}\n".encode())


@cache
def _file() -> int:
    return os.open(os.environ["BENCH_TALLY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
