"""Log records of any logger on their way to the job that they belong to."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any, Protocol

from penstock.core import payload
from penstock.core.secrets import Scrubber
from penstock.engine import running
from penstock.engine.context import AttemptContext, Reporter

_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


class HasSecrets(Protocol):
    """What knows the secrets of an attempt; they are looked for only when they are needed."""

    @property
    def secrets(self) -> Scrubber: ...


Place = tuple[Reporter, AttemptContext, HasSecrets | None]


class JobRecords(logging.Handler):
    """Hands records to one attempt: that of the process, or that of the task which logs."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: Place | None = None
        self._own: ContextVar[Place | None] = ContextVar("penstock_attempt", default=None)

    def attach(self, reporter: Reporter, ctx: AttemptContext) -> None:
        """From now on everything that this process logs belongs to one attempt."""
        self._whole = reporter, ctx, None

    def attach_here(self, reporter: Reporter, ctx: AttemptContext, holder: HasSecrets) -> None:
        """What is logged in the present context, and in tasks begun in it, belongs to one attempt; those who handle
        a record after this one do not see the attempt's secrets in it."""
        self._own.set((reporter, ctx, holder))

    def leave_here(self) -> None:
        """What is logged in the present context belongs to no attempt any more."""
        self._own.set(None)

    def emit(self, record: logging.LogRecord) -> None:
        place = self._own.get() or self._whole
        if place is None:
            return
        reporter, ctx, holder = place
        try:
            level = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
            reporter.log(level, record.getMessage(), _details(record), ctx.phase)
            if holder is not None and holder.secrets:
                _clean(record, holder.secrets)
        except Exception:
            self.handleError(record)


def _details(record: logging.LogRecord) -> str:
    facts: dict[str, Any] = {"logger": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        facts["traceback"] = running.failure(record.exc_info[1]).traceback
    text, _ = payload.sanitise(facts)
    return text


def _clean(record: logging.LogRecord, secrets: Scrubber) -> None:
    message = record.getMessage()
    if (shown := secrets.clean(message)) != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None:
        # Formatters write this instead of the exception itself.
        record.exc_text = secrets.clean(running.failure(record.exc_info[1]).traceback)
    if record.stack_info:
        record.stack_info = secrets.clean(record.stack_info)
