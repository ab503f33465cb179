"""A user's adapter: its failures are logged, and no caller sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from penstock.domain.ports.queue import Message, Queue

log: logging.Logger = logging.getLogger("penstock")
_AGAIN = 1.0
_WORDS = {
    "publish": "publish; workers find the jobs when they look next",
    "receive": "receive; the worker looks for jobs all the same",
    "hears": "say whether it listens",
    "acknowledge": "acknowledge; messages may come again",
}


class GuardedQueue:
    """Passes calls to an adapter. An outage is one line in the log when it begins and one when it is over."""

    def __init__(self, queue: Callable[[], Queue]) -> None:
        """`queue` gives the adapter with every call, and may have to make it."""
        self._queue = queue
        self._failing: set[str] = set()

    def publish(self, job_ids: Sequence[str]) -> None:
        if not job_ids:
            return
        try:
            self._queue().publish(job_ids)
        except Exception as error:
            self._fail("publish", error)
        else:
            self._work("publish")

    async def receive(self, timeout: float) -> Sequence[Message]:
        try:
            messages = await self._queue().receive(timeout)
        except Exception as error:
            self._fail("receive", error)
            await asyncio.sleep(min(timeout, _AGAIN))
            return []
        self._work("receive")
        return messages

    def hears(self) -> bool:
        try:
            return self._queue().hears()
        except Exception as error:
            self._fail("hears", error)
            return False

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        try:
            await self._queue().acknowledge(messages)
        except Exception as error:
            self._fail("acknowledge", error)
        else:
            self._work("acknowledge")

    async def aclose(self) -> None:
        """Nothing: the adapter belongs to the application."""

    def _fail(self, verb: str, error: Exception) -> None:
        if verb not in self._failing:
            self._failing.add(verb)
            log.warning("the queue fails to %s: %s: %.200s", _WORDS[verb], type(error).__name__, error)

    def _work(self, verb: str) -> None:
        if verb in self._failing:
            self._failing.discard(verb)
            log.info("the queue works again: %s", verb)
