"""What an application defines: jobs, pipelines, and the resources that its handlers use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from penstock.definitions.decorator import Classes, declared, default_key
from penstock.definitions.handles import ContextDefinitionHandle, Definer, DefinitionHandle, PipelineHandle
from penstock.definitions.phases import Named, check_function
from penstock.definitions.schedule_options import declared_with_job
from penstock.domain.context import Context
from penstock.domain.definition import RateLimit, Routed, is_name
from penstock.domain.errors import InvalidDefinition
from penstock.domain.instant import Duration
from penstock.domain.retry import RetryPolicy
from penstock.domain.schedule.schedule import Schedule

if TYPE_CHECKING:
    from penstock.app import Penstock

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

Hook = Callable[..., Any]
Routes = dict[tuple[str, int], Routed]
"""Where jobs of each definition and version go, as far as the store has told."""


class Defining:
    """The definitions and resources of an application."""

    def __init__(self) -> None:
        self._definitions: dict[tuple[str, int], DefinitionHandle[Any, Any]] = {}
        self._resources: dict[str, Callable[[], Any]] = {}
        self._declared_schedules: dict[str, Schedule] = {}
        self._routes: Routes = {}

    @property
    def definitions(self) -> list[DefinitionHandle[Any, Any]]:
        """What this application has defined, in the order of definition."""
        return list(self._definitions.values())

    @property
    def extras(self) -> Mapping[str, Any]:
        """What a worker is told of this application beside its definitions and schedules."""
        return {}

    @property
    def resources(self) -> Mapping[str, Callable[[], Any]]:
        """The factories of the resources, by name."""
        return MappingProxyType(self._resources)

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
        functions that run before this one, each once; they take any of its parameters, by name. `schedule` makes it run
        by itself: a cron expression, a number of seconds, or a datetime; what else it takes is that of `app.schedule`.
        """
        if key is not None and not isinstance(key, str):
            return self._define(key, None, options)
        return lambda function: self._define(function, key, options)

    def pipeline(self, key: str, /, *phases: Named, **options: Any) -> DefinitionHandle[..., Any]:
        """Make a definition of several functions that run one after the other, each a phase of its own.

        A phase is a function or a pair (name, function). The job's parameters are those of the first function, and the
        others take any of them by name. The options are those of `@app.job`.
        """
        if not phases:
            raise InvalidDefinition(f"{key}: a pipeline needs at least one phase.")
        first = phases[0][1] if isinstance(phases[0], tuple) and len(phases[0]) == 2 else phases[0]
        facts = declared_with_job(key, options)
        definition, code = declared(key, check_function(first, f"{key}: a phase"), options, phases)
        return self._keep(PipelineHandle(self._app, definition, code), facts)

    @overload
    def resource(self, name: str, factory: F) -> F: ...

    @overload
    def resource(self, name: str) -> Callable[[F], F]: ...

    def resource(self, name: str, factory: Any = None) -> Any:
        """Name something that handlers use, as `ctx.resources[name]`; also as a decorator: `@app.resource("db")`.

        The factory makes it at its first use in a process. What it gives is closed when the process ends: a generator
        goes on after its one `yield`, a context manager is left, anything else with a `close()` is closed.
        """
        if factory is None:
            return lambda function: self.resource(name, function)
        _check_factory(name, factory)
        known = self._resources.get(name)
        if known is not None and not _same_function(known, factory):
            raise InvalidDefinition(
                f"Resource {name!r} is defined twice: by {_place(known)} and by {_place(factory)}.",
                hint="Give one of them another name.",
            )
        self._resources[name] = factory
        return factory

    def _define(self, function: Callable[..., Any], key: str | None, options: Mapping[str, Any]) -> Any:
        check_function(function, "@app.job")
        key = default_key(function) if key is None else key
        others = dict(options)
        facts = declared_with_job(key, others)
        definition, code = declared(key, function, others)
        kind = ContextDefinitionHandle if code.signature.takes_context else DefinitionHandle
        return self._keep(kind(self._app, definition, code), facts)

    def _keep(
        self, handle: DefinitionHandle[Any, Any], schedule: Mapping[str, Any] | None
    ) -> DefinitionHandle[Any, Any]:
        pair = handle.key, handle.definition.version
        known = self._definitions.get(pair)
        if known is not None and not _same_code(known, handle):
            raise InvalidDefinition(
                f"{pair[0]!r} version {pair[1]} is defined twice: by {_place(known.function)} and by "
                f"{_place(handle.function)}.",
                hint="Give one of them another key or version.",
            )
        self._definitions[pair] = handle
        self._routes.pop(pair, None)
        if schedule is not None:
            try:
                self._app.schedule(handle.key, handle, **schedule)
            except BaseException:
                del self._definitions[pair]
                if known is not None:
                    self._definitions[pair] = known
                raise
        return handle

    def _own_handle(self, key: object, version: int | None) -> DefinitionHandle[Any, Any] | None:
        """The newest version, or the one given, of a definition that this application has."""
        own = [number for name, number in self._definitions if name == key and version in (None, number)]
        return self._definitions[str(key), max(own)] if own else None

    @property
    def _app(self) -> Penstock:
        return cast("Penstock", self)


def _check_factory(name: object, factory: object) -> None:
    if not is_name(name):
        raise InvalidDefinition(f"{name!r:.80} cannot be the name of a resource.", hint="Use letters, digits and _.")
    if not callable(factory):
        raise InvalidDefinition(f"Resource {name!r} needs a function that makes it, not {factory!r:.80}.")
    if inspect.iscoroutinefunction(factory) or inspect.isasyncgenfunction(factory):
        raise InvalidDefinition(f"Resource {name!r} is made by an async def.", hint="Use a def.")
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return
    for each in parameters:
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise InvalidDefinition(
                f"Resource {name!r}: its factory is called without arguments, and needs {each.name!r}."
            )


def _same_code(one: DefinitionHandle[Any, Any], other: DefinitionHandle[Any, Any]) -> bool:
    pairs = list(zip(one.steps, other.steps, strict=False))
    return len(one.steps) == len(other.steps) and all(_same_function(a.function, b.function) for a, b in pairs)


def _same_function(one: Any, other: Any) -> bool:
    """Whether two functions are one in the source, as after a module was loaded twice."""
    if one is other:
        return True
    if not (hasattr(one, "__code__") and hasattr(other, "__code__")):
        return False
    named = "<lambda>" not in one.__qualname__
    if named and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__):
        return True
    first, second = one.__code__, other.__code__
    return (first.co_filename, first.co_firstlineno) == (second.co_filename, second.co_firstlineno)


def _place(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}" if hasattr(function, "__qualname__") else repr(function)
