"""Waiting for facts. Nothing else in the tests may sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PAUSE = 0.01


def wait_until(fact: Callable[[], T], what: str, timeout: float = 30) -> T:
    """Call `fact` until it is true and return what it gave; after `timeout` seconds fail, saying `what`."""
    deadline = time.monotonic() + timeout
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_sentence(what, timeout, value))
        time.sleep(PAUSE)


@overload
async def wait_until_async(fact: Callable[[], Awaitable[T]], what: str, timeout: float = 30) -> T: ...
@overload
async def wait_until_async(fact: Callable[[], T], what: str, timeout: float = 30) -> T: ...
async def wait_until_async(fact: Callable[[], Any], what: str, timeout: float = 30) -> Any:
    """The same without blocking the event loop; `fact` may be a plain or an async function."""
    deadline = time.monotonic() + timeout
    while True:
        value = fact()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(_sentence(what, timeout, value))
        await asyncio.sleep(PAUSE)


def _sentence(what: str, timeout: float, value: object) -> str:
    return f"waited {timeout:g} s in vain until {what} (last answer: {value!r})"
