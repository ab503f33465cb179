"""The application of `make demo`: jobs that succeed, fail, wait for a person, take their time, and crash."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

from penstock import Context, NeedsReview, Penstock

FILE = Path(os.environ.get("PENSTOCK_DEMO_FILE", ".penstock/demo.db")).absolute()

app = Penstock(f"sqlite:///{FILE}")


@app.job("demo.greet")
def greet(name: str) -> str:
    """The plainest job there is."""
    print(f"greeting {name}")
    return f"Hello {name}"


@app.job("demo.flaky_api", max_attempts=5, backoff=0.5)
def flaky_api(ctx: Context, url: str) -> str:
    """Fails twice; each attempt half a second after the one before."""
    if ctx.attempt < 3:
        raise ConnectionError(f"{url} does not answer")
    return "the price is 42"


def download(ctx: Context, name: str) -> int:
    for percent in range(0, 101, 20):
        ctx.progress(percent, f"{percent} % of {name}")
        time.sleep(0.05)
    return 1_234_567


def encode(ctx: Context, name: str) -> str:
    ctx.logger.info("encoding %d bytes", ctx.results["download"])
    if ctx.attempt == 1:
        raise RuntimeError("the encoder tripped; what was downloaded is kept")
    return f"{name}.webm"


async def publish(ctx: Context, name: str) -> str:
    await asyncio.sleep(0.05)
    return f"published {ctx.results['encode']}"


video = app.pipeline("demo.video", download, encode, publish, backoff=0.3)


@app.job("demo.payout", priority=15)
def payout(month: str, amount: int) -> int:
    """Waits for a person before any money goes out."""
    raise NeedsReview(f"Pay {amount} for {month}?", data=amount)


@app.job("demo.report")
def report(day: str) -> None:
    """One report for each day, however often it is asked for."""


@app.job("demo.mail", concurrency_key="to")
def mail(to: str, text: str) -> None:
    """One mail at a time for each address."""


@app.job("demo.crash", max_attempts=1)
def crash() -> None:
    """Brings its own process down, and hurts nobody."""
    ctypes.string_at(0)


@app.job("demo.endless", cancel_grace=1)
def endless() -> None:
    """Goes on until it is cancelled."""
    time.sleep(3600)


@app.job("demo.thumbnail", isolation="inline")
async def thumbnail(picture: int) -> int:
    """One of very many: a coroutine in the worker's own loop."""
    return picture * 2
