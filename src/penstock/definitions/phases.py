"""The functions of a job, one for each phase."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.definitions.signature import Signature
from penstock.domain.definition import is_name
from penstock.domain.errors import InvalidDefinition

ONLY = "run"
"""The phase of a job without phases."""

_DEFINE = "Write @app.job above a def or an async def."

Named = Callable[..., Any] | tuple[str, Callable[..., Any]]
"""A phase in user code: a function, which gives its name, or a pair (name, function)."""


@dataclass(frozen=True, slots=True)
class Step:
    """The function of one phase, and the job parameters that it takes."""

    name: str
    function: Callable[..., Any]
    takes_context: bool
    names: tuple[str, ...]
    open_ended: bool
    """Whether it takes any parameters, with `**`."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the job's parameters, so that all phases get the same values."""

    def call(self, ctx: Any, arguments: Mapping[str, Any]) -> Any:
        """Call the function with the arguments that it takes; an `async def` returns the coroutine."""
        if not arguments and not self.defaults:
            return self.function(ctx) if self.takes_context else self.function()
        known = {**self.defaults, **arguments}
        taken = known if self.open_ended else {name: known[name] for name in self.names if name in known}
        return self.function(ctx, **taken) if self.takes_context else self.function(**taken)


def plain_step(function: Callable[..., Any], signature: Signature, name: str = ONLY) -> Step:
    """Return the step of a function whose parameters are the job's."""
    return Step(name, function, signature.takes_context, tuple(signature.names), signature.open_ended)


def steps_from(key: str, phases: Sequence[Named], whole: Signature) -> tuple[Step, ...]:
    """Return the steps of phases, validated against the job's parameters."""
    steps = tuple(_step(key, name, function, whole) for name, function in (_named(key, each) for each in phases))
    names = [each.name for each in steps]
    for name in names:
        if names.count(name) > 1:
            raise InvalidDefinition(
                f"{key}: two phases are called {name!r}.", hint="Give one another name: (name, function)."
            )
    return steps


def check_function(function: object, what: str) -> Callable[..., Any]:
    """Return the function of a job; it must return one result."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise InvalidDefinition(f"{what} needs a function, not {function!r:.80}.", hint=_DEFINE)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidDefinition(f"{function.__qualname__} is a generator; a job must return one result.")
    return function


def check_inline(key: str, steps: Sequence[Step]) -> None:
    """Refuse functions that would block the worker's event loop."""
    for step in steps:
        if not inspect.iscoroutinefunction(step.function):
            raise InvalidDefinition(
                f"{key}: isolation='inline' needs an async def, and {step.function.__qualname__} is none.",
                hint="Make it one, or leave isolation out.",
            )


def _named(key: str, phase: Named) -> tuple[str, Callable[..., Any]]:
    name, given = phase if isinstance(phase, tuple) and len(phase) == 2 else (None, phase)
    function = check_function(given, f"{key}: a phase")
    name = function.__name__ if name is None else name
    if not is_name(name):
        raise InvalidDefinition(
            f"{key}: {name!r:.80} cannot be the name of a phase.", hint="Give a name: (name, function)."
        )
    return name, function


def _step(key: str, name: str, function: Callable[..., Any], whole: Signature) -> Step:
    own = Signature(function, f"{key}: phase {name!r}")
    if not whole.open_ended:
        for each in own.names:
            if each not in whole.names:
                raise InvalidDefinition(
                    f"{key}: phase {name!r} takes {each!r}, which is no parameter of the job.",
                    hint=f"Its parameters: {', '.join(whole.names) or 'none'}.",
                )
    taken = whole.names if own.open_ended else own.names
    defaults = {each: whole.defaults[each] for each in taken if each in whole.defaults}
    return Step(name, function, own.takes_context, tuple(own.names), own.open_ended, defaults)
