"""A definition as code holds it: to call, or to enqueue."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from penstock.definitions.order_maker import OrderMaker
from penstock.definitions.phases import Step
from penstock.definitions.signature import KeyOf, Signature
from penstock.domain.context import Context
from penstock.domain.definition import Definition
from penstock.domain.errors import Conflict
from penstock.domain.instant import Duration
from penstock.surface.job_handle import Creator, JobHandle
from penstock.surface.orders import PLAIN, EnqueueOptions, Order

P = ParamSpec("P")
R = TypeVar("R")


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
        app: Creator,
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


def _bare(code: Code) -> Callable[[], Any] | None:
    only = code.steps[0]
    is_bare = len(code.steps) == 1 and not (only.takes_context or only.defaults or code.signature.required)
    return only.function if is_bare else None
