"""Loggers whose records stay one line each, whatever names and errors from outside they contain."""

from __future__ import annotations

import logging
import traceback
from contextvars import ContextVar
from typing import Protocol

from penstock.domain.secrets.policy import neutralise


class HasJobId(Protocol):
    """Something that belongs to one job."""

    @property
    def job_id(self) -> str: ...


JOB: ContextVar[HasJobId | None] = ContextVar("penstock_job", default=None)
"""The job that the logging code works on."""


def about(job_id: str) -> dict[str, str]:
    """For `extra=` of a line about a job, outside the code that works on it."""
    return {"job_id": job_id}


def logger(name: str) -> logging.Logger:
    """The logger of that name; values in its lines are made harmless first."""
    found = logging.getLogger(name)
    if not any(isinstance(each, OneLine) for each in found.filters):
        found.addFilter(OneLine())
    return found


class OneLine(logging.Filter):
    """Escapes line ends and terminal codes in what a record tells; a traceback is set in, so that no line of it
    can be taken for a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_harmless(each) for each in record.args)
        if record.exc_info and record.exc_info[1] is not None:
            lines = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n").split("\n")
            record.exc_text = "\n".join(f"  {neutralise(line)}" for line in lines)
        return True


def _harmless(value: object) -> object:
    return value if isinstance(value, int | float) else neutralise(str(value))
