"""Exit codes of commands, and the errors that they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from penstock.domain.errors import InvalidInput, PenstockError


class Exit(IntEnum):
    """The exit codes; they are stable."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    UNREACHABLE = 6
    TIMED_OUT = 7
    CANCELLED = 8
    PARTLY = 9
    REJECTED = 10
    OUTDATED = 11
    INTERRUPTED = 130


MEANINGS: Mapping[Exit, str] = {
    Exit.DONE: "Done; if the command waited for a job, it has succeeded.",
    Exit.FAILED: "The command failed, or the job that was waited for has failed.",
    Exit.USAGE: "The arguments are wrong: an unknown option or an invalid value.",
    Exit.NOT_FOUND: "It does not exist, or the end of an id matches several jobs.",
    Exit.CONFLICT: "Its state does not allow this: it has ended, a key exists already, or it was changed meanwhile.",
    Exit.NOT_ALLOWED: "The token is missing or not valid, or its role does not allow this.",
    Exit.UNREACHABLE: "The server or the store does not answer.",
    Exit.TIMED_OUT: "The time of `--timeout` is over; the job continues.",
    Exit.CANCELLED: "The job that was waited for was cancelled.",
    Exit.PARTLY: "Some of several changes failed.",
    Exit.REJECTED: "The job that was waited for has failed because its review was rejected.",
    Exit.OUTDATED: "A newer penstock has migrated the store: install it. A running worker stops claiming, finishes "
    "its jobs and exits with this code.",
    Exit.INTERRUPTED: "Ctrl-C; no job was cancelled.",
}

_BY_CODE = {
    "malformed": Exit.USAGE,
    "invalid_request": Exit.USAGE,
    "invalid_params": Exit.USAGE,
    "invalid_schedule": Exit.USAGE,
    "not_acceptable": Exit.USAGE,
    "too_large": Exit.USAGE,
    "target_too_long": Exit.USAGE,
    "not_found": Exit.NOT_FOUND,
    "conflict": Exit.CONFLICT,
    "idempotency_conflict": Exit.CONFLICT,
    "revision_conflict": Exit.CONFLICT,
    "unauthenticated": Exit.NOT_ALLOWED,
    "forbidden": Exit.NOT_ALLOWED,
    "misdirected": Exit.NOT_ALLOWED,
    "schema_newer": Exit.OUTDATED,
    "timed_out": Exit.TIMED_OUT,
    "rate_limited": Exit.UNREACHABLE,
    "timeout": Exit.UNREACHABLE,
    "unavailable": Exit.UNREACHABLE,
    "too_many_streams": Exit.UNREACHABLE,
}


class ApiError(PenstockError):
    """An error that the API answered."""

    def __init__(self, code: str, message: str, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.details: dict[str, Any] = dict(details or {})


def usage_error(error: Exception) -> InvalidInput:
    """Convert an error of the argument parser."""
    text = " ".join(str(error).split())
    return InvalidInput(text, hint="`--help` after a command lists its arguments.")


def exit_of(error: PenstockError) -> Exit:
    """Return the exit code of an error."""
    return _BY_CODE.get(error.code, Exit.FAILED)


def exit_of_job(job: Mapping[str, Any]) -> Exit:
    """Return the exit code for the end of a job."""
    outcome = job["outcome"] or job["status"]
    if outcome == "succeeded":
        return Exit.DONE
    if outcome == "cancelled":
        return Exit.CANCELLED
    reviews = job.get("reviews") or []
    if reviews and reviews[-1]["decision"] == "rejected":
        return Exit.REJECTED
    return Exit.FAILED


def exit_of_all(codes: list[Exit]) -> Exit:
    """Return the exit code of several changes."""
    bad = [each for each in codes if each is not Exit.DONE]
    if not bad:
        return Exit.DONE
    return bad[0] if len(codes) == 1 else Exit.PARTLY
