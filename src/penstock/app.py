"""Penstock: the object that a user makes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import JobHandle
from penstock.definitions.orders import EnqueueOptions, Order, OrderMaker
from penstock.definitions.schedule_options import tick_options
from penstock.definitions.signature import Validator, plain_text
from penstock.domain import payload
from penstock.domain.context import JobRequests
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.ids import IdSource
from penstock.domain.instant import Duration
from penstock.domain.job import Created, Draft, Job, UniformDrafts
from penstock.domain.ports.queue import Queue
from penstock.domain.ports.store import Store
from penstock.domain.schedule.schedule import Schedule
from penstock.operations.access import Access
from penstock.operations.alerts import Alerting
from penstock.operations.declared import Defining, Routes
from penstock.operations.definitions import Operating
from penstock.operations.event_listeners import Listeners
from penstock.operations.events import Following
from penstock.operations.job_changes import Control
from penstock.operations.schedules import Scheduling
from penstock.operations.session import Conversation, Errand, Talk, not_inside_a_job, on
from penstock.operations.webhooks import Webhooking
from penstock.operations.worker_config import Configuring
from penstock.runtime import tracing
from penstock.storage.commands import admin, jobs

if TYPE_CHECKING:
    from penstock.launch.embedded import EmbeddedWorker, WorkerOptions


class Penstock(Defining, Control, Operating, Following, Scheduling, Access, Configuring, Alerting, Webhooking):
    """Durable background jobs, kept in the store that the URL names.

    `sqlite:///file.db` is one file, `sqlite://` is memory, `postgresql://…` a PostgreSQL database; `migrate=True`
    brings a PostgreSQL schema up to date when the store is first used (a SQLite file always is). `queue` is an adapter
    that carries job ids to workers, best named by `module:name`, so that workers can make it too; without it the store
    does that.
    """

    def __init__(
        self,
        store: str | Store,
        *,
        migrate: bool = False,
        schema: str = "penstock",
        pooler: bool = False,
        queue: Queue | str | None = None,
    ) -> None:
        Defining.__init__(self)
        Control.__init__(self, store, migrate=migrate, schema=schema, pooler=pooler, queue=queue)
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
        self._listeners = Listeners(lambda: self.store)
        self._forget_what_was_read()

    def close(self) -> None:
        """Close the connections of this process; they open again when they are needed."""
        self._forget_what_was_read()
        super().close()

    def enqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        """Create a job of a definition that this process need not have; the options are those of `options()`."""
        return self._do(self._enqueue(definition_key, params, definition_version, options))

    async def aenqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        return await self._ado(self._enqueue(definition_key, params, definition_version, options))

    def enqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        """Create jobs from `handle.order(...)`, all or none, with one commit."""
        return self._do(self._enqueue_many(orders, connection))

    async def aenqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        return await self._ado(self._enqueue_many(orders, connection))

    def get(self, job_id: str) -> JobHandle[Any]:
        """A job by its id; `NotFound` when there is none."""
        return self._handle(self.read_job(job_id))

    async def aget(self, job_id: str) -> JobHandle[Any]:
        return self._handle(await self.aread_job(job_id))

    def consume(
        self, message: Any, *, within: Duration = 600, acknowledge: Callable[[], Any] | None = None
    ) -> Job | None:
        """Run the job that a message of the queue names, for hosts that are handed messages and have no worker.

        The job is claimed if it is ready, and runs in a process of its own, as in a worker. `acknowledge` is called as
        soon as the claim was committed or refused; without it, a message of this application's queue is acknowledged
        there. The job as it is afterwards; None for garbage, duplicates and jobs that are unknown or not ready.
        """
        return asyncio.run(self.aconsume(message, within=within, acknowledge=acknowledge))

    async def aconsume(
        self, message: Any, *, within: Duration = 600, acknowledge: Callable[[], Any] | None = None
    ) -> Job | None:
        # It starts a worker, for which this module is a part.
        consuming = import_module("penstock.launch.consume")
        found: Job | None = await consuming.consume(self, message, within=within, acknowledge=acknowledge)
        return found

    def worker(self, **settings: Unpack[WorkerOptions]) -> EmbeddedWorker:
        """A worker inside this program: `with app.worker():` runs it in a thread, `async with` in the event loop.

        It runs until the end of the block. The settings are those of `penstock worker`, with `_` for `-`: `slots=4`,
        `drain=60`, `user="nobody"`. What is not given is as `penstock.toml` and the environment say. The application
        must be a variable of a module or script, since the processes of its jobs load it from there.
        """
        # A worker needs modules that import this one.
        made: EmbeddedWorker = import_module("penstock.launch.embedded").EmbeddedWorker(self, settings)
        return made

    def rerun_job(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        """Create the same job once more, linked to the old one; `params` stand in front of the old parameters.

        Priority, attempts, reference, tags and webhook are the old job's, where the options do not say otherwise.
        """
        return self._do(self._rerun_job(job_id, params, by, options))

    async def arerun_job(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        return await self._ado(self._rerun_job(job_id, params, by, options))

    def register(self) -> dict[tuple[str, int], int]:
        """Make all definitions known to the store now, not with their first job; the lane of each."""
        return self._do(self._register())

    async def aregister(self) -> dict[tuple[str, int], int]:
        return await self._ado(self._register())

    def _enqueue(
        self, key: str, params: Mapping[str, Any] | None, version: int | None, options: Mapping[str, Any]
    ) -> Talk[JobHandle[Any]]:
        order = yield from self._order(key, params, version, given.enqueue_options(options))
        handles = yield from self._enqueue_many([order], None)
        return handles[0]

    def _enqueue_many(self, orders: Sequence[Order], connection: Any) -> Talk[list[JobHandle[Any]]]:
        created = yield from self._create(orders, connection)
        return [JobHandle(self, each) for each in created]

    def _rerun_job(
        self, job_id: str, params: Mapping[str, Any] | None, by: str | None, options: Mapping[str, Any]
    ) -> Talk[JobHandle[Any]]:
        if params is not None and not isinstance(params, Mapping):
            raise InvalidInput(f"Parameters must be a mapping by name, not {params!r:.80}.")
        job = yield from self._stored_job(job_id)
        chosen = given.enqueue_options({**given.as_before(job, same=not params), **options})
        old = job.params
        order = yield from self._order(job.definition_key, {**old, **(params or {})}, job.definition_version, chosen)
        (created,) = yield from self._create([order], rerun_of=job.id, actor=given.actor(by))
        return JobHandle(self, created)

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
        if self._errands is not None and self._own_handle(key, version) is None:
            text = plain_text(dict(params or {}), f"parameters of {key}")
            return Order(key, version or 0, text, options, checked=False)
        maker = yield from self._order_maker(key, version)
        return maker.order(params or {}, options)

    def _order_maker(self, key: str, version: int | None) -> Talk[OrderMaker]:
        """What makes orders of a definition: the code, or what the store knows of it."""
        own = self._own_handle(key, version)
        if own is not None:
            return own._order_maker
        row = yield from self._definition(key, version)
        definition = row.definition
        validator = self._validators.get((key, definition.schema))
        if validator is None:
            validator = Validator(key, definition.schema, definition.secret_fields)
            self._validators[key, definition.schema] = validator
        return OrderMaker(key, definition.version, validator, definition.default_params, definition.concurrency_key)

    def _schedule_order(self, schedule: Schedule, due: int | None) -> Talk[Order]:
        """The order for the job of a schedule that is due at an instant, or now."""
        params: Any = payload.load(schedule.params_text)
        options = tick_options(schedule, due)
        return (yield from self._order(schedule.definition_key, params, schedule.definition_version, options))

    def _create(self, orders: Sequence[Order], connection: Any = None, **facts: str | None) -> Talk[list[Created]]:
        """Create jobs and tell the workers, unless it is the caller's commit that makes the jobs."""
        if not orders:
            return []
        connection = _one_connection(orders, connection)
        first = orders[0].options
        seen = tracing.enqueue([order.key for order in orders], first.traceparent, first.tracestate)
        if seen is None:
            return (yield from self._create_unseen(orders, connection, facts))
        created: list[Created] = []
        try:
            traced = [order.below(seen.traceparent, seen.tracestate) for order in orders]
            created = yield from self._create_unseen(traced, connection, facts)
        except BaseException as error:
            seen.fail(error)
            raise
        finally:
            seen.end([each.job_id for each in created])
        return created

    def _create_unseen(
        self, orders: Sequence[Order], connection: Any, facts: Mapping[str, str | None]
    ) -> Talk[list[Created]]:
        if self._errands is not None:
            made: list[Created] = yield _errand(self._errands, orders, connection)
            return made
        if False in [order.checked for order in orders]:
            orders = yield from self._checked(orders)
        routes, register_on = self._routes, None
        if connection is not None and self.store.dialect == "sqlite":
            # There is one writer, and that is the caller now. What it registers it may still roll back.
            routes, register_on = dict(self._routes), connection
        yield from self._route(orders, routes, register_on)
        drafts = given.drafts(orders, routes, self._ids.many(len(orders)), **facts)
        self._check_webhooks(drafts)
        return (yield from self._keep_drafts(drafts, connection))

    def _drafts(self, orders: Sequence[Order], **facts: str | None) -> Talk[Sequence[Draft]]:
        """The drafts of checked orders, for whoever keeps those of several callers at once."""
        yield from self._route(orders, self._routes, None)
        drafts = given.drafts(orders, self._routes, self._ids.many(len(orders)), **facts)
        self._check_webhooks(drafts)
        return drafts

    def _keep_drafts(self, drafts: Sequence[Draft], connection: Any = None) -> Talk[list[Created]]:
        """Make jobs of drafts, all or none, and tell the workers."""
        created = yield from self._insert(drafts, connection)
        new = [each.job_id for each in created if each.created]
        if new and connection is None:
            self.guarded_queue.publish(new)
        return created

    def _checked(self, orders: Sequence[Order]) -> Talk[list[Order]]:
        """The orders, those included that came from where their definition was not known."""
        checked: list[Order] = []
        for order in orders:
            if not order.checked:
                params: Any = payload.load(order.params)
                order = yield from self._order(order.key, params, order.version or None, order.options)
            checked.append(order)
        return checked

    def _check_webhooks(self, drafts: Sequence[Draft]) -> None:
        """Refuse URLs that webhooks may not be sent to, by the rules for endpoints."""
        # Not `isinstance`, which asks the abstract base class and takes longer.
        urls = {drafts.first.webhook_url} if type(drafts) is UniformDrafts else {each.webhook_url for each in drafts}
        for url in urls:
            if url is not None:
                self.webhook_settings.check(url)

    def _create_for_job(self, orders: Sequence[Order]) -> Talk[list[Created]]:
        """Create the jobs of orders that come from code inside a job: what they call checked is checked again."""
        checked: list[Order] = []
        for order in orders:
            if order.checked:
                order = (yield from self._order_maker(order.key, order.version)).order_from_job(order)
            checked.append(order)
        return (yield from self._create(checked))

    def _register(self) -> Talk[dict[tuple[str, int], int]]:
        yield from self._register_on(list(self._definitions), self._routes, None)
        return {pair: self._routes[pair].lane for pair in self._definitions}

    def _route(self, orders: Sequence[Order], routes: Routes, register_on: Any) -> Talk[None]:
        """Learn where the jobs go; what this process has defined is registered on the way."""
        wanted = {(order.key, order.version) for order in orders} - routes.keys()
        if not wanted:
            return
        if wanted & self._definitions.keys():
            due = self._definitions.keys() - routes.keys() if register_on is None else wanted
            yield from self._register_on(due, routes, register_on)
        for key, version in sorted(wanted - routes.keys()):
            row = yield from self._definition(key, version)
            routes[key, version] = given.routed(row.lane, row.definition)

    def _register_on(self, due: Collection[tuple[str, int]], routes: Routes, connection: Any) -> Talk[None]:
        fresh = {pair: each for pair, each in self._definitions.items() if pair in due}
        full = [replace(each.definition, schema=each.schema) for each in fresh.values()]
        lanes = yield on(connection, admin.register(full))
        routes |= {pair: given.routed(lanes[pair], each.definition) for pair, each in fresh.items()}

    def _insert(self, drafts: Sequence[Draft], connection: Any) -> Talk[list[Created]]:
        try:
            created: list[Created] = yield on(connection, jobs.create(drafts))
        except NotFound as error:
            if connection is None or error.kind != "definition":
                raise
            raise Conflict(
                f"The transaction began before definition {error.name!r} was registered, and does not see it.",
                hint="Roll it back and begin anew.",
            ) from error
        return created

    def _handle(self, job: Job) -> JobHandle[Any]:
        return JobHandle(self, Created(job.id, job.status, created=False), job)

    @contextmanager
    def _on_store(self, store: Store) -> Iterator[None]:
        """Speak with another store for the time being; listeners hear of that one by hand."""
        names = ("_make_store", "_queue", "_made", "_opened")
        with self._listeners.by_hand():
            kept = {name: getattr(self, name) for name in names}
            self._make_store, self._queue, self._made, self._opened = lambda: store, None, {}, None
            self._forget_what_was_read()
            try:
                yield
            finally:
                Conversation.close(self)
                vars(self).update(kept)
                self._forget_what_was_read()

    def _forget_what_was_read(self) -> None:
        self._routes = {}
        self._rows = {}
        self._known_holders = {}
        self._validators: dict[tuple[str, str], Validator] = {}


def _one_connection(orders: Sequence[Order], connection: Any) -> Any:
    """The connection that all of the orders are to be created on, or None."""
    if set(map(type, orders)) != {Order}:
        stranger = next(each for each in orders if type(each) is not Order)
        raise InvalidInput(f"{stranger!r:.80} is no order.", hint="Make orders by handle.order(…).")
    for options in {id(order.options): order.options for order in orders}.values():
        wanted = options.connection
        if wanted is not None and connection is not None and wanted is not connection:
            raise InvalidInput("Orders for different connections cannot be created together.")
        connection = connection if wanted is None else wanted
    return connection


def _errand(errands: JobRequests, orders: Sequence[Order], connection: Any) -> Errand:
    """Have the worker create the jobs; what is wrong with the orders is said here, where they were written."""
    if connection is not None:
        raise not_inside_a_job("enqueue with connection=")
    for order in orders:
        given.check(order)
    return Errand(partial(errands.create, [order.to_json() for order in orders]))
