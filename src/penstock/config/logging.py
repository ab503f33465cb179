"""What a process of ours logs: one event, one line, for people or as JSON, with the job it is about.

Parameters and results of jobs are never in it, and nothing that is filled in can end a line or steer a terminal.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import neutralise
from penstock.runtime.log_lines import JOB

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

_ATTEMPTS = "penstock.jobs"
_ALWAYS_QUIET = ("httpx2", "httpcore2", "httpx", "httpcore", "watchfiles", "asyncio", "urllib3")
"""Loggers of libraries: their debug and info lines are about their own work, such as each step of a request."""


def configure(
    form: Format = "console", level: Level = "info", *, attempts: bool = False, stream: TextIO | None = None
) -> None:
    """Send the log of this process to a stream, by default stderr; `attempts` adds a line for each that ends."""
    if form not in get_args(Format):
        raise InvalidInput(f"There is no log format {form!r:.40}.", hint=f"Use {' or '.join(get_args(Format))}.")
    if level not in get_args(Level):
        raise InvalidInput(f"There is no log level {level!r:.40}.", hint=f"Use one of {', '.join(get_args(Level))}.")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_with_job)
    handler.setFormatter(JsonLines() if form == "json" else ConsoleLines())
    root = logging.getLogger()
    for each in [each for each in root.handlers if isinstance(each.formatter, ConsoleLines | JsonLines)]:
        root.removeHandler(each)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger(_ATTEMPTS).setLevel(logging.NOTSET if attempts or level == "debug" else logging.WARNING)
    for name in _ALWAYS_QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    # The store says once that its server does not answer, and the pool would say it for each try.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)


class ConsoleLines(logging.Formatter):
    """Time, level and message; a traceback follows, set in."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        line = f"{moment} {record.levelname} {neutralise(record.getMessage())}"
        job_id = getattr(record, "job_id", None)
        if job_id is not None and job_id not in line:
            line += f" [job {neutralise(str(job_id))}]"
        trace = _trace(record)
        return line if trace is None else "\n".join([line, *(f"  {neutralise(each)}" for each in trace)])


class JsonLines(logging.Formatter):
    """One object on one line, the traceback inside."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": neutralise(record.getMessage()),
        }
        if (job_id := getattr(record, "job_id", None)) is not None:
            told["jobId"] = str(job_id)
        trace = _trace(record)
        if trace is not None:
            told["traceback"] = [neutralise(each) for each in trace]
        # Whatever is not ASCII is written as an escape: then no reader can see a line end where there is none.
        return json.dumps(told)


def _with_job(record: logging.LogRecord) -> bool:
    """Add the current job to a record that names none."""
    if getattr(record, "job_id", None) is None and (busy := JOB.get()) is not None:
        record.job_id = busy.job_id
    return True


def _trace(record: logging.LogRecord) -> list[str] | None:
    if record.exc_text:
        # It was formatted before, with secrets removed.
        return [line.removeprefix("  ") for line in record.exc_text.rstrip("\n").split("\n")]
    if record.exc_info and record.exc_info[1] is not None:
        return "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n").split("\n")
    return None
