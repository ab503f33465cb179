"""Timed work while a test moves the clock: ticks of schedules, retention."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.app import Penstock
from penstock.background.housekeeper import Housekeeper
from penstock.background.scheduler import Scheduler
from penstock.operations.creation import tick_draft
from penstock.operations.declared_schedules import apply_schedules
from penstock.storage import ports
from penstock.storage.sqlite.clock import ManualClock

_ORIGIN = "penstock.testing"
_MOST_STEPS = 10_000


class Timed:
    """The timed work of an application on a store whose clock only moves on request."""

    def __init__(self, app: Penstock, clock: ManualClock, tell: Callable[[], None]) -> None:
        self._app = app
        self._clock = clock
        self._tell = tell
        self._scheduler = Scheduler(
            app.store,
            ports.schedules,
            ports.admin,
            lambda schedule, instant: app.session.ahold(tick_draft(app.session, schedule, instant)),
            lambda job_ids: None,
            steady=lambda: clock.steady / 1e6,
        )

    def declare(self) -> None:
        """Register the definitions and schedules that the code declares."""
        session = self._app.session
        session.hold(apply_schedules(session, self._app.schedules.declared, _ORIGIN))

    def advance(self, duration: int) -> None:
        """Move the clock from tick to tick, then to the end, and run retention once."""
        self.declare()
        _run(self._advance(duration))
        # Before retention, which may delete events that listeners have not received.
        self._tell()
        _run(self._retain())

    async def _advance(self, duration: int) -> None:
        end = self._clock.wall + duration
        for _ in range(_MOST_STEPS):
            coming = await self._app.store.arun(ports.schedules.next_tick(self._scheduler.waiting_for_retry))
            if coming is None or coming > end:
                break
            await self._move_to(coming)
        await self._move_to(end)

    async def _move_to(self, instant: int) -> None:
        self._clock.advance(max(0, instant - self._clock.wall) / 1e6)
        # Its cache of definitions is valid for a second, by another clock.
        self._app.session.memory.forget()
        while await self._scheduler.tick() == 0.0:
            pass

    async def _retain(self) -> None:
        housekeeper = Housekeeper(self._app.store, ports.admin, ports.feed, lambda: "")
        while await housekeeper.once():
            pass
        if housekeeper.problem is not None:
            raise housekeeper.problem


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end; inside an event loop, in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, work).result()
