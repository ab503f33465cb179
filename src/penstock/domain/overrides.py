"""What operators want of a definition instead of what its code says, limits apart: how it is checked and applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.domain.definition import HIGHEST_PRIORITY, LOG_LEVELS, Definition
from penstock.domain.errors import InvalidInput
from penstock.domain.retry import from_json

FOR_JOBS = ("priority", "max_attempts")
"""What a job is created with: jobs that are created later have it, unless something else was chosen for one."""
FOR_ATTEMPTS = ("backoff", "timeout", "log_level")
"""What holds for the attempts that begin later; a timeout is in microseconds, and 0 means no limit."""

_RANGES = {"priority": (0, HIGHEST_PRIORITY), "max_attempts": (1, 1000), "timeout": (0, 2**53)}


def check(key: str, name: str, value: object) -> None:
    """Refuse what cannot be wanted of a definition."""
    if name == "backoff":
        try:
            from_json(value)
        except InvalidInput as error:
            raise InvalidInput(f"{key}: backoff: {error.message}", hint=error.hint) from None
        return
    if name == "log_level":
        if value not in LOG_LEVELS:
            raise InvalidInput(f"{key}: {value!r:.80} is no log_level.", hint=f"There are: {', '.join(LOG_LEVELS)}.")
        return
    least, most = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{key}: {name} must be an integer from {least} to {most}, not {value!r:.80}.")


def in_force(definition: Definition, overrides: Mapping[str, Any]) -> Definition:
    """A definition as an attempt that begins now shall see it."""
    found: dict[str, Any] = {}
    if "backoff" in overrides:
        found["backoff"] = from_json(overrides["backoff"])
    if "timeout" in overrides:
        found["timeout"] = overrides["timeout"] or None
    if "log_level" in overrides:
        found["log_level"] = overrides["log_level"]
    return replace(definition, **found) if found else definition
