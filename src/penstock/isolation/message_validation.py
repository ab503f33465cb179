"""Checks of the frames that a child sends: a handler can write anything to its line."""

from __future__ import annotations

from math import isfinite
from typing import Any

from penstock.domain import payload
from penstock.domain.errors import InvalidPayload

LONGEST_LINE = 8_000
MOST_READ = 65_536
"""A longer text is cut before it is searched for secrets."""
LARGE = 32_768
"""Texts and parameters of more characters are searched for secrets in a thread, so that nothing else waits."""
_LONGEST_NAME = 200
_MOST_POSITIONS = 10_000
_LONGEST_DELAY = 100 * 366 * 86_400_000_000


def percent(value: Any) -> float:
    """A progress from 0 to 100."""
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value!r:.40} is no percentage")
    return min(100.0, max(0.0, number))


def text(value: Any, longest: int = LONGEST_LINE) -> str:
    """A text that both stores can hold."""
    return payload.sanitise_text(str(value), longest)


def maybe_text(value: Any, longest: int = LONGEST_LINE) -> str | None:
    return None if value is None else text(value, longest)


def name(value: Any) -> str:
    """The name of a phase, of a stage, of an event type."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
        raise ValueError(f"{value!r:.40} is no name")
    return text(value, _LONGEST_NAME)


def maybe_name(value: Any) -> str | None:
    return None if value is None else name(value)


def position(value: Any) -> int:
    """The position of a phase in its definition."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_POSITIONS:
        raise ValueError(f"{value!r:.40} is no position")
    return value


def delay(value: Any) -> int | None:
    """Microseconds to wait."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LONGEST_DELAY:
        raise ValueError(f"{value!r:.40} is no delay")
    return value


def duration(value: Any) -> int | None:
    """Microseconds that something took."""
    return delay(value)


def json_text(value: Any) -> str | None:
    """JSON text that is not too large."""
    if value is None or value == "null":
        return value  # type: ignore[no-any-return]
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no JSON text")
    try:
        payload.decode(value, "the frame")
    except InvalidPayload as error:
        raise ValueError(str(error)) from None
    return value
