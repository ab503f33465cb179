"""Cron by brute force: every minute of UTC is put on the wall clock, and the written rules are applied to what it
shows. It reads no expression: random expressions come with the sets they stand for."""

from __future__ import annotations

import calendar
import random
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


@dataclass(frozen=True)
class Expression:
    """An expression and, field by field, what it means."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int | str]
    months: frozenset[int]
    weekdays: frozenset[int | tuple[int, int]]
    """0 is Sunday; (1, 2) the second Monday, (1, -1) the last."""

    _dates: dict[date, bool] = field(default_factory=dict, compare=False)

    @property
    def fixed(self) -> bool:
        minute, hour, *_ = self.text.split()
        return not minute.startswith("*") and not hour.startswith("*")

    def shows(self, wall: datetime) -> bool:
        """Whether a wall time matches."""
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day = wall.date()
        if day not in self._dates:
            self._dates[day] = self._on(day)
        return self._dates[day]

    def _on(self, wall: date) -> bool:
        _, _, day, _, weekday = self.text.split()
        if day.startswith("*") or weekday.startswith("*"):
            return self._by_day(wall) and self._by_weekday(wall)
        return self._by_day(wall) or self._by_weekday(wall)

    def _by_day(self, wall: date) -> bool:
        length = calendar.monthrange(wall.year, wall.month)[1]
        if wall.day in self.days or ("L" in self.days and wall.day == length):
            return True
        working = [each for each in range(1, length + 1) if calendar.weekday(wall.year, wall.month, each) < 5]
        return "LW" in self.days and wall.day == working[-1]

    def _by_weekday(self, wall: date) -> bool:
        today = wall.isoweekday() % 7
        length = calendar.monthrange(wall.year, wall.month)[1]
        same = [
            each for each in range(1, length + 1) if calendar.weekday(wall.year, wall.month, each) == wall.weekday()
        ]
        place = same.index(wall.day) + 1
        wanted = {today, (today, place)} | ({(today, -1)} if wall.day == same[-1] else set())
        return bool(wanted & self.weekdays)


class Window:
    """Some time in a zone, minute by minute."""

    def __init__(self, zone: ZoneInfo, first: datetime, last: datetime) -> None:
        self.first, self.last = first, last
        # A day more at each end: what the clock showed before decides, and what was jumped over may come from there.
        margin = timedelta(days=2)
        number = (last - first + 2 * margin) // MINUTE
        self.minutes = [first - margin + place * MINUTE for place in range(number)]
        self.walls = [minute.astimezone(zone).replace(tzinfo=None, fold=0) for minute in self.minutes]
        self.inside = [minute for minute in self.minutes if first <= minute < last]
        self._shown_first: dict[datetime, datetime] = {}
        for wall, minute in zip(self.walls, self.minutes, strict=True):
            self._shown_first.setdefault(wall, minute)
        self._order = sorted(self._shown_first)

    def fires(self, expression: Expression) -> list[datetime]:
        """All instants from `first` up to `last`, by the rules as they are written in the guide."""
        if expression.fixed:
            found = self._fixed(expression)
        else:
            found = {at for at, wall in zip(self.minutes, self.walls, strict=True) if expression.shows(wall)}
        return sorted(at for at in found if self.first <= at < self.last)

    def _fixed(self, expression: Expression) -> set[datetime]:
        """Each date and time that the expression names: when the clock first shows it, or else something later."""
        found = set()
        wall = self._order[0]
        while wall <= self._order[-1]:
            if expression.shows(wall):
                later = self._order[bisect_left(self._order, wall)]
                found.add(self._shown_first[later])
            wall += MINUTE
        return found


def transitions(zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
    """Each change of the zone's offset, to three hours exactly."""
    hours = [first + timedelta(hours=number) for number in range(0, (last - first) // timedelta(hours=1), 3)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    return [hour for hour, old, new in zip(hours, offsets, offsets[1:], strict=False) if old != new]


def random_expression(source: random.Random) -> Expression:
    """Any expression; those that speak of nights are frequent, for clocks jump at night."""
    minute, minutes = _field(source, 0, 59)
    hour, hours = _field(source, 0, 23) if source.random() < 0.5 else _field(source, 0, 4)
    if source.random() < 0.15:
        hour, hours = "23", {23}
    day, days = _days(source)
    month, months = _field(source, 1, 12, MONTHS) if source.random() < 0.2 else ("*", set(range(1, 13)))
    weekday, weekdays = _weekdays(source)
    text = " ".join((minute, hour, day, month, weekday))
    return Expression(
        text, frozenset(minutes), frozenset(hours), frozenset(days), frozenset(months), frozenset(weekdays)
    )


def _field(source: random.Random, low: int, high: int, names: list[str] | None = None) -> tuple[str, set[int]]:
    terms, values = [], set[int]()
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        text, found = _term(source, low, high, names)
        terms.append(text)
        values |= found
    return ",".join(terms), values


def _term(source: random.Random, low: int, high: int, names: list[str] | None) -> tuple[str, set[int]]:
    def written(value: int) -> str:
        if names and source.random() < 0.5:
            name = names[value - low]
            return source.choice([name, name.lower(), name.capitalize()])
        return source.choice([str(value), f"{value:02}"])

    full = 23 if high == 4 else high
    step = source.randint(2, max(2, (full - low) // 2))
    start = source.randint(low, high - 1)
    end = source.randint(start + 1, high)
    match source.choice(["one", "one", "one", "star", "star step", "range", "range step", "from step"]):
        case "one":
            value = source.randint(low, high)
            return written(value), {value}
        case "star":
            return "*", set(range(low, full + 1))
        case "star step":
            return f"*/{step}", set(range(low, full + 1, step))
        case "range":
            return f"{written(start)}-{written(end)}", set(range(start, end + 1))
        case "range step":
            return f"{written(start)}-{written(end)}/{step}", set(range(start, end + 1, step))
        case _:
            return f"{written(start)}/{step}", set(range(start, full + 1, step))


def _days(source: random.Random) -> tuple[str, set[int | str]]:
    match source.choice(["any"] * 12 + ["some", "last", "last weekday", "mixed"]):
        case "any":
            return "*", set(range(1, 32))
        case "some":
            text, values = _field(source, 1, 31)
            return text, set(values)
        case "last":
            return "L", {"L"}
        case "last weekday":
            return source.choice(["LW", "lw"]), {"LW"}
        case _:
            return "1,15,L", {1, 15, "L"}


def _weekdays(source: random.Random) -> tuple[str, set[int | tuple[int, int]]]:
    day = source.randint(0, 6)
    match source.choice(["any"] * 18 + ["one", "Sunday", "range", "until Sunday", "nth", "last", "step"]):
        case "any":
            return "*", set(range(7))
        case "one":
            return source.choice([str(day), WEEKDAYS[day]]), {day}
        case "Sunday":
            return source.choice(["0", "7", "SUN", "sun"]), {0}
        case "range":
            return "MON-FRI", {1, 2, 3, 4, 5}
        case "until Sunday":
            return source.choice(["fri-sun", "5-7", "5-SUN"]), {5, 6, 0}
        case "nth":
            return f"{source.choice([str(day), WEEKDAYS[day]])}#3", {(day, 3)}
        case "last":
            return f"{day}L", {(day, -1)}
        case _:
            return "*/2", {0, 2, 4, 6}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
