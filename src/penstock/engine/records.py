"""Log records of any logger on their way to the job that they belong to."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any

from penstock.core import payload
from penstock.engine import running
from penstock.engine.context import AttemptContext, Reporter

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))

Place = tuple[Reporter, AttemptContext]


class JobRecords(logging.Handler):
    """Hands records to one attempt: that of the process, or that of the task which logs."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: Place | None = None
        self._own: ContextVar[Place | None] = ContextVar("penstock_attempt", default=None)

    def attach(self, reporter: Reporter, ctx: AttemptContext) -> None:
        """From now on everything that this process logs belongs to one attempt."""
        self._whole = reporter, ctx

    def attach_here(self, reporter: Reporter, ctx: AttemptContext) -> None:
        """What is logged in the present context, and in tasks begun in it, belongs to one attempt."""
        self._own.set((reporter, ctx))

    def emit(self, record: logging.LogRecord) -> None:
        place = self._own.get() or self._whole
        if place is None:
            return
        reporter, ctx = place
        try:
            level = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
            reporter.log(level, record.getMessage(), _details(record), ctx.phase)
        except Exception:
            self.handleError(record)


def _details(record: logging.LogRecord) -> str:
    facts: dict[str, Any] = {"logger": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        facts["traceback"] = running.failure(record.exc_info[1]).traceback
    text, _ = payload.sanitise(facts)
    return text
