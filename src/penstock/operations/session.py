"""How an application carries operations out on its store: each one is written once, and runs in either colour.

An operation is carried out by a generator (a `Talk`) that yields plans for the store and gets their answers. Inside a
job there is no store: the operations that a job may ask for go to its worker.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from penstock.domain.context import Errands
from penstock.domain.errors import Conflict, PenstockError
from penstock.domain.ids import IdSource
from penstock.domain.plan import Plan
from penstock.domain.ports.store import Store
from penstock.domain.webhook.settings import WebhookSettings
from penstock.operations.connections import Connections
from penstock.operations.declarations import Declarations
from penstock.operations.event_listeners import Listeners
from penstock.operations.memory import Memory
from penstock.surface.session import Operation

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
Carrier = Callable[["ApplicationSession", Any], Talk[Any]]
"""Carries one kind of operation out."""


class ApplicationSession:
    """Carries operations out on an application's store, or from inside a job by its worker."""

    def __init__(self, connections: Connections, carriers: Mapping[type[Operation[Any]], Carrier]) -> None:
        self.connections: Connections = connections
        self.memory: Memory = Memory()
        self.declarations: Declarations = Declarations(self.memory)
        self.webhook_settings: WebhookSettings = WebhookSettings()
        self.errands: Errands | None = None
        """Inside a job, the way to its worker."""
        self.ids: IdSource = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
        self.listeners: Listeners = Listeners(lambda: self.store)
        self._carriers = carriers

    @property
    def store(self) -> Store:
        """The store, opened at its first use; there is none inside a job."""
        if self.errands is not None:
            raise not_inside_a_job("app.store")
        opened = self.connections.opened
        return self.connections.store if opened is None else opened

    def do(self, operation: Operation[T]) -> T:
        """Carry an operation out in the caller's thread."""
        talk: Talk[T] = self._carriers[type(operation)](self, operation)
        return self.hold(talk, operation.call)

    async def ado(self, operation: Operation[T]) -> T:
        """Carry an operation out in the event loop."""
        talk: Talk[T] = self._carriers[type(operation)](self, operation)
        return await self.ahold(talk, operation.call)

    def hold(self, talk: Talk[T], call: str = "store") -> T:
        """Hold a conversation in the caller's thread; errors name it by the public call that it is held for."""
        try:
            step = next(talk)
            while True:
                try:
                    answer = self._answer(step, call)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def ahold(self, talk: Talk[T], call: str = "store") -> T:
        """Hold a conversation in the event loop."""
        await self._open()
        try:
            step = next(talk)
            while True:
                try:
                    answer = await self._aanswer(step, call)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def ahold_in_thread(self, talk: Talk[T], call: str = "store") -> T:
        """Hold a conversation in the event loop whose own steps take long: those run in a thread."""
        await self._open()
        move: Callable[[], Said] = partial(next, talk)
        while True:
            step = await asyncio.to_thread(_moved, move)
            if isinstance(step, StopIteration):
                return step.value  # type: ignore[no-any-return]
            try:
                answer = await self._aanswer(step, call)
            except PenstockError as error:
                move = partial(talk.throw, error)
            else:
                move = partial(talk.send, answer)

    def close(self) -> None:
        """Close the connections of this process; they open again when they are needed."""
        self.memory.forget()
        self.listeners.stop()
        self.connections.close()

    async def aclose(self) -> None:
        # Before the store is closed: a listener that reads from it would open it again.
        await asyncio.to_thread(self.listeners.stop)
        await self.connections.aclose()
        self.memory.forget()

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Use another store for the time being; listeners are called by hand meanwhile."""
        with self.listeners.by_hand():
            self.memory.forget()
            try:
                with self.connections.replaced_by(store):
                    yield
            finally:
                self.memory.forget()

    async def _open(self) -> None:
        if self.connections.opened is None and self.errands is None:
            await asyncio.to_thread(lambda: self.store)

    def _answer(self, step: Said, call: str) -> Any:
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Errand):
            return step.call()
        if self.errands is not None:
            raise not_inside_a_job(f"app.{call}")
        if isinstance(step, Plan):
            return self.store.run(step)
        return self.store.run_on(step.connection, step.plan)

    async def _aanswer(self, step: Said, call: str) -> Any:
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Errand):
            return await asyncio.to_thread(step.call)
        if self.errands is not None:
            raise not_inside_a_job(f"app.{call}")
        if isinstance(step, Plan):
            return await self.store.arun(step)
        return await self.store.arun_on(step.connection, step.plan)


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
        hint="Inside a job there are enqueue, enqueue_many, get, jobs.read, jobs.wait, jobs.cancel, and what a "
        "JobHandle has of them; all without connection=.",
    )


def on(connection: Any, plan: Plan[Any]) -> Said:
    """A plan for the caller's connection, or for the store's own when there is none."""
    return plan if connection is None else On(connection, plan)
