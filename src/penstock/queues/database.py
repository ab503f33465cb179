"""The store's doorbell as a queue: alone by default, or together with an adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.domain.ports.queue import Message, Queue
from penstock.domain.ports.store import Doorbell


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A wake-up without a job id: the claim finds the jobs."""

    job_id: str | None = None


class DatabaseQueue:
    """Wakes workers by the store's doorbell; the jobs themselves are found by the claim."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell

    def publish(self, job_ids: Sequence[str]) -> None:
        if job_ids:
            self._bell.ring()

    async def receive(self, timeout: float) -> Sequence[Message]:
        return [WakeUp()] if await self._bell.wait(timeout) else []

    def is_listening(self) -> bool:
        return self._bell.is_listening()

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """Do nothing: a wake-up is not delivered twice."""

    def close(self) -> None:
        self._bell.close()

    async def aclose(self) -> None:
        await self._bell.aclose()


_FULL_PAUSE = 0.1


class QueueWithDoorbell:
    """Receives messages of a queue and rings of the doorbell.

    Cancels and changed limits concern every worker, and a queue gives a message to one of them: only the doorbell
    brings them to all. Jobs that were created in a caller's transaction are announced by it too.
    """

    carries_ids = True

    def __init__(self, queue: Queue, bell: Queue, has_room: Callable[[], bool]) -> None:
        """`has_room`: whether this worker could run another job; while it could not, other workers get messages."""
        self._queue = queue
        self._bell = bell
        self._has_room = has_room
        self._unacknowledged = False
        self._messages: asyncio.Task[Sequence[Message]] | None = None
        self._rings: asyncio.Task[Sequence[Message]] | None = None

    def publish(self, job_ids: Sequence[str]) -> None:
        self._queue.publish(job_ids)

    async def receive(self, timeout: float) -> Sequence[Message]:
        # A call that has begun continues when the other one ends first, so its messages are not lost.
        messages = self._messages = self._messages or asyncio.ensure_future(self._receive(timeout))
        rings = self._rings = self._rings or asyncio.ensure_future(self._bell.receive(timeout))
        try:
            await asyncio.wait([messages, rings], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._cancel()
            raise
        received: list[Message] = []
        if messages.done():
            self._messages = None
            received += messages.result()
            self._unacknowledged = bool(received)
        if rings.done():
            self._rings = None
            received += rings.result()
        return received

    def is_listening(self) -> bool:
        """Not for sure: a message may have reached a worker that has no code for its job."""
        return False

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        self._unacknowledged = False
        await self._queue.acknowledge([each for each in messages if not isinstance(each, WakeUp)])

    async def aclose(self) -> None:
        await self._cancel()

    async def _receive(self, timeout: float) -> Sequence[Message]:
        # Messages may take the last slots, which is seen once the claim after them was made.
        while self._unacknowledged or not self._has_room():  # noqa: ASYNC110 (slots become free silently)
            await asyncio.sleep(_FULL_PAUSE)
        return await self._queue.receive(timeout)

    async def _cancel(self) -> None:
        tasks: list[asyncio.Task[Any]] = [each for each in (self._messages, self._rings) if each is not None]
        self._messages = self._rings = None
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
