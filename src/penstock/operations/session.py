"""How an application speaks with its store: each call is written once, and held in either colour.

A call is a generator (a `Talk`) that yields plans for the store and gets their answers. It is named after the public
call that holds it, as errors name it so. Inside a job there is no store: what a job may ask for goes to its worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from penstock.config.store_address import Address, address_of
from penstock.domain.context import JobRequests
from penstock.domain.errors import Conflict, PenstockError
from penstock.domain.plan import Plan
from penstock.domain.ports.queue import Queue
from penstock.domain.ports.store import Doorbell, Store
from penstock.queues import adapter
from penstock.queues.adapter import GuardedQueue
from penstock.queues.database import DatabaseQueue
from penstock.storage import store_maker

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Let some seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class On:
    """Carry a plan out inside the caller's transaction."""

    connection: Any
    plan: Plan[Any]


@dataclass(frozen=True, slots=True)
class Errand:
    """Have the worker do it that runs this job."""

    call: Callable[[], Any]


Said = Plan[Any] | On | Pause | Errand
Talk = Generator[Said, Any, T]
"""A conversation with the store: plans and pauses in, their answers out."""


class Conversation:
    """An application's way to its store and its queue, or from inside a job to its worker."""

    def __init__(
        self,
        store: str | Store,
        *,
        migrate: bool,
        schema: str,
        pooler: bool,
        queue: Queue | str | None,
    ) -> None:
        self._make_store = store_maker(store, migrate=migrate, schema=schema, pooler=pooler)
        if isinstance(queue, str):
            adapter.check_name(queue)
        self.address: Address | None = address_of(store, migrate=migrate, schema=schema, pooler=pooler, queue=queue)
        """What another process needs to open the same store; None when a URL does not tell it."""
        self._queue = queue
        self._guard: GuardedQueue | None = None
        self._opened: Store | None = None
        self._made: dict[str, Any] = {}
        self._errands: JobRequests | None = None

    @property
    def store(self) -> Store:
        """The store, opened at its first use."""
        if self._errands is not None:
            raise not_inside_a_job("app.store")
        if self._opened is None:
            # Of several threads that come here first, one store wins. A lock might be held while the process forks.
            store: Store = self._made.setdefault("store", self._make_store())
            store.open()
            self._opened = store
        return self._opened

    @property
    def queue(self) -> Queue:
        """What tells workers of new jobs; the store itself, when none was given."""
        if self._queue is not None and not isinstance(self._queue, str):
            return self._queue
        if "queue" not in self._made:
            made = DatabaseQueue(self._bell) if self._queue is None else adapter.load(self._queue)
            self._made.setdefault("queue", made)
        queue: Queue = self._made["queue"]
        return queue

    @property
    def guarded_queue(self) -> Queue:
        """The same; an adapter that fails, or cannot be made, is a line in the log and no error for the caller."""
        if self._queue is None:
            return self.queue
        if self._guard is None:
            self._guard = GuardedQueue(lambda: self.queue)
        return self._guard

    @property
    def has_own_queue(self) -> bool:
        """Whether an adapter was given, so that messages go through it and not through the store."""
        return self._queue is not None

    def close(self) -> None:
        """Close the connections of this process; they open again when they are needed."""
        made, self._made, self._opened = self._made, {}, None
        for name in ("queue", "bell", "store"):
            # An adapter need not be able to close without an event loop.
            if callable(close := getattr(made.get(name), "close", None)):
                close()

    async def aclose(self) -> None:
        for name in ("queue", "bell", "store"):
            if name in self._made:
                await self._made[name].aclose()
        await asyncio.to_thread(self.close)

    def enter_job(self, errands: JobRequests) -> None:
        """From now on this process runs a job: calls go to its worker, from any thread, and never to the store."""
        self._errands = errands

    def leave_job(self) -> None:
        """The job has ended; calls go to the store again."""
        self._errands = None

    @property
    def _bell(self) -> Doorbell:
        if "bell" not in self._made:
            self._made.setdefault("bell", self.store.doorbell())
        bell: Doorbell = self._made["bell"]
        return bell

    def _ring(self) -> None:
        """Wake every worker: something is to be looked at that no message of the queue would tell all of them."""
        self._bell.ring()

    def _do(self, talk: Talk[T]) -> T:
        """Hold a conversation in the caller's thread."""
        try:
            step = next(talk)
            while True:
                try:
                    answer = self._answer(step, talk)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _ado(self, talk: Talk[T]) -> T:
        """Hold a conversation in the event loop."""
        if self._opened is None and self._errands is None:
            await asyncio.to_thread(lambda: self.store)
        try:
            step = next(talk)
            while True:
                try:
                    answer = await self._aanswer(step, talk)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _ado_in_thread(self, talk: Talk[T]) -> T:
        """Hold a conversation in the event loop whose own steps take long: those run in a thread."""
        if self._opened is None and self._errands is None:
            await asyncio.to_thread(lambda: self.store)
        move: Callable[[], Said] = partial(next, talk)
        while True:
            step = await asyncio.to_thread(_moved, move)
            if isinstance(step, StopIteration):
                return step.value  # type: ignore[no-any-return]
            try:
                answer = await self._aanswer(step, talk)
            except PenstockError as error:
                move = partial(talk.throw, error)
            else:
                move = partial(talk.send, answer)

    def _answer(self, step: Said, talk: Talk[Any]) -> Any:
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Errand):
            return step.call()
        self._refuse_inside_a_job(talk)
        if isinstance(step, Plan):
            return self.store.run(step)
        return self.store.run_on(step.connection, step.plan)

    async def _aanswer(self, step: Said, talk: Talk[Any]) -> Any:
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Errand):
            return await asyncio.to_thread(step.call)
        self._refuse_inside_a_job(talk)
        if isinstance(step, Plan):
            return await self.store.arun(step)
        return await self.store.arun_on(step.connection, step.plan)

    def _refuse_inside_a_job(self, talk: Talk[Any]) -> None:
        if self._errands is not None:
            name: str = talk.__name__  # type: ignore[attr-defined]
            raise not_inside_a_job(f"app.{name.lstrip('_')}")


def _moved(move: Callable[[], Said]) -> Said | StopIteration:
    """What a conversation says next, or its end, which no future can raise."""
    try:
        return move()
    except StopIteration as end:
        return end


def not_inside_a_job(call: str) -> Conflict:
    """The error for what needs the store, said inside a job."""
    return Conflict(
        f"{call} is not possible inside a job, which never opens the store.",
        hint="Inside a job there are enqueue, enqueue_many, get, read_job, wait_for, cancel_job, and what a JobHandle "
        "has of them; all without connection=.",
    )


def on(connection: Any, plan: Plan[Any]) -> Said:
    """A plan for the caller's connection, or for the store's own when there is none."""
    return plan if connection is None else On(connection, plan)
