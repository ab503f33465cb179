"""Penstock: the object that a user makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from penstock.config.store_address import Address
from penstock.definitions.decorator import Classes
from penstock.definitions.handles import ContextDefinitionHandle, Definer, DefinitionHandle
from penstock.definitions.phases import Named
from penstock.domain.context import Context, Errands
from penstock.domain.definition import RateLimit
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import Duration
from penstock.domain.job import Created, Job
from penstock.domain.ports.store import Queue, Store
from penstock.domain.retry import RetryPolicy
from penstock.operations import creation
from penstock.operations.connections import Connections
from penstock.operations.event_listeners import Listener
from penstock.operations.events import pattern
from penstock.operations.session import ApplicationSession, not_inside_a_job
from penstock.operations.table import OPERATIONS
from penstock.surface.audit import Audit
from penstock.surface.definitions import Definitions
from penstock.surface.enqueue_options import enqueue_options
from penstock.surface.events import Events
from penstock.surface.job_handle import JobHandle
from penstock.surface.jobs import Jobs
from penstock.surface.monitoring import Monitoring
from penstock.surface.orders import Order
from penstock.surface.schedules import Schedules
from penstock.surface.tokens import Tokens
from penstock.surface.webhooks import Webhooks
from penstock.surface.workers import Workers

if TYPE_CHECKING:
    from penstock.launch.embedded import EmbeddedWorker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

Hook = Callable[..., Any]


class Penstock:
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
        connections = Connections(store, migrate=migrate, schema=schema, pooler=pooler, queue=queue)
        self.session: ApplicationSession = ApplicationSession(connections, OPERATIONS)
        """Carries the operations of the groups out."""
        self.jobs: Jobs = Jobs(self.session)
        self.definitions: Definitions[DefinitionHandle[Any, Any]] = Definitions(self.session)
        self.schedules: Schedules = Schedules(self.session)
        self.workers: Workers = Workers(self.session)
        self.webhooks: Webhooks = Webhooks(self.session)
        self.tokens: Tokens = Tokens(self.session)
        self.events: Events = Events(self.session)
        self.monitoring: Monitoring = Monitoring(self.session)
        self.audit: Audit = Audit(self.session)

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
        retry_on: Classes = (),
        fatal_on: Classes = (),
        timeout: Duration | None = 3600,
        cancel_grace: Duration = 10,
        isolation: str = "process",
        phases: Sequence[Named] = (),
        concurrency: int = 0,
        concurrency_key: str | Callable[[Mapping[str, Any]], str | None] | None = None,
        key_concurrency: int | None = None,
        rate_limit: RateLimit | str | None = None,
        default_params: Mapping[str, Any] | None = None,
        secret: Sequence[str] = (),
        stale_after: Duration = 7 * 86_400,
        delete_after: Duration = 7 * 86_400,
        memory: int | str | None = None,
        cpu: Duration | None = None,
        files: int | None = None,
        file_size: int | str | None = None,
        processes: int | None = None,
        environment: Sequence[str] = (),
        secret_environment: Sequence[str] = (),
        reach: str = "own",
        log_level: str = "info",
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_fail: Hook | None = None,
        on_end: Hook | None = None,
        on_retry: Hook | None = None,
        on_cancel: Hook | None = None,
        on_stale: Hook | None = None,
        on_delete: Hook | None = None,
        schedule: str | Duration | datetime | None = None,
        timezone: str = "UTC",
        missed: str = "latest",
        missed_max: int = 100,
        missed_window: Duration | None = None,
        overlap: str = "allow",
        jitter: Duration = 0,
    ) -> Definer: ...

    @overload
    def job(self, key: Callable[P, R], /) -> DefinitionHandle[P, R]: ...

    def job(self, key: Any = None, /, **options: Any) -> Any:
        """Make a function a definition: `@app.job` or `@app.job("key", priority=15, …)`.

        The function stays callable; `.enqueue(...)` takes the same arguments and makes a job of them. The key defaults
        to module and function name. `concurrency` limits how many jobs run at once in the whole fleet;
        `concurrency_key` names a parameter (or computes a text from them), and at most `key_concurrency` (1) jobs of
        each value run at once. `rate_limit` is a `RateLimit` or a text such as `"10/s"`, `"100/m"`. `phases` are
        functions that run before this one, each once; they take any of its parameters, by name. `schedule` creates its
        jobs at times: a cron expression, a number of seconds, or a datetime; it takes the options of
        `app.schedules.declare`.
        """
        declare = self.session.declarations.job
        if key is not None and not isinstance(key, str):
            return declare(self, key, None, options)
        return lambda function: declare(self, function, key, options)

    def pipeline(self, key: str, /, *phases: Named, **options: Any) -> DefinitionHandle[..., Any]:
        """Make a definition of several functions that run one after the other, each a phase of its own.

        A phase is a function or a pair (name, function). The job's parameters are those of the first function, and the
        others take any of them by name. The options are those of `@app.job`.
        """
        return self.session.declarations.pipeline(self, key, phases, options)

    @overload
    def resource(self, name: str, factory: F) -> F: ...

    @overload
    def resource(self, name: str) -> Callable[[F], F]: ...

    def resource(self, name: str, factory: Any = None) -> Any:
        """Name something that handlers use, as `ctx.resources[name]`; also as a decorator: `@app.resource("db")`.

        The factory makes it at its first use in a process. Its value is closed when the process ends: a generator
        goes on after its one `yield`, a context manager is left, anything else with a `close()` is closed.
        """
        if factory is None:
            return lambda function: self.resource(name, function)
        self.session.declarations.resource(name, factory)
        return factory

    @property
    def resources(self) -> Mapping[str, Callable[[], Any]]:
        """The factories of the resources, by name."""
        return MappingProxyType(self.session.declarations.resources)

    def enqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        """Create a job of a definition that this process need not have; the options are those of `options()`."""
        chosen = enqueue_options(options)
        (created,) = self.session.hold(
            creation.enqueue(self.session, definition_key, params, definition_version, chosen)
        )
        return JobHandle(self.jobs, created)

    async def aenqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        chosen = enqueue_options(options)
        (created,) = await self.session.ahold(
            creation.enqueue(self.session, definition_key, params, definition_version, chosen)
        )
        return JobHandle(self.jobs, created)

    def enqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        """Create jobs from `handle.order(...)`, all or none, with one commit."""
        created = self.session.hold(creation.create(self.session, orders, connection))
        return [JobHandle(self.jobs, each) for each in created]

    async def aenqueue_many(self, orders: Sequence[Order], *, connection: Any = None) -> list[JobHandle[Any]]:
        created = await self.session.ahold(creation.create(self.session, orders, connection))
        return [JobHandle(self.jobs, each) for each in created]

    def get(self, job_id: str) -> JobHandle[Any]:
        """A job by its id; `NotFound` when there is none."""
        return _handle(self.jobs, self.jobs.read(job_id))

    async def aget(self, job_id: str) -> JobHandle[Any]:
        return _handle(self.jobs, await self.jobs.aread(job_id))

    def on(self, type: str, function: Listener) -> Callable[[], None]:
        """Have a function called with each event of a type from now on; call the returned function to end that.

        `"job.*"` means all types that begin so, `"*"` every type. The function is called in this process, in a thread
        of penstock's, whichever process caused the event. Its exceptions are logged. A forked child has no listeners
        until it calls `on` itself; `close()` ends all listening.
        """
        if self.session.errands is not None:
            raise not_inside_a_job("app.on")
        if not callable(function) or asyncio.iscoroutinefunction(function):
            raise InvalidInput(
                f"A listener is a plain function that takes an event, not {function!r:.80}.",
                hint="In an event loop, iterate over app.events.afollow().",
            )
        return self.session.listeners.add(pattern(type), function)

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

    @property
    def address(self) -> Address | None:
        """What another process needs to open the same store; None when no URL was given."""
        return self.session.connections.address

    @property
    def extras(self) -> Mapping[str, Any]:
        """Facts for a worker about this application, other than definitions and schedules."""
        return {}

    @property
    def store(self) -> Store:
        """The store, opened at its first use."""
        return self.session.store

    @property
    def queue(self) -> Queue:
        """The queue that carries job ids to workers; the store's own, when none was given."""
        return self.session.connections.queue

    @property
    def guarded_queue(self) -> Queue:
        """The same; an adapter that fails, or cannot be made, is a line in the log and no error for the caller."""
        return self.session.connections.guarded_queue

    @property
    def has_own_queue(self) -> bool:
        """Whether an adapter was given, so that messages go through it and not through the store."""
        return self.session.connections.has_own_queue

    def enter_job(self, errands: Errands) -> None:
        """From now on this process runs a job: calls go to its worker, from any thread, and never to the store."""
        self.session.errands = errands

    def leave_job(self) -> None:
        """The job has ended; calls go to the store again."""
        self.session.errands = None

    def close(self) -> None:
        """Close the connections of this process; they open again when they are needed."""
        self.session.close()

    async def aclose(self) -> None:
        await self.session.aclose()


def _handle(jobs: Jobs, job: Job) -> JobHandle[Any]:
    return JobHandle(jobs, Created(job.id, job.status, created=False), job)
