"""Bodies of requests: how many bytes of them are in flight, and large ones, which are read in a thread one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from penstock.config.server_settings import MEGABYTE, WebSettings
from penstock.http.errors import Refusal

LARGE = 64 * 1024
"""Bytes from which on a body is read in a thread: parsing fewer takes less time than other requests notice."""
_CLOSE = {"Retry-After": "1", "Connection": "close"}

T = TypeVar("T")


class Bodies:
    """Counts the bytes of the bodies that a server has taken and not answered, for each caller and in all."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._of_caller: dict[str, int] = {}
        self._of_all = 0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def in_flight(self) -> int:
        """Bytes of all callers."""
        return self._of_all

    def take(self, caller: str, count: int, own: int) -> None:
        """Count more bytes of a request that has `own` already; refuse what is too much.

        A body that is alone is never too much: how large one may be is another limit.
        """
        of_caller, settings = self._of_caller.get(caller, 0), self._settings
        if of_caller > own and of_caller + count > settings.max_bytes_per_caller:
            raise Refusal(
                "rate_limited",
                f"Bodies of this caller with {_megabytes(of_caller)} are being worked on; "
                f"{_megabytes(settings.max_bytes_per_caller)} are taken at a time.",
                hint="Send the request again when an earlier one is answered.",
                headers=_CLOSE,
            )
        if self._of_all > own and self._of_all + count > settings.max_bytes_in_flight:
            raise Refusal(
                "unavailable",
                f"Bodies with {_megabytes(self._of_all)} are being worked on; this server takes "
                f"{_megabytes(settings.max_bytes_in_flight)} at a time.",
                hint="Send the request again in a moment.",
                headers=_CLOSE,
            )
        self._of_caller[caller] = of_caller + count
        self._of_all += count

    def give_back(self, caller: str, count: int) -> None:
        """Count fewer bytes: their request is answered, or its caller has gone."""
        self._of_all -= count
        left = self._of_caller.pop(caller, 0) - count
        if left > 0:
            self._of_caller[caller] = left

    @asynccontextmanager
    async def reading(self, body: bytes) -> AsyncIterator[Reading]:
        """A way to work on a body; large ones are worked on one at a time, for each takes many times its size."""
        if len(body) < LARGE:
            yield Reading(is_large=False)
            return
        async with self._lock():
            yield Reading(is_large=True)

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]


class Reading:
    """Does work on one body: in the event loop, or in a thread where the body is large."""

    def __init__(self, *, is_large: bool) -> None:
        self.is_large = is_large

    async def do(self, work: Callable[[bytes], T], body: bytes) -> T:
        """The result of work that uses nothing but the body."""
        return await asyncio.to_thread(work, body) if self.is_large else work(body)


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:.1f} MiB"
