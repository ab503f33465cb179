"""Batching of concurrent single creates into one statement and one commit.

Callers that arrive mid-statement are batched into the next one. Only plans that wait for no lock are batched, so that
no caller waits for another's lock. When a batch is refused, each plan is carried out separately, so that the error
reaches its own caller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from penstock.domain.errors import StoreUnavailable
from penstock.domain.plan import Joint, Plan
from penstock.storage.interruption import Waker
from penstock.storage.write_queue import Task, WriteQueue

T = TypeVar("T")
Alone = Callable[[Plan[Any], int | None], Any]
"""Carries out one plan in the caller's thread."""
AloneAsync = Callable[[Plan[Any], int | None], Awaitable[Any]]
"""Carries out one plan without blocking the event loop."""

_MOST = 100
"""The most jobs in a batch: with the largest parameters they fit into a statement."""


class ThreadBatches(WriteQueue):
    """Batches the plans of a process's threads: one thread leads and carries out the batch of all that wait."""

    def run(self, plan: Plan[T], now: int | None, alone: Alone) -> T:
        """Carry out a plan that can be batched."""
        if not self.waiting and self.lock.acquire(blocking=False):
            try:
                return alone(plan, now)  # type: ignore[no-any-return]
            finally:
                self.lock.release()
                self.pass_on()
        task = Task(plan, now, turn=Waker())
        self.carry_out(task, lambda: self._lead(alone))
        return task.answer() if _is_served(task) else alone(plan, now)  # type: ignore[no-any-return]

    def _lead(self, alone: Alone) -> None:
        group = _taken(self.waiting)
        try:
            _share(group, alone(_joined(group), group[0].now))
        except Exception as error:
            _refuse(group, error)
        finally:
            for task in group:
                task.finish()


class TaskBatches:
    """Batches the plans of one event loop's tasks; a separate task serves the waiting ones."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._leads = False
        self._serving: asyncio.Task[None] | None = None

    async def run(self, plan: Plan[T], now: int | None, alone: AloneAsync) -> T:
        """Carry out a plan that can be batched."""
        if not self._leads:
            self._leads = True
            try:
                return await alone(plan, now)  # type: ignore[no-any-return]
            finally:
                self._pass_on(alone)
        task = Task(plan, now)
        future = asyncio.get_running_loop().create_future()
        task.wake = lambda: None if future.done() else future.set_result(None)
        self._waiting.append(task)
        try:
            await future
        except asyncio.CancelledError:
            # A task that has not begun is dropped.
            with suppress(ValueError):
                self._waiting.remove(task)
            raise
        return task.answer() if _is_served(task) else await alone(plan, now)  # type: ignore[no-any-return]

    def _pass_on(self, alone: AloneAsync) -> None:
        self._leads = bool(self._waiting)
        self._serving = asyncio.get_running_loop().create_task(self._serve(alone)) if self._leads else None

    async def _serve(self, alone: AloneAsync) -> None:
        group: list[Task] = []
        try:
            while self._waiting:
                group = _taken(self._waiting)
                try:
                    _share(group, await alone(_joined(group), group[0].now))
                except Exception as error:
                    _refuse(group, error)
                for task in group:
                    task.finish()
        finally:
            # Wake every caller, also after a cancellation.
            for task in (*group, *self._waiting):
                task.finish()
            self._waiting.clear()
            self._leads = False


def _taken(waiting: deque[Task]) -> list[Task]:
    """Return the tasks of the next batch: the first, and those after it with the same `now`."""
    group: list[Task] = []
    with suppress(IndexError):  # a caller has just left
        while len(group) < _MOST and (not group or waiting[0].now == group[0].now):
            group.append(waiting.popleft())
    return group


def _joined(group: list[Task]) -> Plan[Any]:
    """Return one plan for all tasks."""
    if len(group) == 1:
        return group[0].plan
    joints: list[Joint] = [task.plan.joint for task in group if task.plan.joint is not None]
    return joints[0].plan([each.item for each in joints])


def _share(group: list[Task], answers: list[Any]) -> None:
    for task, answer in zip(group, answers, strict=True):
        task.result = [answer]


def _refuse(group: list[Task], error: Exception) -> None:
    """Fail all tasks when the store is unavailable, or when there is only one; otherwise each is repeated alone."""
    if len(group) == 1 or isinstance(error, StoreUnavailable):
        for task in group:
            task.fail(error)


def _is_served(task: Task) -> bool:
    return task.result is not None or task.error is not None
