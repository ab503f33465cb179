"""The application that the tests of the dashboard look at: one job for each thing that there is to see."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from penstock import Context, NeedsReview, Penstock

app = Penstock(
    os.environ.get("PENSTOCK_TEST_STORE", "sqlite://"), schema=os.environ.get("PENSTOCK_TEST_SCHEMA", "penstock")
)


@app.job("echo")
def echo(value: int = 1, note: str = "") -> dict[str, Any]:
    """Give back what it was given."""
    return {"value": value, "note": note}


def fetch(ctx: Context, url: str, allowed: str | None = None) -> None:
    ctx.logger.info("fetching %s", url)
    ctx.progress(50, "half of it")
    _wait_for(allowed, 0)


def shrink(ctx: Context, url: str, allowed: str | None = None) -> None:
    for number in range(10):
        _wait_for(allowed, number)
        ctx.progress(number * 10, f"frame {number} of 10")
        ctx.logger.info("frame %d", number)


@app.job("video", phases=[fetch, shrink])
def video(ctx: Context, url: str, allowed: str | None = None) -> str:
    """Fetch, shrink, publish; each step is made when the file `allowed` grants it."""
    return f"published {url}"


@app.job("broken", max_attempts=1)
def broken(why: str = "because") -> None:
    raise ValueError(f"It is broken: {why}")


def dial() -> int:
    return 5


def connect(ctx: Context) -> None:
    ctx.progress(40, "connecting")
    if ctx.attempt == 1:
        raise ConnectionError("The line is engaged.")


@app.job("call", phases=[dial, connect], backoff=0.1)
def call() -> str:
    """The second phase fails in the first attempt."""
    return "answered"


@app.job("crash", max_attempts=1)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("payout")
def payout(month: str, amount: int) -> None:
    raise NeedsReview(f"Pay {amount} for {month}?", {"amount": amount})


@app.job("keep")
def keep(n: int, b: int, a: int) -> dict[str, int]:
    """Takes its parameters in an order of its own."""
    return {"n": n, "b": b, "a": a}


@app.job("count", backoff=0.5)
def count(ctx: Context, lines: int = 60, allowed: str | None = None) -> int:
    """Write numbered lines, one after the other."""
    for number in range(lines):
        _wait_for(allowed, number)
        ctx.logger.info("line %d with fence %d", number, ctx.fence)
    return lines


def _wait_for(allowed: str | None, number: int) -> None:
    """Wait until the file `allowed` grants more steps than this number; without one nothing is waited for."""
    while allowed is not None and int(Path(allowed).read_text()) <= number:
        time.sleep(0.01)
