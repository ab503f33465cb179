"""The queue of callers for one writer: one caller leads, and carries out the plans of all that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from penstock.domain.plan import Plan
from penstock.storage.interruption import Waker


class WriteQueue:
    """Callers of one process in the order in which they came."""

    def __init__(self) -> None:
        self.lock: threading.Lock = threading.Lock()
        """Held by the leader."""
        self.waiting: deque[Task] = deque()

    def carry_out(self, task: Task, lead: Callable[[], None]) -> None:
        """Get a task done: by the current leader, or by `lead`, which does some of the waiting tasks."""
        self.waiting.append(task)
        try:
            while not task.done:
                with self.leading(wait=False) as leads:
                    # A group may be full, or fail, before it comes to this one.
                    while leads and not task.done:
                        lead()
                if not task.done:
                    task.await_turn()
        except BaseException:
            self.leave(task)
            raise

    @contextmanager
    def leading(self, *, wait: bool = True) -> Iterator[bool]:
        """Take the lead, and afterwards wake the next waiting caller; False when another caller leads and none
        waits."""
        if not self.lock.acquire(blocking=wait):
            yield False
            return
        try:
            yield True
        finally:
            self.lock.release()
            self.pass_on()

    def pass_on(self) -> None:
        """Wake a caller whose task still waits. A caller that arrives after this check finds the lock free."""
        for task in tuple(self.waiting):
            if task.turn is not None:
                task.turn.set()
                break

    def leave(self, task: Task) -> None:
        """A caller was interrupted: drop its task if it has not begun, and pass its turn on."""
        with suppress(ValueError):
            self.waiting.remove(task)
        self.pass_on()


class Task:
    """One plan that waits to be run, and then its answer."""

    __slots__ = ("done", "error", "now", "plan", "result", "turn", "wake")

    def __init__(self, plan: Plan[Any], now: int | None, turn: Waker | None = None) -> None:
        self.plan: Plan[Any] = plan
        self.now: int | None = now
        self.done: bool = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.turn: Waker | None = turn
        """Set when it is done, or when its thread shall try to lead."""
        self.wake: Callable[[], None] | None = None

    def await_turn(self) -> None:
        if self.turn is not None:
            self.turn.wait()

    def fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error

    def finish(self) -> None:
        self.done = True
        if self.turn is not None:
            self.turn.set()
        if self.wake is not None:
            self.wake()

    def answer(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result
