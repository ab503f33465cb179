"""Tasks that must end before their owner does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK = 0.5


class Tasks:
    """Keeps tasks alive until they are done."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, work: Coroutine[Any, Any, None], context: Context | None = None) -> asyncio.Task[None]:
        """Start a task, always in the same loop, in a copy of the caller's context unless another one is given."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def wait(self, seconds: float | None, until: asyncio.Event | None = None) -> None:
        """Wait until all tasks but the caller's are done, for so long at most, or until the event is set."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not (until is not None and until.is_set()):
            left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
            waited = [task for task in self._tasks if task is not asyncio.current_task()]
            if left <= 0 or not waited:
                return
            early = [] if until is None else [asyncio.ensure_future(until.wait())]
            either: list[asyncio.Future[Any]] = [*waited, *early]
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for each in early:
                each.cancel()


async def finish_despite_cancel(work: Coroutine[Any, Any, T], patience: float) -> T:
    """Return the result of this work; a cancellation waits for its end, for `patience` seconds at most."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=patience)
        task.cancel()
        raise
