"""Captures log records of any logger for the job that they belong to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from penstock.domain import payload
from penstock.domain.errors import InvalidPayload
from penstock.domain.secrets.policy import Scrubber
from penstock.execution import handler_run
from penstock.execution.context import AttemptContext, Reporter
from penstock.runtime.log_lines import JOB

_LONGEST_DETAILS = 16_384
_LONGEST_DURATION = 86_400 * 366
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


class Inline:
    """An attempt that shares its process with others: what is logged while `JOB` names it belongs to it."""

    __slots__ = ()

    @property
    def over(self) -> bool:
        """Whether what is logged belongs to no attempt, although it may still hold its secrets."""
        raise NotImplementedError

    @property
    def reporter(self) -> Reporter:
        raise NotImplementedError

    @property
    def phase(self) -> str:
        raise NotImplementedError

    @property
    def secrets(self) -> Scrubber:
        raise NotImplementedError


class JobRecords(logging.Handler):
    """Hands records to the attempt of the process, or of the task that logs."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: tuple[Reporter, AttemptContext] | None = None

    def attach(self, reporter: Reporter, ctx: AttemptContext) -> None:
        """Capture all records of this process for one attempt."""
        self._whole = reporter, ctx

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if isinstance(busy := JOB.get(), Inline):
                if not busy.over:
                    _keep(record, busy.reporter, busy.phase)
                if busy.secrets:
                    # Later handlers must not see the secrets of the attempt.
                    _clean(record, busy.secrets)
            elif self._whole is not None:
                reporter, ctx = self._whole
                _keep(record, reporter, ctx.phase)
        except Exception:
            self.handleError(record)


def _keep(record: logging.LogRecord, reporter: Reporter, phase: str) -> None:
    level = next((name for number, name in _LEVELS if record.levelno >= number), "debug")
    reporter.log(level, record.getMessage(), _details(record), phase, duration=_duration(record))


def _details(record: logging.LogRecord) -> str:
    facts: dict[str, Any] = {"logger": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        facts["traceback"] = handler_run.failure(record.exc_info[1]).traceback
    given = getattr(record, "details", None)
    if given is None:
        return payload.sanitise(facts)[0]
    try:
        text, _ = payload.sanitise({**given, **facts} if isinstance(given, Mapping) else {"details": given, **facts})
    except (InvalidPayload, TypeError):
        # The line is worth more than its details.
        return payload.sanitise({"details": _shown(given), **facts})[0]
    if len(text) > _LONGEST_DETAILS:
        return payload.sanitise({"details": f"{text[:_LONGEST_DETAILS]}… cut here", **facts})[0]
    return text


def _shown(given: object) -> str:
    try:
        return payload.sanitise_text(repr(given), _LONGEST_DETAILS)
    except Exception as problem:
        return f"<cannot be shown: {type(problem).__name__}>"


def _duration(record: logging.LogRecord) -> int | None:
    """Microseconds; given in seconds, as `extra={"duration": …}`."""
    seconds = getattr(record, "duration", None)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _LONGEST_DURATION:
        return None
    return round(seconds * 1e6)


def _clean(record: logging.LogRecord, secrets: Scrubber) -> None:
    message = record.getMessage()
    if (shown := secrets.clean(message)) != message:
        record.msg, record.args = shown, None
    if record.exc_info and record.exc_info[1] is not None:
        # Formatters write this instead of the exception itself.
        record.exc_text = secrets.clean(handler_run.failure(record.exc_info[1]).traceback)
    if record.stack_info:
        record.stack_info = secrets.clean(record.stack_info)
