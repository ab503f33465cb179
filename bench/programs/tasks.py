"""The raw limit of an event loop: a task for each job, and nothing is stored."""

from __future__ import annotations

import asyncio

from penstock.cli.worker import new_loop


def prepare(fresh: bool) -> None:
    """There is nothing to prepare."""


def drain(count: int) -> int:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(_all(count))


async def _all(count: int, batch: int = 500) -> int:
    loop = asyncio.get_running_loop()
    done = 0
    for start in range(0, count, batch):
        tasks = [loop.create_task(_nothing()) for _ in range(min(batch, count - start))]
        for task in tasks:
            await task
        done += len(tasks)
    return done


async def _nothing() -> None: ...
