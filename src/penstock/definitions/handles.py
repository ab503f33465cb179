"""What users hold: a definition to call or enqueue, and a job to follow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from penstock.definitions.orders import PLAIN, EnqueueOptions, Order, OrderMaker
from penstock.definitions.phases import Step
from penstock.definitions.signature import KeyOf, Signature
from penstock.domain.context import Context
from penstock.domain.definition import Definition
from penstock.domain.errors import Conflict, JobFailed
from penstock.domain.instant import Duration
from penstock.domain.job import Created, Job
from penstock.domain.states import Status
from penstock.domain.why import Reason

if TYPE_CHECKING:
    from penstock.app import Penstock

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

PYTHON = "python"
"""Who did it, where somebody must be named and nobody was."""


@dataclass(frozen=True, slots=True)
class Code:
    """What only the code can tell of a definition."""

    function: Callable[..., Any]
    signature: Signature
    key_of: KeyOf | None
    steps: tuple[Step, ...]
    hooks: Mapping[str, Callable[..., Any]]
    retry_on: tuple[type[Exception], ...]
    fatal_on: tuple[type[Exception], ...]


class DefinitionHandle(Generic[P, R]):
    """A definition: call it to run the function here and now, enqueue it to have it done by a worker."""

    def __init__(
        self,
        app: Penstock,
        definition: Definition,
        code: Code,
        options: EnqueueOptions = PLAIN,
    ) -> None:
        functools.update_wrapper(self, code.function)
        self.function: Callable[P, R] = code.function
        self.definition = definition
        self.signature: Signature = code.signature
        self.steps: tuple[Step, ...] = code.steps
        """The functions of its phases, in order; a plain job has one, called `run`."""
        self.bare: Callable[[], Any] | None = _bare(code)
        """Its function, when a job without parameters is a call without arguments."""
        self.hooks: Mapping[str, Callable[..., Any]] = code.hooks
        self.retry_on: tuple[type[Exception], ...] = code.retry_on
        """Only these errors are tried again; empty: any."""
        self.fatal_on: tuple[type[Exception], ...] = code.fatal_on
        """These errors are never tried again."""
        self._app = app
        self._code = code
        self._options = options

    @property
    def key(self) -> str:
        return self.definition.key

    @property
    def schema(self) -> str:
        """The JSON Schema of the parameters, as text."""
        return self.signature.schema

    @functools.cached_property
    def _order_maker(self) -> OrderMaker:
        """What makes orders of it from parameters by name."""
        facts = self.definition
        return OrderMaker(facts.key, facts.version, self.signature.validator, facts.default_params, self._code.key_of)

    @functools.cached_property
    def _bare_order(self) -> Order:
        """The order without arguments, which is always the same."""
        return self._order_maker.order({}, self._options)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(
        self,
        *,
        run_at: datetime | None = None,
        delay: Duration = 0,
        priority: int | None = None,
        max_attempts: int | None = None,
        idempotency_key: str | None = None,
        unique: bool | str = False,
        concurrency_key: str | None = None,
        reference: tuple[str, str] | None = None,
        tags: Sequence[str] = (),
        webhook_url: str | None = None,
        parent_id: str | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        connection: Any = None,
    ) -> Self:
        """The same definition with options for the jobs that are created through it.

        `run_at` or `delay` make it due later. `idempotency_key`: the same key gives the same job back. `unique`: while
        a job with the same parameters (True) or the same text is active, that one is given back. `connection`: create
        it inside the transaction of this psycopg, SQLAlchemy or apsw connection. Options given in turn add up.
        """
        given = EnqueueOptions(
            run_at=run_at, delay=delay, priority=priority, max_attempts=max_attempts, idempotency_key=idempotency_key,
            unique=unique, concurrency_key=concurrency_key, reference=reference, tags=tags, webhook_url=webhook_url,
            parent_id=parent_id, traceparent=traceparent, tracestate=tracestate, connection=connection,
        )  # fmt: skip
        added = {each.name: value for each in fields(given) if (value := getattr(given, each.name)) is not each.default}
        return self._with_options(replace(self._options, **added))

    def _with_options(self, options: EnqueueOptions) -> Self:
        if options is self._options:
            return self
        return type(self)(self._app, self.definition, self._code, options)

    def order(self, /, *args: P.args, **kwargs: P.kwargs) -> Order:
        """One job for `app.enqueue_many([...])`; nothing is created yet."""
        return self._order_from(args, kwargs)

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Create a job; when this returns, it is committed and flushed."""
        return self._app.enqueue_many([self._order_from(args, kwargs)])[0]

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Create a job without blocking the event loop."""
        return (await self._app.aenqueue_many([self._order_from(args, kwargs)]))[0]

    def _order_from(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Order:
        """The order that a call with these arguments gives."""
        if not args and not kwargs and self._code.key_of is None:
            return self._bare_order
        return self._order_maker.order(self.signature.bind(args, kwargs), self._options)

    def __repr__(self) -> str:
        return f"<definition {self.key!r} version {self.definition.version}>"


class ContextDefinitionHandle(DefinitionHandle[P, R]):
    """A definition whose function takes the context first: a call gives it, a job gets it from the engine."""

    function: Callable[Concatenate[Context, P], R]  # type: ignore[assignment]

    def __call__(self, ctx: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        return self.function(ctx, *args, **kwargs)


class PipelineHandle(DefinitionHandle[P, R]):
    """A definition made of phases alone: there is no function that does all of it."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        raise Conflict(
            f"{self.key} is a pipeline of {len(self.steps)} phases and cannot be called.",
            hint="Enqueue it, or call its functions one by one.",
        )


class Definer(Protocol):
    """What `@app.job(...)` gives: it makes a function a definition."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> ContextDefinitionHandle[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> DefinitionHandle[P, R]: ...


class JobHandle(Generic[R]):
    """A job that can be followed; its `id` is all that an application needs to store."""

    def __init__(self, app: Penstock, created: Created, job: Job | None = None) -> None:
        self._app = app
        self._job = job
        self.id: str = created.job_id
        self.created: bool = created.created
        """Whether the call that gave this handle made the job, or found it."""
        self.status: Status = created.status
        """The status as it was last read; `refresh()` reads it anew."""

    @property
    def job(self) -> Job:
        """Everything that was last read of the job."""
        return self._job or self.refresh()

    def refresh(self) -> Job:
        """Read the job anew."""
        return self._keep(self._app.read_job(self.id))

    async def arefresh(self) -> Job:
        return self._keep(await self._app.aread_job(self.id))

    def wait(self, timeout: Duration | None = None) -> Job:
        """Wait until the job has ended, whatever the outcome; `WaitTimeout` when the time is over first."""
        return self._keep(self._app.wait_for(self.id, timeout))

    async def awaited(self, timeout: Duration | None = None) -> Job:
        return self._keep(await self._app.await_for(self.id, timeout))

    @overload
    def result(self: JobHandle[Coroutine[Any, Any, T]], timeout: Duration | None = None) -> T: ...
    @overload
    def result(self, timeout: Duration | None = None) -> R: ...
    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the job and give what its handler returned; `JobFailed` when it did not succeed."""
        return _result(self.wait(timeout))

    @overload
    async def aresult(self: JobHandle[Coroutine[Any, Any, T]], timeout: Duration | None = None) -> T: ...
    @overload
    async def aresult(self, timeout: Duration | None = None) -> R: ...
    async def aresult(self, timeout: Duration | None = None) -> Any:
        return _result(await self.awaited(timeout))

    def cancel(self) -> Status:
        """Ask for the job to be cancelled; the status it has now."""
        self.status = self._app.cancel_job(self.id)
        return self.status

    async def acancel(self) -> Status:
        self.status = await self._app.acancel_job(self.id)
        return self.status

    def retry(self, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None) -> Status:
        """Queue the job again after it failed or was cancelled; see `Penstock.retry_job`."""
        self.status = self._app.retry_job(self.id, from_phase=from_phase, fresh=fresh, by=by)
        return self.status

    async def aretry(self, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None) -> Status:
        self.status = await self._app.aretry_job(self.id, from_phase=from_phase, fresh=fresh, by=by)
        return self.status

    def rerun(self, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any) -> JobHandle[R]:
        """Create the same job once more, with other parameters if any are given; see `Penstock.rerun_job`."""
        return self._app.rerun_job(self.id, params, by=by, **options)

    async def arerun(
        self, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[R]:
        return await self._app.arerun_job(self.id, params, by=by, **options)

    def approve(self, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        """Say yes to the review that the job asked for; see `Penstock.approve_job`."""
        self.status = self._app.approve_job(self.id, by=by, note=note, result=result)
        return self.status

    async def aapprove(self, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        self.status = await self._app.aapprove_job(self.id, by=by, note=note, result=result)
        return self.status

    def reject(self, *, by: str = PYTHON, note: str | None = None) -> Status:
        """Say no to the review that the job asked for."""
        self.status = self._app.reject_job(self.id, by=by, note=note)
        return self.status

    async def areject(self, *, by: str = PYTHON, note: str | None = None) -> Status:
        self.status = await self._app.areject_job(self.id, by=by, note=note)
        return self.status

    def why(self) -> list[Reason]:
        """All that keeps the job from running, or else what it does now."""
        return self._app.why(self.id)

    async def awhy(self) -> list[Reason]:
        return await self._app.awhy(self.id)

    def _keep(self, job: Job) -> Job:
        self._job = job
        self.status = job.status
        return job

    def __repr__(self) -> str:
        return f"<job {self.id} {self.status}>"


def _bare(code: Code) -> Callable[[], Any] | None:
    only = code.steps[0]
    is_bare = len(code.steps) == 1 and not (only.takes_context or only.defaults or code.signature.required)
    return only.function if is_bare else None


def _result(job: Job) -> Any:
    """What the handler returned, as JSON has it: a tuple comes back as a list, a model as a dict."""
    ended = job.outcome or job.status
    if ended is not Status.SUCCEEDED:
        why = f": {job.error_type}: {job.error}" if job.error else "."
        raise JobFailed(
            f"Job {job.id} of {job.definition_key!r} ended as {ended}{why}", job_id=job.id, status=ended.value
        )
    return job.result
