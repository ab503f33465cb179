"""Penstock: the object that a user makes."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from penstock import options as given
from penstock.core.context import Context
from penstock.core.definition import DefinitionRow, RateLimit, Routed
from penstock.core.errors import Conflict, InvalidDefinition, InvalidInput, NotFound, PenstockError, WaitTimeout
from penstock.core.ids import IdSource
from penstock.core.instant import Duration, microseconds
from penstock.core.job import Created, Draft, Job, Page
from penstock.core.plan import Plan
from penstock.core.ports import Queue, Store
from penstock.core.retry import RetryPolicy
from penstock.core.transitions import Status
from penstock.handles import ContextDefinitionHandle, Definer, DefinitionHandle, EnqueueOptions, JobHandle, Order
from penstock.queues.database import DatabaseQueue
from penstock.signature import Validator, concurrency_key
from penstock.stores import store_maker
from penstock.stores.verbs import admin, control, jobs

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_FIRST_LOOK = 0.02
_LONGEST_LOOK = 0.5
_PAGE = 200
_DEFINE = "Write @app.job above a def or an async def."
_FRESH = 1.0
"""For so many seconds a definition that only the store knows is not read again."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """In a conversation: let some seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class _On:
    """In a conversation: carry a plan out inside the caller's transaction."""

    connection: Any
    plan: Plan[Any]


_Step = Plan[Any] | _On | _Pause
Talk = Generator[_Step, Any, T]
"""A conversation with the store: plans and pauses in, their answers out. It is held in either colour."""

Routes = dict[tuple[str, int], Routed]


class Penstock:
    """Durable background jobs, kept in the store that the URL names.

    `sqlite:///file.db` is one file, `sqlite://` is memory, `postgresql://…` a PostgreSQL database; `migrate=True`
    brings a PostgreSQL schema up to date when the store is first used (a SQLite file always is).
    """

    def __init__(
        self,
        store: str | Store,
        *,
        migrate: bool = False,
        schema: str = "penstock",
        pooler: bool = False,
        queue: Queue | None = None,
    ) -> None:
        self._make_store = store_maker(store, migrate=migrate, schema=schema, pooler=pooler)
        self._queue = queue
        self._definitions: dict[tuple[str, int], DefinitionHandle[Any, Any]] = {}
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
        self._opened: Store | None = None
        self._made: dict[str, Any] = {}
        self._forget_what_was_read()

    @property
    def store(self) -> Store:
        """The store, opened at its first use."""
        if self._opened is None:
            # Of several threads that come here first, one store wins. A lock might be held while the process forks.
            store: Store = self._made.setdefault("store", self._make_store())
            store.open()
            self._opened = store
        return self._opened

    @property
    def queue(self) -> Queue:
        """What tells workers of new jobs; the store itself, when none was given."""
        if self._queue is not None:
            return self._queue
        if "queue" not in self._made:
            self._made.setdefault("queue", DatabaseQueue(self.store.doorbell()))
        queue: Queue = self._made["queue"]
        return queue

    def close(self) -> None:
        """Close the connections of this process; they open again when they are needed."""
        made, self._made, self._opened = self._made, {}, None
        self._forget_what_was_read()
        for name in ("queue", "store"):
            if name in made:
                made[name].close()

    async def aclose(self) -> None:
        for name in ("queue", "store"):
            if name in self._made:
                await self._made[name].aclose()
        await asyncio.to_thread(self.close)

    @property
    def definitions(self) -> list[DefinitionHandle[Any, Any]]:
        """What this application has defined, in the order of definition."""
        return list(self._definitions.values())

    @overload
    def job(self, key: Callable[Concatenate[Context, P], R], /) -> ContextDefinitionHandle[P, R]: ...

    @overload
    def job(
        self,
        key: str | None = None,
        /,
        *,
        version: int = 1,
        description: str | None = None,
        priority: int = 10,
        max_attempts: int = 3,
        backoff: float | Sequence[float] | RetryPolicy | None = None,
        timeout: Duration | None = 3600,
        cancel_grace: Duration = 10,
        isolation: str = "process",
        concurrency: int = 0,
        concurrency_key: str | Callable[[Mapping[str, Any]], str | None] | None = None,
        key_concurrency: int | None = None,
        rate_limit: RateLimit | str | None = None,
        default_params: Mapping[str, Any] | None = None,
        secret: Sequence[str] = (),
        stale_after: Duration = 7 * 86_400,
        delete_after: Duration = 7 * 86_400,
    ) -> Definer: ...

    @overload
    def job(self, key: Callable[P, R], /) -> DefinitionHandle[P, R]: ...

    def job(self, key: Any = None, /, **options: Any) -> Any:
        """Make a function a definition: `@app.job` or `@app.job("key", priority=15, …)`.

        The function stays callable; `.enqueue(...)` takes the same arguments and makes a job of them. The key defaults
        to module and function name. `concurrency` limits how many jobs run at once in the whole fleet;
        `concurrency_key` names a parameter (or computes a text from them), and at most `key_concurrency` (1) jobs of
        each value run at once. `rate_limit` is a `RateLimit` or a text such as `"10/s"`, `"100/m"`.
        """
        if key is not None and not isinstance(key, str):
            return self._define(key, None, options)
        return lambda function: self._define(function, key, options)

    def enqueue(
        self, key: str, params: Mapping[str, Any] | None = None, *, version: int | None = None, **options: Any
    ) -> JobHandle[Any]:
        """Create a job of a definition that this process need not have; the options are those of `options()`."""
        order = self._do(self._order(key, params, version, given.enqueue_options(options)))
        return self.enqueue_many([order])[0]

    async def aenqueue(
        self, key: str, params: Mapping[str, Any] | None = None, *, version: int | None = None, **options: Any
    ) -> JobHandle[Any]:
        order = await self._ado(self._order(key, params, version, given.enqueue_options(options)))
        return (await self.aenqueue_many([order]))[0]

    def enqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        """Create jobs from `handle.order(...)`, all or none, with one commit."""
        return self._do(self._create(orders, connection))

    async def aenqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        return await self._ado(self._create(orders, connection))

    def get(self, job_id: str) -> JobHandle[Any]:
        """A job by its id; `NotFound` when there is none."""
        return self._handle(self.read_job(job_id))

    async def aget(self, job_id: str) -> JobHandle[Any]:
        return self._handle(await self.aread_job(job_id))

    def jobs(self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any) -> Page:
        """One page of jobs; the filters are the fields of `JobFilter`, such as `status=["failed"]` or `tag="x"`."""
        return self._do(self._list(which, limit, sort, cursor))

    async def ajobs(
        self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any
    ) -> Page:
        return await self._ado(self._list(which, limit, sort, cursor))

    def iter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> Iterator[Job]:
        """All jobs that the filters speak of, page after page."""
        page = self.jobs(limit=_PAGE, sort=sort, **which)
        yield from page.jobs
        while page.cursor is not None:
            page = self.jobs(limit=_PAGE, sort=sort, cursor=page.cursor, **which)
            yield from page.jobs

    async def aiter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> AsyncIterator[Job]:
        page = await self.ajobs(limit=_PAGE, sort=sort, **which)
        for job in page.jobs:
            yield job
        while page.cursor is not None:
            page = await self.ajobs(limit=_PAGE, sort=sort, cursor=page.cursor, **which)
            for job in page.jobs:
                yield job

    def read_job(self, job_id: str) -> Job:
        """What is known of a job now."""
        return self._do(self._read(job_id))

    async def aread_job(self, job_id: str) -> Job:
        return await self._ado(self._read(job_id))

    def wait_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended."""
        return self._do(self._wait(job_id, timeout))

    async def await_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        return await self._ado(self._wait(job_id, timeout))

    def cancel_job(self, job_id: str, *, by: str | None = None) -> Status:
        """Ask for a job to be cancelled; the status it has now."""
        return self._do(self._cancel(job_id, by))

    async def acancel_job(self, job_id: str, *, by: str | None = None) -> Status:
        return await self._ado(self._cancel(job_id, by))

    def _define(self, function: Callable[..., Any], key: str | None, options: Mapping[str, Any]) -> Any:
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise InvalidDefinition(f"@app.job needs a function, not {function!r:.80}.", hint=_DEFINE)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidDefinition(f"{function.__qualname__} is a generator; a job must return one result.")
        key = given.default_key(function) if key is None else key
        definition, signature, key_of = given.definition_from(key, function, options)
        pair = key, definition.version
        known = self._definitions.get(pair)
        if known is not None and not _same_function(known.function, function):
            raise InvalidDefinition(
                f"{key!r} version {definition.version} is defined twice: by {_place(known.function)} and by "
                f"{_place(function)}.",
                hint="Give one of them another key or version.",
            )
        kind = ContextDefinitionHandle if signature.takes_context else DefinitionHandle
        handle: DefinitionHandle[Any, Any] = kind(self, function, definition, signature, key_of)
        self._definitions[pair] = handle
        self._routes.pop(pair, None)
        return handle

    def _order(
        self, key: str, params: Mapping[str, Any] | None, version: int | None, options: EnqueueOptions
    ) -> Talk[Order]:
        """An order by name: checked by the code, or by what the store knows of the definition."""
        if not isinstance(key, str) or not isinstance(version, int | None):
            raise InvalidInput(
                f"A definition is named by a text and an integer, not by {key!r:.80} and {version!r:.80}."
            )
        if params is not None and not isinstance(params, Mapping):
            raise InvalidInput(f"Parameters of {key!r} must be a mapping by name, not {params!r:.80}.")
        own = [number for name, number in self._definitions if name == key and version in (None, number)]
        if own:
            return self._definitions[key, max(own)]._with_options(options)._order_from((), params or {})
        row = yield from self._definition(key, version)
        definition = row.definition
        validator = self._validators.get(definition.schema)
        if validator is None:
            validator = Validator(key, definition.schema, definition.secret_fields)
            self._validators[definition.schema] = validator
        text = validator.text(params or {}, definition.default_params)
        if options.concurrency_key is None and definition.concurrency_key is not None:
            if not definition.concurrency_key:
                raise InvalidInput(
                    f"Only the code of {key!r} can tell the concurrency key of its jobs, and it is not here.",
                    hint="Give the key: concurrency_key=…",
                )
            own_key = concurrency_key(text, definition.concurrency_key, validator)
            options = replace(options, concurrency_key=own_key)
        return Order(key, definition.version, text, options)

    def _create(self, orders: Sequence[Order], connection: Any) -> Talk[list[JobHandle[Any]]]:
        if not orders:
            return []
        connection = _one_connection(orders, connection)
        routes, register_on = self._routes, None
        if connection is not None and self.store.dialect == "sqlite":
            # There is one writer, and that is the caller now. What it registers it may still roll back.
            routes, register_on = dict(self._routes), connection
        yield from self._route(orders, routes, register_on)
        drafts = [
            given.draft(order, routes[order.key, order.version], job_id)
            for order, job_id in zip(orders, self._ids.many(len(orders)), strict=True)
        ]
        return self._told((yield from self._insert(drafts, connection)), connection)

    def _route(self, orders: Sequence[Order], routes: Routes, register_on: Any) -> Talk[None]:
        """Learn where the jobs go; what this process has defined is registered on the way."""
        wanted = {(order.key, order.version) for order in orders} - routes.keys()
        if wanted & self._definitions.keys():
            due = self._definitions.keys() - routes.keys() if register_on is None else wanted
            fresh = {pair: each for pair, each in self._definitions.items() if pair in due}
            full = [replace(each.definition, schema=each.schema) for each in fresh.values()]
            lanes = yield _on(register_on, admin.register(full))
            routes |= {pair: given.routed(lanes[pair], each.definition) for pair, each in fresh.items()}
        for key, version in sorted(wanted - routes.keys()):
            row = yield from self._definition(key, version)
            routes[key, version] = given.routed(row.lane, row.definition)

    def _definition(self, key: str, version: int | None) -> Talk[DefinitionRow]:
        """A definition as the store has it, read not long ago."""
        read_at, row = self._rows.get((key, version), (0.0, None))
        if row is None or time.monotonic() - read_at > _FRESH:
            row = yield admin.definition(key, version)
            self._rows[key, version] = time.monotonic(), row
        return row

    def _insert(self, drafts: Sequence[Draft], connection: Any) -> Talk[list[Created]]:
        try:
            created: list[Created] = yield _on(connection, jobs.create(drafts))
        except NotFound as error:
            if connection is None or error.kind != "definition":
                raise
            raise Conflict(
                f"The transaction began before definition {error.name!r} was registered, and does not see it.",
                hint="Roll it back and begin anew.",
            ) from error
        return created

    def _told(self, created: Sequence[Created], connection: Any) -> list[JobHandle[Any]]:
        """Tell the workers, unless it is the caller's commit that makes the jobs."""
        new = [each.job_id for each in created if each.created]
        if new and connection is None:
            self.queue.publish(new)
        return [JobHandle(self, each) for each in created]

    def _read(self, job_id: str) -> Talk[Job]:
        found: list[Job] = yield admin.get([given.job_id(job_id)])
        if not found:
            raise NotFound("job", job_id, hint="It never was, or retention has removed it.")
        return found[0]

    def _wait(self, job_id: str, timeout: Duration | None) -> Talk[Job]:
        seconds = None if timeout is None else microseconds(timeout, "timeout") / 1e6
        end = None if seconds is None else time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            job = yield from self._read(job_id)
            if job.status.terminal:
                return job
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                raise WaitTimeout(
                    f"Job {job.id} is still {job.status} after {seconds:g} s.", hint="It goes on; wait again."
                )
            yield _Pause(min(pause, left))
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _cancel(self, job_id: str, by: str | None) -> Talk[Status]:
        asked = given.job_id(job_id)
        statuses: dict[str, Status] = yield control.cancel([asked], by=by)
        if asked not in statuses:
            raise NotFound("job", asked, hint="It never was, or retention has removed it.")
        return statuses[asked]

    def _list(self, which: Mapping[str, Any], limit: int, sort: str, cursor: str | None) -> Talk[Page]:
        chosen = given.job_filter(which)
        page: Page = yield admin.page(chosen, limit=given.integer(limit, "limit"), sort=sort, cursor=cursor)
        return page

    def _handle(self, job: Job) -> JobHandle[Any]:
        return JobHandle(self, Created(job.id, job.status, created=False), job)

    def _do(self, talk: Talk[T]) -> T:
        """Hold a conversation in the caller's thread."""
        try:
            step = next(talk)
            while True:
                try:
                    answer = self._answer(step)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _ado(self, talk: Talk[T]) -> T:
        """Hold a conversation in the event loop."""
        if self._opened is None:
            await asyncio.to_thread(lambda: self.store)
        try:
            step = next(talk)
            while True:
                try:
                    answer = await self._aanswer(step)
                except PenstockError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, step: _Step) -> Any:
        if isinstance(step, _Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Plan):
            return self.store.run(step)
        return self.store.run_on(step.connection, step.plan)

    async def _aanswer(self, step: _Step) -> Any:
        if isinstance(step, _Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Plan):
            return await self.store.arun(step)
        return await self.store.arun_on(step.connection, step.plan)

    def _forget_what_was_read(self) -> None:
        self._routes: Routes = {}
        self._rows: dict[tuple[str, int | None], tuple[float, DefinitionRow]] = {}
        self._validators: dict[str, Validator] = {}


def _on(connection: Any, plan: Plan[Any]) -> _Step:
    return plan if connection is None else _On(connection, plan)


def _one_connection(orders: Sequence[Order], connection: Any) -> Any:
    """The connection that all of the orders are to be created on, or None."""
    for order in orders:
        if not isinstance(order, Order):
            raise InvalidInput(f"{order!r:.80} is no order.", hint="Make orders by handle.order(…).")
        wanted = order.options.connection
        if wanted is not None and connection is not None and wanted is not connection:
            raise InvalidInput("Orders for different connections cannot be created together.")
        connection = connection if wanted is None else wanted
    return connection


def _same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions are one in the source, as after a module was loaded twice."""
    if (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__):
        return True
    first, second = one.__code__, other.__code__
    return (first.co_filename, first.co_firstlineno) == (second.co_filename, second.co_firstlineno)


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
