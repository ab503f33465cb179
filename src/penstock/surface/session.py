"""Operations as values, and sessions that carry them out: on the store or over HTTP, with or without an event loop."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Protocol, TypeVar

R = TypeVar("R")

PYTHON = "python"
"""Who did it, where a name is needed and none was given."""


class Operation(Generic[R]):
    """One thing to be done, with everything needed to do it; `R` is its answer."""

    __slots__: Any = ()
    call: ClassVar[str]
    """The public call that makes this operation, such as `jobs.cancel`."""


class Session(Protocol):
    """Carries operations out."""

    def do(self, operation: Operation[R]) -> R:
        """Carry an operation out in the caller's thread."""
        ...

    async def ado(self, operation: Operation[R]) -> R:
        """Carry an operation out without blocking the event loop."""
        ...
