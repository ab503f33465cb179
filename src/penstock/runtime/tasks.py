"""Tasks that somebody has to wait for before it is over."""

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
        """Begin it, always in the same loop; in a copy of the caller's context, unless there is another for it."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        task = self._loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def wait(self, seconds: float | None, hurry: asyncio.Event | None = None) -> None:
        """Until all but the caller's own are done, or the time is over, or somebody is in a hurry."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not (hurry is not None and hurry.is_set()):
            left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
            waited = [task for task in self._tasks if task is not asyncio.current_task()]
            if left <= 0 or not waited:
                return
            hurrying = [] if hurry is None else [asyncio.ensure_future(hurry.wait())]
            either: list[asyncio.Future[Any]] = [*waited, *hurrying]
            await asyncio.wait(either, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for each in hurrying:
                each.cancel()


async def to_its_end(work: Coroutine[Any, Any, T], patience: float) -> T:
    """What it gives; whoever is cancelled meanwhile is so only after its end, or so many seconds later."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=patience)
        task.cancel()
        raise
