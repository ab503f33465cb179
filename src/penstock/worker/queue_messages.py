"""Messages of the queue for a worker, which acknowledges them after its next claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from penstock.domain.ports.queue import Message, Queue
from penstock.runtime.service import log

_MOST = 10_000
"""More messages than this are not acknowledged, and a broker delivers them again."""


class QueueMessages:
    """Collects messages of the queue."""

    def __init__(self, queue: Queue, seconds: Callable[[], float], arrived: Callable[[], None]) -> None:
        """`seconds`: how long one call waits for messages; `arrived` is called whenever some have come."""
        self._queue = queue
        self._seconds = seconds
        self._arrived = arrived
        self._waiting: list[Message] = []

    @property
    def are_pushed(self) -> bool:
        """Whether the queue announces new jobs, so that a worker can poll less often."""
        return self._queue.is_listening()

    def take(self) -> list[Message]:
        """The messages that are not acknowledged yet."""
        return list(self._waiting)

    async def acknowledge(self, messages: list[Message]) -> None:
        """Acknowledge these messages, the oldest ones, after a claim was committed or refused."""
        del self._waiting[: len(messages)]
        if messages:
            await self._queue.acknowledge(messages)

    def publish(self, job_ids: Sequence[str]) -> None:
        """Publish ready jobs where messages carry ids: workers on other hosts wait for them."""
        if job_ids and getattr(self._queue, "carries_ids", False):
            self._queue.publish(job_ids)

    async def listen(self) -> None:
        """Wait for messages until it is cancelled."""
        while True:
            try:
                messages = await self._queue.receive(self._seconds())
            except Exception:
                log.exception("messages of the queue cannot be received")
                await asyncio.sleep(self._seconds())
                continue
            if messages:
                self._waiting += messages[: max(0, _MOST - len(self._waiting))]
                self._arrived()
