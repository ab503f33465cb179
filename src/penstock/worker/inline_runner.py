"""Runs inline attempts one after the other in one task, for as long as none of them has to wait.

A task and a context for each attempt would cost more than most attempts do. So one task runs the jobs that have a slot,
each by a plain call. The first attempt that has to wait keeps the task, and the others continue in a new one. A new
task also begins after an attempt that has changed context variables, and after a while, so that the loop can do other
work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from penstock.domain.states import Trigger
from penstock.runtime import tracing
from penstock.runtime.log_lines import JOB
from penstock.runtime.processes import boot_time
from penstock.runtime.tasks import Tasks
from penstock.worker.inline import InlineAttempt
from penstock.worker.loaded_code import LoadedCode
from penstock.worker.pool import Pool
from penstock.worker.recorder import Recorder
from penstock.worker.settler import Ending, Settler

_SLICE = 0.005
"""Seconds for which one task runs attempts before the loop does other work."""

_SUCCEED = Trigger.SUCCEED
"""Looking it up takes longer than comparing with it."""

_MOST_AT_ONCE = 64
"""How many tasks are begun together where attempts do wait."""


class InlineRunner:
    """The tasks in which the attempts of a pool run."""

    def __init__(
        self,
        pool: Pool,
        tasks: Tasks,
        recorder: Recorder,
        settler: Settler,
        *,
        loaded: Callable[[], LoadedCode],
        finish: Callable[[InlineAttempt], Coroutine[Any, Any, None]],
        freed: Callable[[], None],
        trusted_until: Callable[[], float],
    ) -> None:
        """`finish` runs an attempt that has to wait to its ending; `freed` is called when there may be free slots.
        Nothing begins after `trusted_until`, by the boot clock."""
        self._pool = pool
        self._tasks = tasks
        self._recorder = recorder
        self._settler = settler
        self._loaded = loaded
        self._finish = finish
        self._freed = freed
        self._trusted_until = trusted_until
        self._clean = copy_context()
        """The context for new tasks: the context of a caller may be another."""
        self._present: InlineAttempt | None = None
        """The attempt whose first step runs now."""
        self._open: set[_Run] = set()
        self._at_once = 1
        self._begun = 0

    def runs_something(self) -> bool:
        """Whether attempts run in this process; from any thread."""
        return self._present is not None or bool(self._pool.running)

    def attempt_in(self, task: asyncio.Task[Any] | None) -> InlineAttempt | None:
        """The attempt that runs in a task; from any thread."""
        others = (each.attempt for each in list(self._open) if each.attempt is not None)
        return self._present or next((each for each in others if each.task is not None and each.task is task), None)

    def start_waiting(self) -> None:
        """Start tasks for the jobs that wait and have a slot."""
        if boot_time() >= self._trusted_until():
            # Giving up the lease returns the jobs that wait.
            return
        for _ in range(min(self._at_once, self._pool.startable) - self._begun):
            self._begun += 1
            self._tasks.add(self._run(), self._clean.copy())

    async def _run(self) -> None:
        task, run = asyncio.current_task(), _Run(self._trusted_until())
        asyncio.get_running_loop().call_soon(self._after_first_step, run)
        self._open.add(run)
        self._begun -= 1
        loaded = self._loaded()
        plain = () if tracing.on() else loaded.plain
        pool, now = self._pool, boot_time
        ended: list[Ending] = []
        try:
            while now() < run.until and (job := pool.next()) is not None:
                self._present = attempt = InlineAttempt(job, loaded, task)
                JOB.set(attempt)
                before = copy_context()
                if job.claimed.lane in plain and (ending := self._ending(attempt)) is not None:
                    ended.append(ending)
                else:
                    # Only from now on other attempts run next to it.
                    pool.running.add(job)
                    self._present = None
                    ended = self._hand_in(ended)
                    run.attempt = attempt
                    self._freed()
                    await self._finish(attempt)
                self._present = None
                if run.has_waited or not _is_unchanged(before):
                    break
        finally:
            self._present = None
            self._hand_in(ended)
            run.attempt = None
            self._open.discard(run)
            self._freed()
            self.start_waiting()

    def _ending(self, attempt: InlineAttempt) -> Ending | None:
        """Begin an attempt; its ending if it has succeeded without having waited for anything."""
        job = attempt.job
        if not job.started or job.claimed.fence > 1 or job.is_large:
            return None
        outcome = attempt.step()
        if outcome is None or outcome.trigger is not _SUCCEED:
            return None
        if self._recorder.busy and self._recorder.has_unwritten(job.held):
            return None
        return job.worker, job.settlement(outcome, 0.0), job

    def _hand_in(self, ended: list[Ending]) -> list[Ending]:
        """Hand endings to the settler; an empty list for the next ones."""
        if ended:
            self._settler.add(*ended)
        return []

    def _after_first_step(self, run: _Run) -> None:
        """The first step of a task is over: it has ended, or its attempt has to wait."""
        if run.attempt is None:
            self._at_once = 1
        else:
            run.has_waited = True
            run.attempt.wait()
            self._at_once = min(2 * self._at_once, _MOST_AT_ONCE)
            self.start_waiting()


class _Run:
    """One task, and the attempt that it runs."""

    __slots__ = ("attempt", "has_waited", "until")

    def __init__(self, trusted_until: float) -> None:
        self.until = min(boot_time() + _SLICE, trusted_until)
        self.attempt: InlineAttempt | None = None
        self.has_waited = False


def _is_unchanged(before: Context) -> bool:
    """Whether all context variables have the values from before the last attempt."""
    try:
        return copy_context() == before
    except Exception:
        # Values that cannot be compared count as changed.
        return False
