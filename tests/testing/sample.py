"""An application whose jobs end in many ways, for the test kit and for a real worker."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from typing import Any

from penstock import Context, Fail, NeedsReview, Penstock, Snooze

app = Penstock(os.environ.get("PENSTOCK_TEST_STORE", "sqlite://"))


@app.job("fine")
def fine(ctx: Context, name: str) -> dict[str, Any]:
    ctx.progress(30, "a third")
    ctx.logger.info("hello %s", name)
    logging.getLogger("elsewhere").warning("hot")
    ctx.emit_event("sample.said", {"name": name})
    return {"name": name, "attempt": ctx.attempt, "tags": ctx.tags}


@app.job("later")
async def later(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@app.job("inline", isolation="inline")
async def inline(number: int) -> int:
    await asyncio.sleep(0)
    return number + 1


@app.job("flaky", backoff=0)
def flaky(ctx: Context) -> int:
    if ctx.attempt == 1:
        raise ConnectionError("not yet")
    return ctx.attempt


@app.job("broken", backoff=0, max_attempts=2, secret=["password"])
def broken(password: str) -> None:
    raise ValueError(f"{password} is wrong")


@app.job("picky", backoff=0, retry_on=ConnectionError)
def picky() -> None:
    raise KeyError("not worth another try")


@app.job("final")
def final() -> None:
    raise Fail("give up")


@app.job("leaving", max_attempts=1)
def leaving() -> None:
    sys.exit(3)


@app.job("odd", max_attempts=1)
def odd() -> Any:
    return object()


@app.job("asking")
def asking() -> None:
    raise NeedsReview("really?", {"sum": 7})


@app.job("sleepy")
def sleepy() -> None:
    raise Snooze(3600, "too early")


@app.job("parent", backoff=0)
def parent(ctx: Context) -> int:
    later.enqueue(1)
    app.enqueue("later", {"number": 2})
    ctx.enqueue(later, {"number": 3})
    if ctx.attempt == 1:
        raise ValueError("once more")
    return len(app.get(ctx.job_id).job.tags)


def load(ctx: Context, number: int) -> int:
    ctx.logger.info("loading")
    return number


async def change(ctx: Context) -> int:
    if ctx.attempt == 1:
        raise ValueError("not at the first time")
    return int(ctx.results["load"]) * 10


pipe = app.pipeline("pipe", load, change, backoff=0)
