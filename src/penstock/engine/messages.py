"""Messages of the queue on their way to a worker, which acknowledges them once it has looked for jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.ports import Message, Queue
from penstock.engine.service import log


class Messages:
    """Collects what the queue announces."""

    def __init__(self, queue: Queue, seconds: Callable[[], float], arrived: Callable[[], None]) -> None:
        """`seconds`: how long one call waits for messages; `arrived` is called whenever some have come."""
        self._queue = queue
        self._seconds = seconds
        self._arrived = arrived
        self._waiting: list[Message] = []

    @property
    def are_pushed(self) -> bool:
        """Whether the queue announces new jobs, so that a worker need not look for them often."""
        return self._queue.hears()

    def take(self) -> list[Message]:
        """Those that have come since the last call."""
        taken, self._waiting = self._waiting, []
        return taken

    async def acknowledge(self, messages: list[Message]) -> None:
        if messages:
            await self._queue.acknowledge(messages)

    async def listen(self) -> None:
        """Wait for messages until it is cancelled."""
        while True:
            try:
                messages = await self._queue.receive(self._seconds())
            except Exception:
                log.exception("the queue cannot be listened to")
                await asyncio.sleep(self._seconds())
                continue
            if messages:
                self._waiting += messages
                self._arrived()
