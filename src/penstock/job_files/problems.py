"""Problems of job files, with the line."""

from __future__ import annotations

import ast
import re
import traceback
from dataclasses import dataclass

from penstock.definitions.decorator import OPTIONS
from penstock.definitions.schedule_options import SCHEDULE_OPTIONS
from penstock.domain import payload
from penstock.domain.errors import InvalidSchedule, PenstockError

_LONGEST = 2000
_SPOKEN = {
    "time zone": "timezone",
    "cron": "schedule",
    "interval": "schedule",
    "rate limit": "rate_limit",
    "phase": "phases",
}
"""Words in errors for options that they do not name."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file is not used: its place and error."""

    file: str
    line: int | None
    error: str
    kept: bool = False
    """Whether the last good version of the file is used."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.error}{' Its last good version runs.' if self.kept else ''}"


def located(error: BaseException, path: str, relative: str, name: str, text: str) -> Problem:
    """Return the problem for an error while a file was read, run or defined."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return Problem(relative, error.lineno, f"{type(error).__name__}: {error.msg}.")
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
    if lines:
        return Problem(relative, lines[-1], _said(error))
    if isinstance(error, UnicodeDecodeError):
        return Problem(relative, error.object[: error.start].count(b"\n") + 1, "This line is not UTF-8.")
    if isinstance(error, OSError):
        return Problem(relative, None, f"It cannot be read: {error.strerror or error}.")
    return Problem(relative, _line(error, name, text), _said(error))


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "its message cannot be read"
    if not isinstance(error, PenstockError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return payload.sanitise_text(text, _LONGEST)


def _line(error: BaseException, name: str, text: str) -> int:
    """Return the line of the option that an error names, or of `run`; else the first."""
    places = _places(text)
    said = _said(error).removeprefix(f"Schedule {name!r}: ").removeprefix(f"{name}: ")
    words = {**{option: option for option in (*OPTIONS, *SCHEDULE_OPTIONS)}, **_SPOKEN}
    found = [(match.start(), option) for word, option in words.items() if (match := re.search(rf"\b{word}\b", said))]
    named = [option for _, option in sorted(found)]
    if isinstance(error, InvalidSchedule):
        named.append("schedule")
    return next((places[option] for option in (*named, "run", "phases") if option in places), 1)


def _places(text: str) -> dict[str, int]:
    """Return the line of the last assignment of each name in a module."""
    places: dict[str, int] = {}
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return places
    for each in body:
        if isinstance(each, ast.Assign):
            places |= {target.id: each.lineno for target in each.targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            places[each.target.id] = each.lineno
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            places[each.name] = each.lineno
    return places
