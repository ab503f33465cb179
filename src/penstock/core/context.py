"""What a handler may ask of the attempt that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from logging import Logger
from typing import Any, Protocol


class Context(Protocol):
    """The first parameter of a handler that has one called `ctx`: what it should know, and what it may say.

    The calls are plain calls in `def` and `async def` alike.
    """

    @property
    def job_id(self) -> str: ...

    @property
    def definition(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Any]: ...

    @property
    def reference(self) -> tuple[str, str] | None: ...

    @property
    def tags(self) -> tuple[str, ...]: ...

    @property
    def attempt(self) -> int: ...

    @property
    def max_attempts(self) -> int: ...

    @property
    def fence(self) -> int: ...

    @property
    def scheduled_for(self) -> datetime | None: ...

    @property
    def logger(self) -> Logger: ...

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the job to be cancelled."""
        ...

    def check_cancelled(self) -> None:
        """Raise when somebody asked for the job to be cancelled."""
        ...

    def progress(self, percent: float, message: str | None = None, stage: str | None = None) -> None:
        """Say how far the work has come, from 0 to 100."""
        ...

    def emit_event(self, kind: str, payload: Mapping[str, Any] | None = None) -> None:
        """Keep an event of the handler's own."""
        ...
