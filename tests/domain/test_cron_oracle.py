"""Cron against brute force, where clocks jump in every way they do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest

from penstock.domain.errors import InvalidSchedule
from penstock.domain.instant import from_datetime, to_datetime
from penstock.domain.schedule.cron import Cron, parse
from tests.conftest import Counts
from tests.domain.cron_oracle import Expression, Window, random_expression, transitions, utc

ODD_ZONES = [
    *["America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "Australia/Lord_Howe", "Pacific/Apia"],
    *["America/New_York", "Europe/London", "Africa/Casablanca", "Antarctica/Troll", "Pacific/Chatham", "UTC"],
]
EARLIER = {
    "Pacific/Apia": utc("2005-01-01"),  # skipped 30 December 2011
    "America/St_Johns": utc("2003-01-01"),  # put its clocks back at one minute past midnight
}
TEN_YEARS = timedelta(days=3653)


@pytest.mark.parametrize("name", [*ODD_ZONES, "America/St_Johns"])
def test_around_the_jumps_of_ten_years_the_fires_are_those_of_brute_force(name: str, counts: Counts) -> None:
    source = random.Random(name)

    for window in _jumps(name, source, counts(ci=12, soak=100)):
        for _ in range(counts(ci=6, soak=40)):
            _compare(window, ZoneInfo(name), _expression(source), source)


@pytest.mark.parametrize("name", ODD_ZONES)
@pytest.mark.timeout(1800)
def test_minute_by_minute_the_fires_are_those_of_brute_force(name: str, counts: Counts) -> None:
    source = random.Random(f"all of {name}")
    first, length = EARLIER.get(name, utc("2020-01-01")), timedelta(days=counts(ci=10, soak=92))
    quarters = [first + timedelta(days=92 * number) for number in range(40)]

    for start in source.sample(quarters, counts(ci=2, soak=40)):
        window = Window(ZoneInfo(name), start, start + length)
        for _ in range(3):
            _compare(window, ZoneInfo(name), _expression(source), source)


@pytest.mark.timeout(1800)
def test_every_zone_there_is_agrees_with_brute_force(counts: Counts) -> None:
    names = sorted(available_timezones() - {"localtime", "Factory"})
    source = random.Random(2)

    for name in source.sample(names, counts(ci=20, soak=len(names))):
        for window in _jumps(name, source, counts(ci=2, soak=100)):
            _compare(window, ZoneInfo(name), _expression(source), source)


def test_an_expression_is_refused_as_never_firing_only_if_no_calendar_has_its_date(counts: Counts) -> None:
    source = random.Random(3)
    days = [datetime(2000, 1, 1) + timedelta(days=number) for number in range(28 * 365 + 7)]
    refused = 0

    for _ in range(counts(ci=60, soak=2000)):
        month, weekday = source.choice([2, 4, 6, 9, 11]), source.choice(["*", "*/2", "1#5", "3"])
        day = source.choice([28, 29, 30, 31])
        weekdays = {"*": set(range(7)), "*/2": {0, 2, 4, 6}, "1#5": {(1, 5)}, "3": {3}}[weekday]
        expression = Expression(
            f"0 0 {day} {month} {weekday}",
            *map(frozenset, ({0}, {0}, {day}, {month}, weekdays)),  # type: ignore[arg-type]
        )
        try:
            parse(expression.text)
        except InvalidSchedule:
            refused += 1
            assert not any(expression.shows(each) for each in days), expression.text
        else:
            assert any(expression.shows(each) for each in days), expression.text

    assert refused > 0


def _jumps(name: str, source: random.Random, most: int) -> Iterator[Window]:
    zone, first = ZoneInfo(name), EARLIER.get(name, utc("2020-01-01"))
    hours = transitions(zone, first, first + TEN_YEARS)
    for hour in hours if len(hours) <= most else source.sample(hours, most):
        midnight = hour.replace(hour=0)
        yield Window(zone, midnight - timedelta(days=1), midnight + timedelta(days=2))


def _compare(window: Window, zone: ZoneInfo, expression: Expression, source: random.Random) -> None:
    cron, what = parse(expression.text), f"{expression.text} in {zone.key} from {window.first}"
    expected = window.fires(expression)

    assert _fires(cron, zone, window.first, window.last) == expected, what
    for _ in range(4):
        early, late = sorted(source.choice(window.inside) for _ in range(2))
        late += timedelta(seconds=source.randrange(60))
        between = [each for each in expected if early < each <= late]
        span = from_datetime(early, ""), from_datetime(late, "")
        assert cron.count(*span, zone) == len(between), f"{what}: {early} to {late}"
        newest = cron.latest(span[1], span[0], zone)
        assert (newest and to_datetime(newest)) == (between[-1] if between else None), f"{what}: {early} to {late}"


def _fires(cron: Cron, zone: ZoneInfo, first: datetime, last: datetime) -> list[datetime]:
    found: list[datetime] = []
    instant = cron.next(from_datetime(first, "") - 1, zone)
    while instant is not None and to_datetime(instant) < last:
        assert not found or to_datetime(instant) > found[-1]
        found.append(to_datetime(instant))
        instant = cron.next(instant, zone)
    return found


def _expression(source: random.Random) -> Expression:
    while True:
        expression = random_expression(source)
        try:
            parse(expression.text)
        except InvalidSchedule as error:
            if "never fires" not in str(error):
                raise
        else:
            return expression
