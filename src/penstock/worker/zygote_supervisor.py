"""The zygote of a worker: when it dies another one is started; jobs do not wait for one that cannot start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from penstock.domain.errors import PenstockError
from penstock.domain.outcome import Cause, Outcome
from penstock.domain.worker import LOAD, Duty
from penstock.isolation import zygote_process
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.runtime import processes
from penstock.runtime.service import log
from penstock.worker.attempt import Attempt

_LOOK_SECONDS = 1.0

_MOMENT = 1.0
"""How long jobs that are claimed may wait for another zygote."""

_SLOW = 10.0
"""A zygote that loads for longer counts as one that cannot be started, until it has loaded."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_SHORT_LIFE = 5.0
"""A second zygote in a row that lives for less is not replaced immediately."""

_LONGEST_PROBLEM = 300


class ZygoteSupervisor:
    """Runs attempts on the present zygote, and starts another one when it dies."""

    def __init__(
        self,
        first: ZygoteProcess,
        start: Callable[[], Awaitable[ZygoteProcess]],
        changed: Callable[[], None],
        *,
        own_process: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is called when a zygote is there again, when claimed jobs have waited for one long enough, and when
        it turns out that none can be started."""
        self.present: ZygoteProcess = first
        self.problem: str | None = None
        """Why there is no zygote, once it is known that there will be none for a while."""
        self.is_overdue: bool = False
        """Whether there has been no zygote for so long that claimed jobs should not wait for it."""
        self._errors = 0
        self._clock = clock
        self._began_at = self._died_at = clock()
        self._retiring: set[ZygoteProcess] = set()
        self._adopted = asyncio.Event()
        self._start = start
        self._changed = changed
        self._own_process = own_process
        self._strangers: set[int] = set()
        self._stopped: set[ZygoteProcess] = set()
        """The zygotes that were found stopped at the last look."""
        self._earlier_forks = 0

    @property
    def forks(self) -> int:
        """How many forks were requested from this zygote and the earlier ones."""
        return self._earlier_forks + self.present.forks

    @property
    def is_expected(self) -> bool:
        """Whether there is no zygote and probably will be one in a moment."""
        return not self.present.alive and self.problem is None

    def report(self) -> Duty:
        """Whether there is a zygote, as a duty; from any thread."""
        age = 0.0 if self.present.alive else self._clock() - self._died_at
        return Duty(LOAD, age, self._errors, self.problem)

    def open(self) -> None:
        """Note the children of this process: any later child that is not a zygote is an orphan of a job."""
        if self._own_process:
            processes.adopt_orphans()
        self._strangers = set(processes.children(os.getpid()))

    async def run(self, attempt: Attempt) -> Outcome:
        """Run an attempt to its end; when its zygote died, its processes are ended before the outcome is returned."""
        outcome = await attempt.run()
        if outcome.cause is Cause.LOST:
            await self._sweep()
        return outcome

    def trust(self, until: float) -> None:
        """Let all zygotes know until when attempts may run; from any thread."""
        for zygote in (self.present, *list(self._retiring)):
            zygote.trust(until)

    def adopt(self, zygote: ZygoteProcess) -> None:
        """Run attempts on another zygote from now on; the old one lives until its attempts have ended."""
        old = self.present
        self._retiring.add(old)
        old.dead.add_done_callback(lambda _: self._retiring.discard(old))
        old.leave()
        self._take(zygote)
        self._adopted.set()

    async def keep(self) -> None:
        """Whenever the zygote dies, end the processes that it had forked and start another one."""
        short_lives = 0
        while True:
            self._adopted.clear()
            present = self.present
            while not await self._until([present.dead], _LOOK_SECONDS):
                self._end_stopped()
            if present is not self.present:
                continue
            self._died_at = self._clock()
            short_lives = short_lives + 1 if self._died_at - self._began_at < _SHORT_LIFE else 0
            log.error("the zygote %d died; a new one is started", present.pid)
            await self._sweep()
            await self._replace(present, short_lives)

    async def close(self) -> None:
        for zygote in (self.present, *self._retiring):
            await zygote.close()

    def _end_stopped(self) -> None:
        """Kill zygotes that a signal has stopped: they neither fork nor end attempts.

        A zygote must be found stopped twice: a signal for the whole worker reaches its processes one after the other.
        """
        stopped = {each for each in (self.present, *self._retiring) if processes.is_stopped(each.pid)}
        for zygote in stopped & self._stopped:
            log.error("the zygote %d was stopped by a signal; it is killed", zygote.pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(zygote.pid, signal.SIGKILL)
        self._stopped = stopped

    async def _replace(self, dead: ZygoteProcess, short_lives: int) -> None:
        """Start zygotes until one has loaded, with pauses that get longer, or until one was adopted."""
        failures = max(0, short_lives - 1)
        if failures:
            self._note(f"{short_lives} zygotes in a row died shortly after they had loaded the application")
        while self.present is dead:
            if failures:
                await self._until([], min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures - 1, 10)))
                if self.present is not dead:
                    return
            try:
                another = await self._load()
            except Exception as error:
                failures += 1
                kind = "" if isinstance(error, PenstockError) else f"{type(error).__name__}: "
                self._note(f"{kind}{error}")
                continue
            if another is not None:
                self._take(another)
                self._changed()

    async def _load(self) -> ZygoteProcess | None:
        """Start a zygote; None when another one was adopted before it had loaded."""
        starting, is_wanted = asyncio.ensure_future(self._start()), False
        try:
            if not await self._until([starting], _MOMENT):
                self.is_overdue = True
                self._changed()
                if not await self._until([starting], _SLOW):
                    self._note(f"the application has been loading for more than {_SLOW:g} s")
                    await self._until([starting])
            is_wanted = not self._adopted.is_set()
        finally:
            if not is_wanted:
                await _abandon(starting)
        return starting.result() if is_wanted else None

    async def _until(self, either: Iterable[asyncio.Future[Any]], seconds: float | None = None) -> bool:
        """Wait for one of these, or until a zygote is adopted; False when the time is over first."""
        adopted = asyncio.ensure_future(self._adopted.wait())
        try:
            done, _ = await asyncio.wait([*either, adopted], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            adopted.cancel()
        return bool(done)

    def _take(self, zygote: ZygoteProcess) -> None:
        self._earlier_forks += self.present.forks
        self.present = zygote
        self._began_at = self._clock()
        self.is_overdue = False
        if self.problem is not None:
            self.problem = None
            log.info("zygote %d has the application loaded again", zygote.pid)

    def _note(self, problem: str) -> None:
        """Remember why there is no zygote, and log it if it is the first reason since there was one."""
        self._errors += 1
        if self.problem is None:
            log.error("no process jobs run until a zygote can be started: %s", problem)
        self.problem = (problem.splitlines() or [""])[0][:_LONGEST_PROBLEM]
        self.is_overdue = True
        self._changed()

    async def _sweep(self) -> None:
        if self._own_process:
            await asyncio.to_thread(zygote_process.sweep, self._strangers)


async def _abandon(starting: asyncio.Future[ZygoteProcess]) -> None:
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await starting.result().close()
