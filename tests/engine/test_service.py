"""The loop of what is done again and again: when it is woken, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from penstock.engine.service import Service
from tests.waiting import wait_until_async


async def test_what_is_woken_soon_comes_after_what_is_woken_now() -> None:
    order: list[str] = []
    services = {name: _service(name, order) for name in ("later", "now")}
    loops = [asyncio.ensure_future(each.run()) for each in services.values()]
    await wait_until_async(lambda: len(order) == 2, "both rest")
    order.clear()

    for _ in range(3):
        services["later"].wake_soon()
    services["now"].wake()
    await wait_until_async(lambda: len(order) == 2, "both were woken")
    services["later"].wake_soon()
    await wait_until_async(lambda: len(order) == 3, "it was woken again")

    assert order == ["now", "later", "later"]
    await _end(services, loops)


async def test_a_duty_that_was_done_a_moment_ago_is_not_woken() -> None:
    order: list[str] = []
    services = {name: _service(name, order) for name in ("fresh", "other")}
    loops = [asyncio.ensure_future(each.run()) for each in services.values()]
    await wait_until_async(lambda: len(order) == 2, "both rest")
    order.clear()

    services["fresh"].wake_if_older(3600)
    services["other"].wake_if_older(0)
    await wait_until_async(lambda: order, "the other one was woken")

    assert order == ["other"]
    await _end(services, loops)


def _service(name: str, order: list[str]) -> Service:
    async def tick() -> float:
        order.append(name)
        return 3600

    return Service(name, tick)


async def _end(services: Mapping[str, Service], loops: Sequence[asyncio.Future[None]]) -> None:
    for each in services.values():
        each.stop()
    await asyncio.gather(*loops)
