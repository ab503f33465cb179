"""The zygote of a worker: there is always one, and nothing waits for one that has died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.core.outcome import Cause, Outcome
from penstock.engine import processes, zygote_process
from penstock.engine.attempt import Attempt
from penstock.engine.service import log
from penstock.engine.zygote_process import ZygoteProcess

_LOOK_SECONDS = 1.0


class Zygotes:
    """Runs attempts on the present zygote, and starts another one when it dies."""

    def __init__(
        self,
        first: ZygoteProcess,
        start: Callable[[], Awaitable[ZygoteProcess]],
        replaced: Callable[[], None],
        *,
        own_process: bool,
    ) -> None:
        self.present = first
        self._retiring: set[ZygoteProcess] = set()
        self._adopted = asyncio.Event()
        self._start = start
        self._replaced = replaced
        self._own_process = own_process
        self._strangers: set[int] = set()
        self._stopped: set[ZygoteProcess] = set()
        """Those that were found stopped at the last look."""
        self._earlier_forks = 0

    @property
    def forks(self) -> int:
        """How many children were asked for, of this zygote and those before it."""
        return self._earlier_forks + self.present.forks

    def open(self) -> None:
        """Look whose parent this process is: any other child that comes to it, but a zygote, is an orphan of a job."""
        if self._own_process:
            processes.adopt_orphans()
        self._strangers = set(processes.children(os.getpid()))

    async def run(self, attempt: Attempt) -> Outcome:
        """Run an attempt to its end; what one leaves behind whose zygote died is ended before anybody is told."""
        outcome = await attempt.run()
        if outcome.cause is Cause.LOST:
            await self._sweep()
        return outcome

    def trust(self, until: float) -> None:
        """Tell all that have attempts until when these may run; from any thread."""
        for zygote in (self.present, *list(self._retiring)):
            zygote.trust(until)

    def adopt(self, zygote: ZygoteProcess) -> None:
        """From now on attempts run on another zygote; the old one lives until its own have ended."""
        old, self.present = self.present, zygote
        self._earlier_forks += old.forks
        self._retiring.add(old)
        old.dead.add_done_callback(lambda _: self._retiring.discard(old))
        old.leave()
        self._adopted.set()

    async def keep(self) -> None:
        """Whenever the zygote dies, end what it leaves behind and start another one."""
        while True:
            self._adopted.clear()
            present, adopted = self.present, asyncio.ensure_future(self._adopted.wait())
            either: list[asyncio.Future[Any]] = [present.dead, adopted]
            while not (await asyncio.wait(either, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED))[0]:
                self._end_stopped()
            adopted.cancel()
            if present is not self.present:
                continue
            log.error("the zygote %d died; a new one is started", self.present.pid)
            await self._sweep()
            try:
                another = await self._start()
            except Exception:
                log.exception("no new zygote could be started")
                await asyncio.sleep(1)
                continue
            if present is not self.present:  # one was adopted meanwhile
                await another.close()
                continue
            self.present = another
            self._earlier_forks += present.forks
            self._replaced()

    async def close(self) -> None:
        for zygote in (self.present, *self._retiring):
            await zygote.close()

    def _end_stopped(self) -> None:
        """Kill zygotes that a signal has stopped: such a one forks nothing and ends no attempt that has to end.

        It must be found stopped twice: a signal for the whole worker reaches one process before the other.
        """
        stopped = {each for each in (self.present, *self._retiring) if processes.is_stopped(each.pid)}
        for zygote in stopped & self._stopped:
            log.error("the zygote %d was stopped by a signal; it is killed", zygote.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(zygote.pid, signal.SIGKILL)
        self._stopped = stopped

    async def _sweep(self) -> None:
        if self._own_process:
            await asyncio.to_thread(zygote_process.sweep, self._strangers)
