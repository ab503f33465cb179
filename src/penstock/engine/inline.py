"""An attempt inside of the worker's own loop: fast, for trusted coroutines. What kills it is the end of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from penstock.core.errors import LeaseLost
from penstock.core.job import Created, Job
from penstock.core.outcome import Cause, Failure, Outcome
from penstock.core.transitions import Status, Trigger
from penstock.engine import running
from penstock.engine.attempt import Stop
from penstock.engine.context import AttemptContext
from penstock.engine.holding import Holding
from penstock.engine.loaded import Loaded
from penstock.engine.records import JobRecords
from penstock.engine.task import Task

RECORDS = JobRecords()


def take_records() -> None:
    """From now on what inline attempts log is kept with them, and only then seen by others, without secrets."""
    root = logging.getLogger()
    if RECORDS not in root.handlers:
        root.handlers.insert(0, RECORDS)


class InlineAttempt:
    """Runs one coroutine handler in the loop, as a part of the task that calls it."""

    def __init__(self, holding: Holding, loaded: Loaded) -> None:
        if loaded.inline is None:
            raise RuntimeError("inline definitions were loaded without an application")
        self.holding = holding
        self.held = holding.held
        self._handle = loaded.handle(holding.definition)
        self._app = loaded.inline
        self._resources = loaded.resources
        self._stop: Stop | None = None
        self._work: asyncio.Task[Any] | None = None
        self._ctx: AttemptContext | None = None

    async def run(self) -> Outcome:
        """Run the attempt to its end; what came of it."""
        holding = self.holding
        try:
            task = holding.first_task() if holding.claimed.fence == 1 else await holding.task()
        except LeaseLost:
            return Outcome(Trigger.RELEASE, Cause.RELEASED)
        if self._stop is not None:
            return self._stopped()
        reporter = DirectReporter(holding)
        self._ctx = AttemptContext(task, self._app, reporter, self._resources, len(self._handle.steps))
        outcome = await self._run_handler(task, self._ctx, reporter)
        if self._stop is None or (outcome.cause is not Cause.CANCELLED and self._stop is not Stop.TIMEOUT):
            return holding.without_secrets(outcome)
        return self._stopped()

    async def _run_handler(self, task: Task, ctx: AttemptContext, reporter: DirectReporter) -> Outcome:
        """Run it as a part of the present task, which a stop cancels for as long."""
        definition, here = self.holding.definition, asyncio.current_task()
        timer = None
        if definition.timeout is not None:
            timer = asyncio.get_running_loop().call_later(
                definition.timeout / 1e6, lambda: self.stop(Stop.TIMEOUT, definition.cancel_grace / 1e6)
            )
        self._work = here
        RECORDS.attach_here(reporter, ctx, self.holding)
        try:
            return await running.arun(self._handle, task, ctx, reporter)
        finally:
            RECORDS.leave_here()
            self._work = None
            if timer is not None:
                timer.cancel()
            while here is not None and here.cancelling():
                # Meant for the handler: what comes after it goes on.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
                here.uncancel()

    def stop(self, why: Stop, grace: float) -> None:
        """Cancel the task; one that does not listen goes on, and only the worker's end ends it."""
        if self._stop is None:
            self._stop = why
            if self._ctx is not None:
                self._ctx.stop()
            if self._work is not None:
                self._work.cancel()

    def kill(self, why: Stop, detail: str = "") -> None:
        """All that can be done is to ask once more."""
        if self._stop is None:
            self.stop(why, 0)
        elif self._work is not None:
            self._work.cancel()

    def _stopped(self) -> Outcome:
        match self._stop:
            case Stop.CANCEL:
                return _failed(
                    Cause.CANCELLED, "Cancelled", "The job was cancelled; the attempt stopped when asked to."
                )
            case Stop.TIMEOUT:
                seconds = (self.holding.definition.timeout or 0) / 1e6
                return _failed(Cause.TIMED_OUT, "Timeout", f"The attempt took longer than {seconds:g} s.")
            case _:
                return Outcome(Trigger.RELEASE, Cause.RELEASED)


class DirectReporter:
    """Keeps what an inline attempt says."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding

    def progress(self, percent: float, message: str | None, phase: str) -> None:
        self._holding.progress(percent, message, phase)

    def log(self, level: str, message: str, details: str | None, phase: str | None) -> None:
        self._holding.log(level, message, details, phase)

    def event(self, kind: str, data: str | None) -> None:
        self._holding.event(kind, data)

    def phase_running(self, name: str, position: int) -> None:
        self._holding.enter_phase(name, position)

    def phase_done(self, name: str, position: int, result: str) -> Awaitable[str]:
        return self._holding.keep_phase(name, position, result)

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        return self._holding.errands.create(orders)

    def read(self, job_id: str) -> Job:
        return self._holding.errands.read(job_id)

    def cancel(self, job_id: str) -> Status:
        return self._holding.errands.cancel(job_id)


def _failed(cause: Cause, kind: str, text: str) -> Outcome:
    return Outcome(Trigger.FAIL, cause, failure=Failure(kind, text, fingerprint=f"penstock-{kind}"))
