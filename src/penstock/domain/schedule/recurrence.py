"""The recurrence of a schedule: once, at an interval, or by cron; its instants follow from the expression alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from zoneinfo import ZoneInfo

from penstock.domain.errors import InvalidInput, InvalidSchedule
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, Duration, from_datetime, microseconds, to_datetime
from penstock.domain.schedule.cron import Cron, parse
from penstock.domain.schedule.schedule import Kind
from penstock.domain.schedule.zones import zone

SHORTEST = SECOND
LONGEST = 366 * DAY

_UNITS = (("d", "d", DAY), ("h", "h", HOUR), ("m", "min", MINUTE), ("s", "s", SECOND))
"""As written in an expression, as said in a sentence, in microseconds."""
_INTERVAL = re.compile(
    r"(?=[0-9])(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?: from ([^ ]+))?\Z"
)
_LONGEST_TEXT = 100


class Recurrence(Protocol):
    """The instants of a schedule, in microseconds since 1970."""

    def next(self, after: int) -> int | None:
        """The first one strictly after; None: there is none to come."""
        ...

    def latest(self, until: int, after: int) -> int | None:
        """The newest one that is not after `until` and strictly after `after`."""
        ...

    def count(self, after: int, until: int) -> int:
        """How many there are after `after` and not after `until`."""
        ...

    def shortest_gap(self) -> int | None:
        """The least time between two of them; None: there is only one."""
        ...

    def sentence(self) -> str:
        """In English, with a full stop."""
        ...


@dataclass(frozen=True, slots=True)
class Once:
    """One instant and no other."""

    instant: int

    def next(self, after: int) -> int | None:
        return self.instant if self.instant > after else None

    def latest(self, until: int, after: int) -> int | None:
        return self.instant if after < self.instant <= until else None

    def count(self, after: int, until: int) -> int:
        return int(after < self.instant <= until)

    def shortest_gap(self) -> int | None:
        return None

    def sentence(self) -> str:
        return f"Once, at {_written(self.instant)}."


@dataclass(frozen=True, slots=True)
class Interval:
    """The anchor, and every `step` after it; real time, so that no clock on a wall moves it and nothing drifts."""

    step: int
    anchor: int = 0

    def next(self, after: int) -> int | None:
        return self.anchor + (self._number(after) + 1) * self.step

    def latest(self, until: int, after: int) -> int | None:
        number = self._number(until)
        instant = self.anchor + number * self.step
        return instant if number >= 0 and instant > after else None

    def count(self, after: int, until: int) -> int:
        return max(0, self._number(until) - self._number(after))

    def shortest_gap(self) -> int | None:
        return self.step

    def sentence(self) -> str:
        start = f" from {_written(self.anchor)}" if self.anchor else ""
        return f"Every {length(self.step)}{start}."

    def _number(self, instant: int) -> int:
        """The number of the newest one up to an instant; the anchor is 0, before it -1."""
        return max(-1, (instant - self.anchor) // self.step)


@dataclass(frozen=True, slots=True)
class WallClock:
    """A cron expression, read off the wall clock of a zone."""

    cron: Cron
    zone: ZoneInfo

    def next(self, after: int) -> int | None:
        return self.cron.next(after, self.zone)

    def latest(self, until: int, after: int) -> int | None:
        return self.cron.latest(until, after, self.zone)

    def count(self, after: int, until: int) -> int:
        return self.cron.count(after, until, self.zone)

    def shortest_gap(self) -> int | None:
        return self.cron.shortest_gap()

    def sentence(self) -> str:
        return f"{self.cron.sentence()}, {self.zone.key} time."


def recurrence(kind: Kind, expression: str, timezone: str = "UTC") -> Recurrence:
    """Return the recurrence of an expression, or raise `InvalidSchedule`."""
    place = zone(timezone)
    if kind is Kind.CRON:
        return WallClock(parse(expression), place)
    if not isinstance(expression, str) or len(expression) > _LONGEST_TEXT:
        raise InvalidSchedule(f"A schedule's expression is a text of up to {_LONGEST_TEXT} characters.")
    return Once(_instant(expression)) if kind is Kind.ONCE else _interval(expression)


def every(duration: Duration, start: datetime | None = None) -> str:
    """The expression of an interval: `every(5400)` is `1h30m`; with `start`, the first instant."""
    step = microseconds(duration, "An interval")
    if step % SECOND:
        raise InvalidSchedule(f"An interval must be whole seconds, not {duration!r}.")
    text = "".join(f"{number}{letter}" for number, letter, _ in _divided(step)) or "0s"
    if start is not None:
        text += f" from {_written(from_datetime(start, 'start')).replace(' ', 'T')}"
    _interval(text)
    return text


def length(duration: int) -> str:
    """A length of time in words: `1 h 30 min`."""
    return " ".join(f"{number} {word}" for number, _, word in _divided(duration)) or "0 s"


def _interval(text: str) -> Interval:
    found = _INTERVAL.match(text)
    if found is None:
        raise InvalidSchedule(
            f"{text!r} is no interval.",
            hint="Write days, hours, minutes and seconds as in 1d, 1h30m or 90s, "
            "and a first instant if you like: 7d from 2027-01-04T08:00:00Z.",
        )
    *numbers, start = found.groups()
    step = sum(int(number) * size for number, (_, _, size) in zip(numbers, _UNITS, strict=True) if number)
    if not SHORTEST <= step <= LONGEST:
        raise InvalidSchedule(f"An interval must be 1 second to 366 days, not {text!r}.")
    return Interval(step, _instant(start) if start else 0)


def _instant(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text) if text.isascii() else None
        instant = None if moment is None else from_datetime(moment, "The instant")
    except (ValueError, OverflowError, InvalidInput):
        instant = None
    if instant is None or instant < 0:
        raise InvalidSchedule(
            f"{text!r} is no instant.", hint="Write date, time and offset from UTC: 2027-01-15T08:00:00Z or …+01:00."
        )
    return instant


def _divided(duration: int) -> list[tuple[int, str, str]]:
    parts = []
    for letter, word, size in _UNITS:
        number, duration = divmod(duration, size)
        if number:
            parts.append((number, letter, word))
    return parts


def _written(instant: int) -> str:
    return to_datetime(instant).isoformat(sep=" ").replace("+00:00", "Z")
