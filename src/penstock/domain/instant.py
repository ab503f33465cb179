"""Times: integer microseconds since 1970 in UTC inside, aware datetimes outside, durations as seconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from penstock.domain.errors import Hint, InvalidInput

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

Duration = float | int | timedelta
"""A duration as users give it: seconds or a timedelta."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 100 * 365 * DAY
EARLIEST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
LATEST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
"""Beyond these an instant has no date in some zones and could not be read back."""


def microseconds(value: Duration, what: str) -> int:
    """Return a duration in microseconds; negative, infinite and not-a-number values are refused."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidInput(f"{what} must be seconds or a timedelta, not {value!r}.")
    if not math.isfinite(seconds) or seconds < 0 or seconds * SECOND > _LONGEST:
        raise InvalidInput(f"{what} must be between 0 seconds and 100 years, not {value!r}.")
    return round(seconds * SECOND)


def from_datetime(value: datetime, what: str) -> int:
    """An aware datetime as microseconds since 1970."""
    if value.tzinfo is None:
        raise InvalidInput(
            f"{what} has no time zone: {value.isoformat()}.",
            hint=Hint(
                "Give an aware datetime, such as datetime.now(UTC).",
                cli="Write it with its offset: 2027-01-15T08:00:00Z.",
                http="Write it with its offset: 2027-01-15T08:00:00Z.",
            ),
        )
    instant = (value - _EPOCH) // timedelta(microseconds=1)
    if not EARLIEST <= instant <= LATEST:
        raise InvalidInput(
            f"{what} is out of range: {value.isoformat()}.",
            hint="Use a time between the years 1 and 9999 in every zone.",
        )
    return instant


def to_datetime(value: int) -> datetime:
    """Microseconds since 1970 as an aware datetime in UTC."""
    return _EPOCH + timedelta(microseconds=value)


def maybe_datetime(value: int | None) -> datetime | None:
    return None if value is None else to_datetime(value)
