"""Format times, durations, ids and statuses for people, and parse what they type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.domain.errors import InvalidInput

MARKS: Mapping[str, tuple[str, str, str]] = {
    "scheduled": ("◷", "~", "blue"),
    "queued": ("·", ".", "cyan"),
    "running": ("◐", ">", "yellow"),
    "cancelling": ("◌", ">", "magenta"),
    "review_needed": ("?", "?", "magenta"),
    "succeeded": ("✓", "+", "green"),
    "failed": ("✕", "x", "red"),
    "cancelled": ("⊘", "-", "bright_black"),
    "stale": ("⌁", "-", "bright_black"),
}
"""For each status: a symbol, one for ASCII terminals, and a colour."""
SHORT = 8
"""Number of characters of an id in tables: its random end."""

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|[smhdw])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def seconds(text: str) -> float:
    """Parse a duration such as 90, 90s, 1h30m or 7d, in seconds."""
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text, re.ASCII):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"{text[:80]!r} is not a duration.", hint="Give 90s, 15m, 1h30m, 12h or 7d.")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def moment(text: str, *, past: bool) -> str:
    """Convert a time, or a duration before (`past`) or after now, to ISO 8601."""
    found = instant(text)
    if found is None:
        length = timedelta(seconds=seconds(text))
        try:
            found = datetime.now(UTC) - length if past else datetime.now(UTC) + length
        except OverflowError:
            raise InvalidInput(f"{text[:80]!r} is out of range.", hint="Give a shorter duration.") from None
    return found.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant(text: str) -> datetime | None:
    """Parse a time, in this host's zone if it has no offset; None if it is not a time."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone()
    except (ValueError, OverflowError):
        return None


def clock(text: str | None) -> str:
    """Format a time as this host's local time of day."""
    return "" if text is None else datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")


def full(text: str | None) -> str:
    """Format a time with its date, in UTC, to the second."""
    return "" if text is None else datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def when(text: str | None) -> str:
    """Format the distance of a time from now."""
    if text is None:
        return ""
    away = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    if abs(away) < 1:
        return "now"
    return f"{span(away)} ago" if away > 0 else f"in {span(-away)}"


def span(length: float) -> str:
    """Format a duration in its largest units."""
    if length < 1:
        return f"{length * 1000:.0f}ms" if length > 0 else "0s"
    if length < 10:
        return f"{length:.1f}s".replace(".0s", "s")
    whole = int(length)
    for name, size, below in (("d", 86_400, "h"), ("h", 3600, "m"), ("m", 60, "s")):
        if whole >= size:
            rest = whole % size // int(_SECONDS[below])
            return f"{whole // size}{name}{rest}{below}" if rest else f"{whole // size}{name}"
    return f"{whole}s"


def took(job: Mapping[str, Any]) -> str:
    """Format how long the latest attempt at a job has run, without waiting."""
    if job["duration"] is not None:
        return span(job["duration"])
    if job["startedAt"] is None or job["status"] not in ("running", "cancelling"):
        return ""
    begin = datetime.fromisoformat(job["startedAt"])
    return span(max(0.0, (datetime.now(UTC) - begin).total_seconds()))


def short(job_id: str) -> str:
    """Return the end of an id, which identifies a job."""
    return job_id[-SHORT:]


def mark(status: str, ascii_only: bool = False) -> str:
    """Return the symbol of a status."""
    return MARKS.get(status, ("·", ".", ""))[1 if ascii_only else 0]


def style(status: str) -> str:
    """Return the colour of a status."""
    return MARKS.get(status, ("", "", ""))[2]


def count(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural if needed."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
