"""What a look at a store or a host has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters: nothing to do, something that will hurt, something that hurts now."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, what was seen, and what to do about it."""

    check: str
    level: Level
    message: str
    hint: str = ""


def fine(check: str, message: str) -> Finding:
    return Finding(check, Level.OK, message)


def warning(check: str, message: str, hint: str) -> Finding:
    return Finding(check, Level.WARNING, message, hint)


def error(check: str, message: str, hint: str) -> Finding:
    return Finding(check, Level.ERROR, message, hint)
