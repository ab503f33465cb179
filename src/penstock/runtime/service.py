"""The loop of every service: one tick, a sleep that can be woken, a pause after an error."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.errors import SchemaNewer, StoreUnavailable
from penstock.domain.worker import Duty
from penstock.runtime.log_lines import logger

_LONGEST_PAUSE = 5.0
_SOON = 0.005
_LONGEST_ERROR = 300

log: logging.Logger = logger("penstock.worker")


class ErrorCounts(Protocol):
    """Errors that a service counts itself and that do not end its tick."""

    errors: int
    last_error: str | None


class Service:
    """Calls `tick` until it is stopped; a tick returns the seconds until the next one."""

    def __init__(
        self,
        name: str,
        tick: Callable[[], Awaitable[float]],
        *,
        longest_pause: float = _LONGEST_PAUSE,
        counting: ErrorCounts | None = None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`close` is awaited when the service ends, cancelled or not."""
        self.name = name
        self.succeeded_at: float | None = None
        """When a tick last succeeded, on the monotonic clock."""
        self.errors: int = 0
        self.last_error: str | None = None
        self.caught_up: bool = False
        """Whether a tick left nothing to do now, or has failed: its first pass is over."""
        self._counting = counting
        self._tick = tick
        self._close = close
        self._longest_pause = longest_pause
        self._awake = asyncio.Event()
        self._wakes_soon = False
        self._stopping = False

    def report(self) -> Duty:
        """The last success and the errors; from any thread."""
        succeeded, own = self.succeeded_at, self._counting
        return Duty(
            name=self.name,
            last_success_age=None if succeeded is None else time.monotonic() - succeeded,
            errors=self.errors + (own.errors if own else 0),
            last_error=self.last_error or (own.last_error if own else None),
        )

    def wake(self) -> None:
        """Let the next tick come now; only from the loop's own thread."""
        self._wakes_soon = False
        self._awake.set()

    def wake_soon(self, seconds: float = _SOON) -> None:
        """Let the next tick come in a moment, so that services that were woken before have the processor first."""
        if not self._wakes_soon:
            self._wakes_soon = True
            asyncio.get_running_loop().call_later(seconds, self.wake)

    def wake_if_older(self, seconds: float) -> None:
        """Let the next tick come in a moment, unless the last one was so short a time ago."""
        if self.succeeded_at is None or time.monotonic() - self.succeeded_at >= seconds:
            self.wake_soon()

    def stop(self) -> None:
        self._stopping = True
        self._awake.set()

    async def run(self) -> None:
        try:
            await self._repeat()
        finally:
            if self._close is not None:
                await self._close()

    async def _repeat(self) -> None:
        failures = 0
        while not self._stopping:
            self._awake.clear()
            try:
                pause = await self._tick()
                self.succeeded_at, failures = time.monotonic(), 0
                self.caught_up |= pause > 0
            except Exception as error:
                failures += 1
                self.errors += 1
                self.caught_up = True
                self.last_error = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
                pause = min(self._longest_pause, 0.1 * 2 ** min(failures, 10))
                self._log_failure(error, failures, pause)
            if pause > 0 and not self._stopping:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._awake.wait()
            elif pause <= 0:
                await asyncio.sleep(0)

    def _log_failure(self, error: Exception, failures: int, pause: float) -> None:
        if isinstance(error, StoreUnavailable):
            if failures == 1 or failures % 20 == 0:
                log.warning("%s: the store does not answer (%s); next try in %.1f s", self.name, error, pause)
        elif isinstance(error, SchemaNewer):
            # The worker ends because of it.
            if failures == 1:
                log.warning("%s: %s", self.name, error)
        else:
            log.exception("%s failed; next try in %.1f s", self.name, pause)


@dataclass(frozen=True, slots=True)
class BackgroundServices:
    """The timed work of one process, as it is handed to its worker."""

    promote: Service
    rescue: Service
    others: Sequence[Service] = ()
    """Schedules, housekeeping, alerts and webhooks, where this process does them."""

    @property
    def all(self) -> list[Service]:
        return [self.promote, self.rescue, *self.others]
