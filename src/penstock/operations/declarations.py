"""What an application declares in code: definitions, schedules, and the resources that its handlers use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.definitions.decorator import declared, default_key
from penstock.definitions.handles import ContextDefinitionHandle, DefinitionHandle, PipelineHandle
from penstock.definitions.phases import Named, check_function
from penstock.definitions.schedule_options import declared_with_job, naming, schedule_from
from penstock.domain.definition import is_name
from penstock.domain.errors import InvalidDefinition, InvalidSchedule
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.schedule import Schedule
from penstock.operations.memory import Memory
from penstock.surface.job_handle import Creator

OF_CODE = "code"
"""The owner of a schedule that code declares."""


class Declarations:
    """The definitions, schedules and resources of one application."""

    def __init__(self, memory: Memory) -> None:
        self.definitions: dict[tuple[str, int], DefinitionHandle[Any, Any]] = {}
        self.schedules: dict[str, Schedule] = {}
        self.resources: dict[str, Callable[[], Any]] = {}
        self._memory = memory

    def handle(self, key: object, version: int | None) -> DefinitionHandle[Any, Any] | None:
        """The newest version, or the one given, of a definition that this application has."""
        own = [number for name, number in self.definitions if name == key and version in (None, number)]
        return self.definitions[str(key), max(own)] if own else None

    def job(
        self, app: Creator, function: Callable[..., Any], key: str | None, options: Mapping[str, Any]
    ) -> DefinitionHandle[Any, Any]:
        """Make a function a definition."""
        check_function(function, "@app.job")
        key = default_key(function) if key is None else key
        others = dict(options)
        facts = declared_with_job(key, others)
        definition, code = declared(key, function, others)
        kind = ContextDefinitionHandle if code.signature.takes_context else DefinitionHandle
        return self._keep(kind(app, definition, code), facts)

    def pipeline(
        self, app: Creator, key: str, phases: Sequence[Named], options: dict[str, Any]
    ) -> DefinitionHandle[..., Any]:
        """Make several functions a definition whose phases they are."""
        if not phases:
            raise InvalidDefinition(f"{key}: a pipeline needs at least one phase.")
        first = phases[0][1] if isinstance(phases[0], tuple) and len(phases[0]) == 2 else phases[0]
        facts = declared_with_job(key, options)
        definition, code = declared(key, check_function(first, f"{key}: a phase"), options, phases)
        return self._keep(PipelineHandle(app, definition, code), facts)

    def resource(self, name: str, factory: Callable[[], Any]) -> None:
        """Keep the factory of a resource under its name."""
        _check_factory(name, factory)
        known = self.resources.get(name)
        if known is not None and not _same_function(known, factory):
            raise InvalidDefinition(
                f"Resource {name!r} is defined twice: by {_place(known)} and by {_place(factory)}.",
                hint="Give one of them another name.",
            )
        self.resources[name] = factory

    def schedule(self, key: str, definition: object, facts: Mapping[str, Any]) -> Schedule:
        """Keep a schedule that code declares."""
        made = replace(schedule_from(key, definition, facts), owner=OF_CODE)
        version = facts.get("definition_version")
        handle = definition if isinstance(definition, DefinitionHandle) else self.handle(definition, version)
        if handle is not None:
            with naming(key):
                order = handle._order_from((), dict(facts.get("params") or {}))
            own_key = made.concurrency_key or order.options.concurrency_key
            made = replace(made, params_text=order.params, concurrency_key=own_key)
        due_ticks.check(made)
        known = self.schedules.get(key)
        if known is not None and known != made:
            raise InvalidSchedule(f"Schedule {key!r} is declared twice.", hint="Give one of them another key.")
        self.schedules[key] = made
        return made

    def _keep(
        self, handle: DefinitionHandle[Any, Any], schedule: Mapping[str, Any] | None
    ) -> DefinitionHandle[Any, Any]:
        pair = handle.key, handle.definition.version
        known = self.definitions.get(pair)
        if known is not None and not _same_code(known, handle):
            raise InvalidDefinition(
                f"{pair[0]!r} version {pair[1]} is defined twice: by {_place(known.function)} and by "
                f"{_place(handle.function)}.",
                hint="Give one of them another key or version.",
            )
        self.definitions[pair] = handle
        self._memory.routes.pop(pair, None)
        if schedule is not None:
            try:
                self.schedule(handle.key, handle, schedule)
            except BaseException:
                del self.definitions[pair]
                if known is not None:
                    self.definitions[pair] = known
                raise
        return handle


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
