"""Plans: what a store verb wants done, without doing it.

A verb is written once, as a generator that yields `Statement`s and gets rows back. It knows nothing of
connections, threads or event loops; a store runs it in one transaction, from the caller's thread or in an
event loop, on its own connection or on the caller's. A plan can be started again from the beginning, which
is how serialization failures are retried.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast

T = TypeVar("T")
P = ParamSpec("P")

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement of the store's `.sql` files with its values."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] | None = None
    """Many rows at once, as columns of equal length; an empty one beside others holds nothing in any row."""
    alone: bool = False
    """The first of a plan, and most often the only one: it is a transaction of its own, and what follows another."""
    parts: tuple[str, ...] = ()
    """Names of the conditions to be filled in, for statements that are put together (lists)."""
    order: str = ""
    then: Plan[Any] | None = None
    """A plan that follows from it and must delay no other caller. It answers with a plan to try again, or None.

    A store with one writer carries it out in the same transaction. Others use a transaction after the commit, whose
    failure is harmless because a duty repeats it; on a connection that the caller brings they leave it to the duty."""


Steps = Generator[Statement, Rows, T]


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A verb with its arguments, ready to be run by a store, as often as needed."""

    name: str
    steps: Callable[[], Steps[T]]
    writes: bool
    repeatable: bool
    """Run again after an answer that was lost, it does no harm and answers the same."""
    joint: Joint | None = None
    """How it can be carried out together with others; None: only by itself."""


class Joint(NamedTuple):
    """A plan that stands for one item of a list, and answers with a list of one."""

    item: Any
    plan: Callable[[Sequence[Any]], Plan[list[Any]]]
    """One plan for many items, which answers in their order."""


def reads(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a verb that only reads."""
    return _verb(verb, writes=False, repeatable=True)


def writes(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a verb that changes the store and may be repeated."""
    return _verb(verb, writes=True, repeatable=True)


def writes_once(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a verb that changes the store and must not be repeated blindly."""
    return _verb(verb, writes=True, repeatable=False)


def writes_jointly(fits: Callable[[Any], bool]) -> Callable[[Callable[P, Steps[T]]], Callable[P, Plan[T]]]:
    """The same for a verb that takes a list and answers with one: a single item may be joined to others if it fits."""

    def make(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
        plain: Any = writes(verb)

        @wraps(verb)
        def plan(*args: P.args, **kwargs: P.kwargs) -> Plan[T]:
            (items,) = cast("tuple[Sequence[Any]]", (*args, *kwargs.values()))
            joint = Joint(items[0], plain) if len(items) == 1 and fits(items[0]) else None
            return Plan(verb.__name__, lambda: verb(*args, **kwargs), writes=True, repeatable=True, joint=joint)

        return plan

    return make


def _verb(verb: Callable[P, Steps[T]], *, writes: bool, repeatable: bool) -> Callable[P, Plan[T]]:
    name = verb.__name__

    @wraps(verb)
    def plan(*args: P.args, **kwargs: P.kwargs) -> Plan[T]:
        return Plan(name, lambda: verb(*args, **kwargs), writes, repeatable)

    return plan
