"""Cron expressions: parsing, error messages, and the instants at which they fire.

`cronsim` reads the fields and knows which dates match. The walk through time is our own, because it must never return
an instant that is not after the one it was given, and must count and look back without visiting every tick:
it goes by days, and within a day by stretches of constant offset (`zones.stretches`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from penstock.domain.errors import Hint, InvalidSchedule
from penstock.domain.instant import SECOND
from penstock.domain.schedule.zones import DAY_SECONDS, Stretch, stretches

MAX_LENGTH = 500
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIVE = "Give five: minute, hour, day of month, month, day of week."


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    allowed: str
    largest: int


_SHAPES = "ranges (1-5), lists (1,5) and steps (*/5)"
_FIELDS = (
    _Field("minute", f"0 to 59, *, {_SHAPES}", 59),
    _Field("hour", f"0 to 23, *, {_SHAPES}", 23),
    _Field("day of month", f"1 to 31, L (the last day), LW (the last weekday), *, {_SHAPES}", 31),
    _Field("month", f"1 to 12, JAN to DEC, *, {_SHAPES}", 12),
    _Field("day of week", f"0 to 7 (0 and 7 are Sunday), SUN to SAT, 5L, 1#2 or MON#2, *, {_SHAPES}", 7),
)
_HINTS = (
    (re.compile(r"\?"), "Write * instead of ?."),
    (re.compile(r"(^|,)[HR](\(|/|,|$)"), "Give a number; a schedule's jitter spreads the load."),
    (re.compile(r"\dW"), "The weekday nearest to a date cannot be said; LW is the month's last weekday."),
)
_WEEK_UNTIL_SUNDAY = re.compile(r"\b([1-6]|MON|TUE|WED|THU|FRI|SAT)-(?:SUN|0)\b")


def _split(text: str) -> list[str]:
    """The five fields in upper case, names of the `@daily` kind written out, each one checked."""
    if len(text) > MAX_LENGTH:
        raise InvalidSchedule(
            f"The cron expression {text[:40]!r}… has {len(text)} characters; {MAX_LENGTH} are allowed.",
            hint="Say it with ranges and steps, or make several schedules.",
        )
    for character in text:
        if not (character == "\t" or " " <= character <= "~"):
            raise InvalidSchedule(
                f"The cron expression {text!r} holds {character!r}.",
                hint="Only ASCII letters, digits, signs, spaces and tabs are allowed.",
            )
    wanted = text.strip().lower()
    if wanted.startswith("@"):
        return _alias(text, wanted)
    parts = text.upper().split()
    if parts and "=" in parts[0]:
        raise InvalidSchedule(
            f"The cron expression {text!r} sets a variable.",
            hint=Hint(
                'Pass the time zone separately: timezone="Europe/Paris".',
                cli="Pass the time zone separately: --timezone Europe/Paris.",
                http="Send the time zone in the field `timezone`.",
            ),
        )
    if len(parts) != 5:
        raise InvalidSchedule(f"The cron expression {text!r} has {len(parts)} fields.", hint=_number_of_fields(parts))
    parts[4] = _WEEK_UNTIL_SUNDAY.sub(r"\1-7", parts[4])
    for position, part in enumerate(parts):
        _check_field(text, position, part)
    return parts


def _alias(text: str, wanted: str) -> list[str]:
    if wanted in ALIASES:
        return ALIASES[wanted].split()
    hint = f"There are {', '.join(ALIASES)}."
    if wanted.startswith("@every"):
        hint = "Make it a schedule of the kind interval, such as 15m."
    if wanted == "@reboot":
        hint = "Nothing here starts with the machine: enqueue a job when your program starts."
    raise InvalidSchedule(f"The cron expression {text!r} is not known.", hint=hint)


def _number_of_fields(parts: list[str]) -> str:
    if len(parts) in (6, 7):
        return f"{FIVE} There is no field for seconds or years; an interval can be shorter than a minute."
    return FIVE


def _check_field(text: str, position: int, part: str) -> None:
    known = _FIELDS[position]
    try:
        _values(position, part)
    except CronSimError:
        hint = next((hint for pattern, hint in _HINTS if pattern.search(part)), f"Allowed: {known.allowed}.")
        raise _wrong(text, position, f"{part!r} is no {known.name}.", hint) from None
    for term in part.split(","):
        start, slash, step = term.partition("/")
        if not slash:
            continue
        single = start.startswith("L") or ("-" in start and len(_values(position, start)) == 1)
        if single or int(step) > known.largest:
            raise _wrong(
                text, position, f"the step of {term!r} leaves one {known.name}.", "Give that one without a step."
            )


def _values(position: int, part: str) -> set[Any]:
    """Return the values of one field, with all other fields as *."""
    fields = ["*"] * 5
    fields[position] = part
    read = CronSim(" ".join(fields), datetime(2000, 1, 1))
    return (read.minutes, read.hours, read.days, read.months, read.weekdays)[position]


def _wrong(text: str, position: int, problem: str, hint: str) -> InvalidSchedule:
    return InvalidSchedule(f"The cron expression {text!r}, field {position + 1}: {problem}", hint=hint)


COUNT_CAP = 1_000_000

_HORIZON = 50 * 366
"""Days to look ahead or back for a date that matches; the rarest, a 29 February on one weekday, is 40 years away."""
_LAST_DAY = date(9990, 1, 1).toordinal()
_EPOCH = date(1970, 1, 1).toordinal()
_EVERY_CALENDAR = range(date(2000, 1, 1).toordinal() - _EPOCH, date(2028, 1, 1).toordinal() - _EPOCH)
"""28 years hold every kind of year: a date that matches in none of them never comes."""


@dataclass(frozen=True)
class Cron:
    """A cron expression with five fields; made by `parse`."""

    expression: str
    """Upper case, single spaces, names of the `@daily` kind written out."""
    _fields: CronSim = field(repr=False, compare=False)
    _times: tuple[int, ...] = field(repr=False, compare=False)
    """Seconds of the day at which it fires on a date that matches, ascending."""
    _fixed: bool = field(repr=False, compare=False)
    """Neither minute nor hour begins with `*`: a missing time is made up for, a doubled one fires once."""

    def next(self, after: int, zone: ZoneInfo) -> int | None:
        """The first fire strictly after an instant; None when 50 years hold none. Instants are microseconds."""
        moment = after // SECOND
        for day in self._days(moment // DAY_SECONDS, moment // DAY_SECONDS + _HORIZON):
            for stretch in stretches(zone, day):
                found = self._first(stretch, moment)
                if found is not None:
                    return found * SECOND
        return None

    def latest(self, until: int, after: int, zone: ZoneInfo) -> int | None:
        """The newest fire that is after `after` and not after `until`, sought from the end."""
        moment, bound = until // SECOND, after // SECOND
        for day in self._days_back(moment // DAY_SECONDS, max(bound // DAY_SECONDS, moment // DAY_SECONDS - _HORIZON)):
            for stretch in reversed(stretches(zone, day)):
                found = self._last(stretch, bound, moment)
                if found is not None:
                    return found * SECOND
        return None

    def count(self, after: int, until: int, zone: ZoneInfo, cap: int = COUNT_CAP) -> int:
        """Return how many fires are after `after` and not after `until`; `cap` means that many or more.

        The work is that of the days in between, however many fires a day has."""
        moment, bound = after // SECOND, until // SECOND
        total = 0
        for day in self._days(moment // DAY_SECONDS, bound // DAY_SECONDS):
            total += sum(self._number(stretch, moment, bound) for stretch in stretches(zone, day))
            if total >= cap:
                return cap
        return total

    def shortest_gap(self) -> int:
        """Microseconds between the two fires that are closest to each other, on days without a jump of the clock."""
        around = (*self._times, self._times[0] + DAY_SECONDS)
        return min(later - earlier for earlier, later in pairwise(around)) * SECOND

    def sentence(self) -> str:
        """What it says, in English, without a full stop."""
        return re.sub(r"\b(\d+)th\b", lambda found: _ordinal(int(found[1])), self._fields.explain())

    def _days(self, first: int, last: int) -> Iterator[int]:
        """Days of UTC in which it may fire, ascending; `first` is always among them."""
        day, last = first, min(last, _LAST_DAY - _EPOCH)
        while day <= last:
            yield day
            # Local dates differ from UTC by up to a day, and a clock put forward may skip another day.
            matching = next(self._dates(day - 1, last + 2), None)
            if matching is None:
                return
            day = max(day + 1, matching - 1)

    def _days_back(self, last: int, first: int) -> Iterator[int]:
        """Days of UTC in which it may have fired, descending; `last` is always among them."""
        day = last
        while day >= first:
            yield day
            matching = next(self._dates_back(day, first - 3), None)
            if matching is None:
                return
            day = min(day - 1, matching + 2)

    def _dates(self, first: int, last: int) -> Iterator[int]:
        """Dates that match (days since 1970), ascending; months that do not match are jumped over."""
        day = first
        while day <= last:
            today = date.fromordinal(day + _EPOCH)
            if today.month not in self._fields.months:
                day += 32 - today.day
                day -= date.fromordinal(day + _EPOCH).day - 1
                continue
            if self._fields.match_day(today):
                yield day
            day += 1

    def _dates_back(self, last: int, first: int) -> Iterator[int]:
        """Dates that match, descending."""
        day = last
        while day >= first:
            today = date.fromordinal(day + _EPOCH)
            if today.month not in self._fields.months:
                day -= today.day
                continue
            if self._fields.match_day(today):
                yield day
            day -= 1

    def _first(self, stretch: Stretch, after: int) -> int | None:
        if stretch.start > after and self._makes_up(stretch):
            return stretch.start
        low, high = self._walls(stretch, after, stretch.end)
        for day in self._dates(low // DAY_SECONDS, (high - 1) // DAY_SECONDS):
            place = bisect_left(self._times, low - day * DAY_SECONDS)
            if place < len(self._times) and (wall := day * DAY_SECONDS + self._times[place]) < high:
                return wall - stretch.offset
        return None

    def _last(self, stretch: Stretch, after: int, until: int) -> int | None:
        low, high = self._walls(stretch, after, until)
        for day in self._dates_back((high - 1) // DAY_SECONDS, low // DAY_SECONDS):
            place = bisect_left(self._times, high - day * DAY_SECONDS)
            if place > 0 and (wall := day * DAY_SECONDS + self._times[place - 1]) >= low:
                return wall - stretch.offset
        return stretch.start if after < stretch.start <= until and self._makes_up(stretch) else None

    def _number(self, stretch: Stretch, after: int, until: int) -> int:
        total = self._matching(*self._walls(stretch, after, until))
        if after < stretch.start <= until and self._makes_up(stretch):
            wall = stretch.start + stretch.offset
            total += not self._matching(wall, wall + 1)
        return total

    def _walls(self, stretch: Stretch, after: int, until: int) -> tuple[int, int]:
        """The wall times of a stretch that count, as a half-open range."""
        low = max(stretch.start, after + 1) + stretch.offset
        high = min(stretch.end, until + 1) + stretch.offset
        return max(low, stretch.shown) if self._fixed else low, high

    def _makes_up(self, stretch: Stretch) -> bool:
        """Whether the clock jumped over a fixed time when this stretch began."""
        return self._fixed and self._matching(stretch.shown, stretch.start + stretch.offset) > 0

    def _matching(self, low: int, high: int) -> int:
        """How many wall times from `low` up to `high` match."""
        if low >= high:
            return 0
        return sum(
            bisect_left(self._times, high - day * DAY_SECONDS) - bisect_left(self._times, low - day * DAY_SECONDS)
            for day in self._dates(low // DAY_SECONDS, (high - 1) // DAY_SECONDS)
        )


def parse(text: str) -> Cron:
    """A cron expression, read and checked: whatever is wrong with it is an `InvalidSchedule` that says where."""
    if not isinstance(text, str):
        raise InvalidSchedule(f"A cron expression is a text, not {text!r}.", hint=FIVE)
    return _parsed(text)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Cron:
    expression = " ".join(_split(text))
    try:
        fields = CronSim(expression, datetime(2000, 1, 1))
    except CronSimError:
        raise _never(text) from None
    times = tuple(sorted(hour * 3600 + minute * 60 for hour in fields.hours for minute in fields.minutes))
    minute, hour = expression.split()[:2]
    cron = Cron(expression, fields, times, _fixed=not minute.startswith("*") and not hour.startswith("*"))
    if next(cron._dates(_EVERY_CALENDAR.start, _EVERY_CALENDAR.stop), None) is None:
        raise _never(text)
    return cron


def _never(text: str) -> InvalidSchedule:
    return InvalidSchedule(
        f"The cron expression {text!r} never fires: fields 3 to 5 name a date that no year has.",
        hint="L as day of month is the last day of every month.",
    )


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
