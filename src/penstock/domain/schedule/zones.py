"""Time zones: looked up by name, and divided into stretches of constant offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from penstock.domain.errors import InvalidSchedule

DAY_SECONDS = 86_400

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NAME = 64
_NO_PLACES = frozenset({"localtime", "Factory"})
"""Files of zone data that are not zones: their meaning depends on the machine."""
_PROBE_EVERY = 4 * 3600
"""No zone has ever changed its offset twice within this many seconds."""


class Stretch(NamedTuple):
    """Seconds from `start` up to `end`, all with one offset from UTC; wall times are `start + offset` and on."""

    start: int
    end: int
    offset: int
    shown: int
    """The wall clock had been up to here before `start`: a later wall time was jumped over, an earlier one repeats."""


def zone(name: str) -> ZoneInfo:
    """The time zone of that name, spelled as the IANA database spells it."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidSchedule(
            f"A time zone's name has 1 to {_LONGEST_NAME} characters; {_shortened(name)} is none.",
            hint="Use a name like 'Europe/Paris', or 'UTC'.",
        )
    if name != "UTC" and name not in _names():
        raise _unknown(name)
    try:
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError) as error:
        raise _unknown(name) from error


@lru_cache(maxsize=4096)
def stretches(zone: ZoneInfo, day: int) -> tuple[Stretch, ...]:
    """One day of UTC (days since 1970), in order, cut where the zone's offset changes."""
    first, last = day * DAY_SECONDS, (day + 1) * DAY_SECONDS
    # A day earlier: after the clock was put back, what it shows has been shown before.
    changes = _changes(zone, first - DAY_SECONDS, last)
    ends = [instant for instant, _ in changes[1:]] + [last]
    found: list[Stretch] = []
    shown = sum(changes[0])
    for (instant, offset), end in zip(changes, ends, strict=True):
        start = max(instant, first)
        if start > instant:
            shown = max(shown, min(start, end) + offset)
        if start < end:
            found.append(Stretch(start, end, offset, shown))
        shown = max(shown, end + offset)
    return tuple(found)


def _changes(zone: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """The offset at `first` and each new one before `last`, with the second from which it holds."""
    found = [(first, _offset(zone, first))]
    for probe in range(first + _PROBE_EVERY, last + 1, _PROBE_EVERY):
        before = found[-1][1]
        if _offset(zone, probe) == before:
            continue
        low, high = probe - _PROBE_EVERY, probe
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(zone, middle) == before:
                low = middle
            else:
                high = middle
        found.append((high, _offset(zone, high)))
    return found


def _offset(zone: ZoneInfo, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return offset // timedelta(seconds=1) if offset else 0


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_PLACES


def _unknown(name: str) -> InvalidSchedule:
    by_lower_case = {each.lower(): each for each in _names()}
    alike = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.8)
    if alike:
        hint = f"Did you mean {by_lower_case[alike[0]]!r}?"
    else:
        hint = "Use a name of the IANA database like 'Europe/Paris', or 'UTC'."
    return InvalidSchedule(f"There is no time zone {name!r}.", hint=hint)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
