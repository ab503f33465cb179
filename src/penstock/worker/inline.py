"""An attempt inside the worker's own loop: fast, for trusted coroutines. Only the end of the worker can kill it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.domain.attempt import Task
from penstock.domain.errors import LeaseLost
from penstock.domain.job import Created, Job
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Failure, Outcome
from penstock.domain.secrets.policy import Scrubber
from penstock.domain.states import Status, Trigger
from penstock.execution import handler_run
from penstock.execution.context import AttemptContext
from penstock.execution.log_capture import Inline, JobRecords
from penstock.worker.attempt import Stop
from penstock.worker.claimed_job import ClaimedJob, is_long
from penstock.worker.loaded_code import LoadedCode

RECORDS = JobRecords()


def keep_records() -> None:
    """Keep what inline attempts log with their jobs; other handlers then get it without secrets."""
    root = logging.getLogger()
    if RECORDS not in root.handlers:
        root.handlers.insert(0, RECORDS)


class InlineAttempt(Inline):
    """Runs one coroutine handler in the loop, as a part of the task that calls it."""

    # Most attempts never need these; those that do set them.
    _begun: Outcome | Awaitable[Any] | None = None
    """The result of its first step, when that was taken: its outcome, or what is to be awaited."""
    _stop: Stop | None = None
    _work: asyncio.Task[None] | None = None
    _waits = False
    _timed: float | None = None
    _ctx: AttemptContext | None = None
    _reporter: DirectReporter | None = None

    def __init__(self, job: ClaimedJob, loaded: LoadedCode, task: asyncio.Task[None] | None) -> None:
        """`task`: the one that calls it."""
        self.job = job
        self.task = task
        self._loaded = loaded
        self._handle = loaded.handles[job.claimed.lane]

    @property
    def job_id(self) -> str:
        return self.job.claimed.job_id

    @property
    def key(self) -> str:
        """The key of its definition."""
        return self.job.definition.key

    @property
    def over(self) -> bool:
        return self.task is None

    @property
    def reporter(self) -> DirectReporter:
        if self._reporter is None:
            self._reporter = DirectReporter(self.job)
        return self._reporter

    @property
    def phase(self) -> str:
        return self._handle.steps[0].name if self._ctx is None else self._ctx.phase

    @property
    def secrets(self) -> Scrubber:
        return self.job.secrets

    def step(self) -> Outcome | None:
        """Begin a plain attempt; its outcome if it never had to wait, else None, and `run` continues it."""
        here = self.task
        self._begun = outcome = handler_run.step_plain(self._handle, self.job.claimed.params, self._context)
        if not isinstance(outcome, Outcome) or here is None or here.cancelling():
            return None
        if outcome is not RETURNED_NOTHING and is_long(outcome):
            return None
        self.task = None
        if outcome is RETURNED_NOTHING:
            return outcome
        try:
            return self.job.without_secrets(outcome)
        except Exception:
            # The same happens in `run`, which reports it.
            return None

    async def run(self) -> Outcome:
        """Run the attempt to its end and return its outcome."""
        job, handle = self.job, self._handle
        task = None
        if self._begun is None and not handler_run.is_plain(handle, job.claimed.fence):
            try:
                task = await job.task()
            except LeaseLost:
                return Outcome(Trigger.RELEASE, Cause.RELEASED)
        elif self._begun is None:
            await job.find_secrets()
        if self._stop is not None:
            return self._stopped()
        here = self._work = self.task
        if self._waits:
            self._begin_time()
        try:
            if self._begun is not None:
                outcome = await handler_run.finish_plain(handle, self._begun)
            elif task is None:
                outcome = await handler_run.arun_plain(handle, job.claimed.params, self._context)
            else:
                outcome = await handler_run.arun(handle, task, self._context(task), self.reporter)
        finally:
            # The task's context knows this attempt: were it known here as well, only the collector could free both.
            self.task = self._work = None
            if self._timed is not None:
                self._loaded.timeouts.end(self, self._timed)
            while here is not None and here.cancelling():
                # The cancellation was meant for the handler, not for the code after it.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
                here.uncancel()
        if self._stop is None and outcome.cause is Cause.CANCELLED:
            # Nothing had asked it to stop: the handler has raised that itself.
            outcome = replace(outcome, cause=Cause.RAISED)
        if self._stop is None or (outcome.cause is not Cause.CANCELLED and self._stop is not Stop.TIMEOUT):
            return await job.cleaned(outcome)
        return self._stopped()

    def _context(self, task: Task | None = None) -> AttemptContext:
        """The context for a handler that takes one."""
        loaded, steps = self._loaded, self._handle.steps
        if loaded.inline is None:
            raise RuntimeError("inline definitions were loaded without an application")
        known = task or self.job.first_task()
        self._ctx = AttemptContext(known, loaded.inline, self.reporter, loaded.resources, len(steps))
        self._ctx.phase = steps[0].name
        return self._ctx

    def wait(self) -> None:
        """The attempt has to wait for something: its timeout begins to matter."""
        self._waits = True
        if self._work is not None:
            self._begin_time()

    def _begin_time(self) -> None:
        if self.job.definition.timeout is not None:
            self._timed = self.job.definition.timeout / 1e6
            self._loaded.timeouts.begin(self, self._timed)

    def time_out(self) -> None:
        self.stop(Stop.TIMEOUT, self.job.definition.cancel_grace / 1e6)

    def stop(self, why: Stop, grace: float) -> None:
        """Cancel the task; only the end of the worker ends one that ignores it."""
        if self._stop is None:
            self._stop = why
            if self._ctx is not None:
                self._ctx.stop()
            if self._work is not None:
                self._work.cancel()

    def kill(self, why: Stop, detail: str = "") -> None:
        """Cancel the task once more; nothing else is possible."""
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
                seconds = (self.job.definition.timeout or 0) / 1e6
                return _failed(Cause.TIMED_OUT, "Timeout", f"The attempt took longer than {seconds:g} s.")
            case _:
                return Outcome(Trigger.RELEASE, Cause.RELEASED)


class DirectReporter:
    """Records the progress, logs, events and phases of an inline attempt."""

    def __init__(self, job: ClaimedJob) -> None:
        self._holding = job

    def progress(self, percent: float, message: str | None, phase: str) -> None:
        self._holding.progress(percent, message, phase)

    def log(
        self, level: str, message: str, details: str | None, phase: str | None, *, duration: int | None = None
    ) -> None:
        self._holding.log(level, message, details, phase, duration=duration)

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
