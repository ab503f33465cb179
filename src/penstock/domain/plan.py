"""Plans: the statements of a store command, as a generator without I/O.

A command is written once, as a generator that yields `Statement`s and receives rows. It does not depend on connections,
threads or event loops: a store carries it out in one transaction, in the caller's thread or in an event loop, on its
own connection or on the caller's. A plan can be restarted from the beginning; serialization failures are retried that
way.
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
    """One named statement of the `.sql` files with its values."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] | None = None
    """Several input rows, as columns of equal length; an empty column among others is NULL in every row."""
    alone: bool = False
    """The first statement of a plan, and usually the only one: it is one transaction, and further statements are
    another."""
    parts: tuple[str, ...] = ()
    """Names of the conditions to fill in, for composed statements (lists)."""
    order: str = ""
    then: Plan[Any] | None = None
    """A follow-up plan that must delay no other caller. It returns a plan to try again, or None.

    A store with one writer carries it out in the same transaction. Others use a second transaction after the commit,
    whose failure is harmless because a duty repeats it; on a caller's connection they leave it to the duty."""


Steps = Generator[Statement, Rows, T]


@dataclass(frozen=True, slots=True)
class Plan(Generic[T]):
    """A command with its arguments; a store may carry it out several times."""

    name: str
    steps: Callable[[], Steps[T]]
    writes: bool
    repeatable: bool
    """Repeating it after a lost answer does no harm and gives the same answer."""
    joint: Joint | None = None
    """How it can be batched with others; None: it cannot."""


class Joint(NamedTuple):
    """A plan for one item, which can be batched into a plan for a list of items."""

    item: Any
    plan: Callable[[Sequence[Any]], Plan[list[Any]]]
    """Makes one plan for many items, which answers in their order."""


def reads(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a command that only reads."""
    return _verb(verb, writes=False, repeatable=True)


def writes(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a command that writes and may be repeated."""
    return _verb(verb, writes=True, repeatable=True)


def writes_once(verb: Callable[P, Steps[T]]) -> Callable[P, Plan[T]]:
    """Make a generator function a command that writes and must not be repeated after a lost answer."""
    return _verb(verb, writes=True, repeatable=False)


def writes_jointly(fits: Callable[[Any], bool]) -> Callable[[Callable[P, Steps[T]]], Callable[P, Plan[T]]]:
    """Do the same for a command on a list of items: a call with a single item that `fits` may be batched with
    others."""

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
