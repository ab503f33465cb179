"""Writes endings to the store, many at a time, and tries again until it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.domain.errors import StoreError
from penstock.domain.job import Held
from penstock.domain.outcome import Failure, Outcome, Settlement
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.domain.states import Trigger
from penstock.domain.worker import SettleReport
from penstock.runtime.log_lines import about
from penstock.runtime.service import log
from penstock.worker.claimed_job import ClaimedJob

_BATCH = 1000
"""More endings than this are written in two transactions at the same time, where the store can do that."""

_MOST_WAITING = 5 * _BATCH
_FEW = 16
_MOMENT = 0.005
_BUSY_MOMENT = 0.02
"""The same while one batch follows another, so that each holds more endings."""


Ending = tuple[str, Settlement, ClaimedJob | None]
"""Worker, settlement, and the claimed job, or None for a job that had not begun."""


class Settler:
    """Collects endings while others are being written, and reports those that are on record or were refused.

    An ending is refused when the attempt does not own its job any more."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        settled: Callable[[SettleReport, Sequence[Ending]], None],
        more_to_come: Callable[[], bool],
        awaited: Callable[[Coroutine[Any, Any, None]], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`awaited` gets a coroutine that ends when no ending waits."""
        self._store = store
        self._jobs = jobs
        self._settled = settled
        self._more_to_come = more_to_come
        self._awaited = awaited
        self._clock = clock
        self._at_once = 2 if store.dialect == "postgres" else 1
        self._waiting: list[Ending] = []
        self._settled_at = float("-inf")
        self._came = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, *endings: Ending) -> None:
        """Take endings of attempts."""
        if not self._waiting:
            self._empty.clear()
            self._awaited(self._empty_again())
            self._came.set()
        self._waiting += endings

    async def _empty_again(self) -> None:
        await self._empty.wait()

    async def tick(self) -> float:
        """Settle what waits; endings that the store did not take are tried again."""
        await self._came.wait()
        if self._more_to_come() and len(self._waiting) < _FEW:
            # A flush to disk costs more than a moment, and others may share it.
            busy = self._clock() - self._settled_at < _BUSY_MOMENT
            await asyncio.sleep(_BUSY_MOMENT if busy else _MOMENT)
        while self._waiting:
            await self._settle_some()
        self._settled_at = self._clock()
        self._came.clear()
        self._empty.set()
        return 0.0

    @property
    def held(self) -> list[Held]:
        """The attempts whose endings are not on record yet."""
        return [job.held for _, _, job in self._waiting if job is not None]

    @property
    def is_overloaded(self) -> bool:
        """Whether too many endings wait for more jobs to begin: all of them run again if this worker dies."""
        return len(self._waiting) > _MOST_WAITING

    def wake(self) -> None:
        """Wake a tick that waits for endings, so that it can stop."""
        self._came.set()

    async def _settle_some(self) -> None:
        worker = self._waiting[0][0]
        most = self._waiting[: _BATCH * self._at_once]
        taken = most[: next((place for place, each in enumerate(most) if each[0] != worker), len(most))]
        middle = len(taken) // 2 if len(taken) > _BATCH else len(taken)
        parts = [part for part in (taken[:middle], taken[middle:]) if part]
        reports = await asyncio.gather(
            *(self._apply(worker, [settlement for _, settlement, _ in part]) for part in parts), return_exceptions=True
        )
        failed: list[BaseException] = []
        left: list[Ending] = []
        for part, report in zip(parts, reports, strict=True):
            if isinstance(report, BaseException):
                left += part
                failed.append(report)
            else:
                self._settled(report, part)
        self._waiting[: len(taken)] = left
        if failed:
            raise failed[0]

    async def _apply(self, worker: str, settlements: list[Settlement]) -> SettleReport:
        try:
            return await self._store.arun(self._jobs.settle(worker, settlements))
        except StoreError:
            raise
        except Exception:
            if len(settlements) > 1:
                # A settlement that cannot be written must not hold up the others.
                reports = [await self._apply(worker, [each]) for each in settlements]
                return SettleReport(
                    [job for report in reports for job in report.applied],
                    [job for report in reports for job in report.repeated],
                    [held for report in reports for held in report.refused],
                )
            job_id = settlements[0].job_id
            log.exception("the ending of job %s cannot be written as it is", job_id, extra=about(job_id))
            return await self._store.arun(self._jobs.settle(worker, [_plainer(settlements[0])]))


def _plainer(settlement: Settlement) -> Settlement:
    """The same ending without the handler's result, which the database did not take."""
    outcome = settlement.outcome
    why = Failure("NotStored", "The result of the attempt could not be stored; the worker's log has the reason.")
    plain = Outcome(outcome.trigger, outcome.cause, failure=why if outcome.trigger is not Trigger.SUCCEED else None)
    return settlement._replace(outcome=plain)
