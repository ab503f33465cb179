"""The loop of what is done again and again: when it is woken, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.runtime.service import Service
from tests.waiting import wait_until_async


async def test_what_is_woken_soon_comes_after_what_is_woken_now() -> None:
    order: list[str] = []
    async with resting(order) as (first, second):
        for _ in range(3):
            first.wake_soon()
        second.wake()
        await wait_until_async(lambda: len(order) == 2, "both were woken")
        first.wake_soon()
        await wait_until_async(lambda: len(order) == 3, "it was woken again")

        assert order == ["second", "first", "first"]


async def test_a_duty_that_was_done_a_moment_ago_is_not_woken() -> None:
    order: list[str] = []
    async with resting(order) as (first, second):
        first.wake_if_older(3600)
        second.wake_if_older(0)
        await wait_until_async(lambda: order, "the second one was woken")

        assert order == ["second"]


@asynccontextmanager
async def resting(order: list[str]) -> AsyncIterator[tuple[Service, Service]]:
    """Two services that have had their first tick; each further one is noted in `order`."""
    first, second = (_service(name, order) for name in ("first", "second"))
    loops = [asyncio.ensure_future(each.run()) for each in (first, second)]
    await wait_until_async(lambda: len(order) == 2, "both rest")
    order.clear()
    yield first, second
    first.stop()
    second.stop()
    await asyncio.gather(*loops)


def _service(name: str, order: list[str]) -> Service:
    async def tick() -> float:
        order.append(name)
        return 3600

    return Service(name, tick)
