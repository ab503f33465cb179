"""The receiving half of a doorbell, the same for every store."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_log = logging.getLogger("penstock.doorbell")


class Listener(ABC):
    """Receives rings in one background task per event loop, and wakes all waiting tasks.

    A ring without a waiting task is kept for the next one. Starting to listen counts as a ring, and so does restarting
    after an error: earlier rings may have been lost.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self._is_listening = False

    @abstractmethod
    async def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` once listening has begun and at each ring, until cancelled or an error."""

    async def wait(self, timeout: float) -> bool:
        heard = self._listening()
        try:
            async with asyncio.timeout(timeout):
                await heard.wait()
        except TimeoutError:
            return False
        heard.clear()
        return True

    def is_listening(self) -> bool:
        return self._is_listening

    def close(self) -> None:
        self._stop()

    async def aclose(self) -> None:
        task = self._stop()
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({task})

    def _stop(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
        return task

    def _listening(self) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._heard = asyncio.Event()
            self._task = loop.create_task(self._keep_listening(self._heard), name="penstock-doorbell")
        return self._heard

    async def _keep_listening(self, heard: asyncio.Event) -> None:
        pause = _FIRST_PAUSE

        def ring() -> None:
            nonlocal pause
            pause = _FIRST_PAUSE
            self._is_listening = True
            heard.set()

        while True:
            try:
                await self.listen(ring)
            except Exception as error:
                # Callers poll as well, so an unavailable database needs no more than this line.
                _log.debug("The doorbell failed, and tries again in %.1f s: %s", pause, error)
            finally:
                self._is_listening = False
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)
