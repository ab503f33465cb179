"""The jobs of the demo: ordinary application code."""

from __future__ import annotations

import asyncio
import ctypes
import time
from typing import Any

from penstock import Context, DefinitionHandle, NeedsReview, Penstock
from penstock.demo.scenes import url

app: Penstock = Penstock(url())


@app.job("demo.greet")
def greet(name: str) -> str:
    """The simplest job."""
    print(f"greeting {name}")
    return f"Hello {name}"


def download(ctx: Context, name: str) -> int:
    """Downloads the film in ten parts."""
    for percent in range(0, 101, 10):
        ctx.progress(percent, f"{percent} % of {name}")
        time.sleep(0.15)
    return 1_234_567


def encode(ctx: Context, name: str) -> str:
    """Fails at its first attempt; the download is not repeated."""
    ctx.logger.info("encoding %d bytes", ctx.results["download"])
    if ctx.attempt == 1:
        raise RuntimeError("the encoder tripped; what was downloaded is kept")
    for percent in range(0, 101, 20):
        ctx.progress(percent)
        time.sleep(0.1)
    return f"{name}.webm"


async def publish(ctx: Context, name: str) -> str:
    """An `async def` among ordinary functions."""
    await asyncio.sleep(0.2)
    return f"published {ctx.results['encode']}"


video: DefinitionHandle[..., Any] = app.pipeline("demo.video", download, encode, publish, backoff=0.5)


@app.job("demo.flaky_api", max_attempts=5, backoff=1)
def flaky_api(ctx: Context, url: str) -> str:
    """Fails twice; attempts are a second apart."""
    if ctx.attempt < 3:
        raise ConnectionError(f"{url} does not answer")
    return "the price is 42"


@app.job("demo.payout", priority=15)
def payout(month: str, amount: int) -> int:
    """Waits for a person's approval before a payment."""
    raise NeedsReview(f"Pay {amount} for {month}?", data=amount)


@app.job("demo.crash", max_attempts=1)
def crash() -> None:
    """Reads from address zero: the kernel kills its process with SIGSEGV, and no other."""
    ctypes.string_at(0)


@app.job("demo.endless", cancel_grace=1)
def endless() -> None:
    """Runs until it is cancelled."""
    time.sleep(3600)


@app.job("demo.report", concurrency_key="day")
def report(day: str) -> str:
    """One report for each day, however often it is requested."""
    return f"report of {day}"


@app.job("demo.thumbnail", isolation="inline")
async def thumbnail(picture: int) -> int:
    """One of many: a coroutine in the worker's event loop."""
    return picture * 2


@app.job("demo.heartbeat", schedule="* * * * *")
def heartbeat(ctx: Context) -> str:
    """Runs every minute, by a schedule."""
    return f"the tick of {ctx.scheduled_for:%H:%M}" if ctx.scheduled_for else "by hand"
