"""Cron expressions: which are read and how, which are refused and why; single fires that are worth a name."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain.errors import InvalidSchedule
from penstock.domain.instant import DAY, HOUR, MINUTE, from_datetime, to_datetime
from penstock.domain.schedule.cron import ALIASES, parse
from penstock.domain.schedule.zones import stretches, zone
from tests.domain.cron_oracle import random_expression, utc

START = from_datetime(utc("2026-11-15"), "start")
PARIS = ZoneInfo("Europe/Paris")

ACCEPTED = {
    "0 3 * * *": "0 3 * * *",
    "  0\t3  * * * ": "0 3 * * *",
    "0 0 29 2 *": "0 0 29 2 *",
    "0 0 29 2 1": "0 0 29 2 1",
    "0 0 29 2 */7": "0 0 29 2 */7",
    "0 0 1 JAN-DEC *": "0 0 1 JAN-DEC *",
    "0 0 * * mon-fri": "0 0 * * MON-FRI",
    "0 0 * * mon-sun": "0 0 * * MON-7",
    "0 0 * * sun-mon": "0 0 * * SUN-MON",
    "0 0 * * sun-sun": "0 0 * * SUN-SUN",
    "0 0 * * 7": "0 0 * * 7",
    "0 0 * * 0": "0 0 * * 0",
    "0 0 L * *": "0 0 L * *",
    "0 0 LW * *": "0 0 LW * *",
    "0 0 * * 5L": "0 0 * * 5L",
    "0 0 * * MON#2": "0 0 * * MON#2",
    "0 0 31 2 1": "0 0 31 2 1",
    "5/15 * * * *": "5/15 * * * *",
    "*/59 * * * *": "*/59 * * * *",
    f"{','.join(map(str, range(60)))} * * * *": f"{','.join(map(str, range(60)))} * * * *",
    "@Daily": "0 0 * * *",
    **ALIASES,
}

REFUSED = {
    "": "has 0 fields. Give five: minute, hour, day of month, month, day of week",
    "   ": "has 0 fields",
    "* * * *": "has 4 fields",
    "0 * * * * *": "has 6 fields.*no field for seconds or years; an interval",
    "0 0 * * * * 2027": "has 7 fields.*seconds or years",
    "0 3 * *\n*": r"holds '\\n'.*Only ASCII",
    "0 3\xa0* * *": r"holds '\\xa0'.*Only ASCII",
    "0 3 * * * \x00": r"holds '\\x00'",
    "0 3 * * frı": "holds 'ı'",
    "٥ * * * *": "holds '٥'",
    "１ * * * *": "holds '１'",
    "60 * * * *": r"field 1: '60' is no minute. Allowed: 0 to 59",
    "* 24 * * *": r"field 2: '24' is no hour. Allowed: 0 to 23",
    "0 0 0 * *": r"field 3: '0' is no day of month. Allowed: 1 to 31, L",
    "0 0 32 * *": "field 3: '32' is no day of month",
    "0 0 1 13 *": "field 4: '13' is no month. Allowed: 1 to 12, JAN to DEC",
    "0 0 1 0 *": "field 4: '0' is no month",
    "0 0 * * 8": r"field 5: '8' is no day of week. Allowed: 0 to 7 \(0 and 7 are Sunday\)",
    "0 0 31 2 *": "never fires: fields 3 to 5 name a date that no year has",
    "0 0 30 2 *": "never fires",
    "0 0 31 4,6,9,11 *": "never fires",
    "0 0 30,31 2 */2": "never fires",
    "*/0 * * * *": "field 1: '\\*/0' is no minute",
    "*/-1 * * * *": "field 1: '\\*/-1' is no minute",
    "*/61 * * * *": "field 1: the step of '\\*/61' leaves one minute. Give that one without a step",
    "5-5/10 * * * *": "field 1: the step of '5-5/10' leaves one minute",
    "05-5/10 * * * *": "field 1: the step of '05-5/10' leaves one minute",
    "0 0 L/2 * *": "field 3: the step of 'L/2' leaves one day of month",
    "5-1 * * * *": "field 1: '5-1' is no minute",
    "1-5/0 * * * *": "field 1: '1-5/0'",
    "1,,2 * * * *": "field 1: '1,,2'",
    "1- * * * *": "field 1: '1-'",
    "-5 * * * *": "field 1: '-5'",
    "*/5/5 * * * *": "field 1: '\\*/5/5'",
    "1.5 * * * *": "field 1: '1.5'",
    "+5 * * * *": "field 1: '\\+5'",
    "0x5 * * * *": "field 1: '0X5'",
    "1_0 * * * *": "field 1: '1_0'",
    "0 0 ? * *": "field 3: '\\?' is no day of month. Write \\* instead",
    "L * * * *": "field 1: 'L' is no minute",
    "0 0 15W * *": "field 3: '15W' is no day of month. The weekday nearest",
    "0 0 * * L": "field 5: 'L' is no day of week",
    "0 0 * * 1#6": "field 5: '1#6' is no day of week",
    "0 0 * * FRI-MON": "field 5: 'FRI-MON'",
    "0 0 JAN * *": "field 3: 'JAN'",
    "H * * * *": "field 1: 'H' is no minute. Give a number; a schedule's jitter",
    "H/15 * * * *": "jitter spreads the load",
    "R 3 * * *": "jitter spreads the load",
    "@reboot": "'@reboot' is not known. Nothing here starts with the machine",
    "@every 0s": "'@every 0s' is not known. Make it a schedule of the kind interval",
    "@fortnightly": "is not known. There are @hourly, @daily",
    "@": "is not known",
    "CRON_TZ=Asia/Tokyo 0 3 * * *": "sets a variable. Pass the time zone separately: timezone=",
    "TZ=Asia/Tokyo 0 3 * * *": "sets a variable",
    f"{','.join(['1'] * 5000)} * * * *": "has 10007 characters; 500 are allowed",
    f"{'*' * 400} * * * *": "field 1:",
    f"{'1-' * 200} * * * *": "field 1:",
    f"{'9' * 400} * * * *": "field 1:",
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_an_expression_is_read_and_written_the_same_way_by_everyone(text: str) -> None:
    cron = parse(text)

    assert cron.expression == ACCEPTED[text]
    assert parse(cron.expression) == cron
    assert cron.sentence()


@pytest.mark.parametrize("text", REFUSED)
def test_an_expression_that_cannot_be_read_is_refused_with_place_and_remedy(text: str) -> None:
    with pytest.raises(InvalidSchedule, match=REFUSED[text]) as caught:
        parse(text)

    assert repr(text)[1:20] in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, ["0", "3"], b"0 3 * * *"])
def test_what_is_no_text_is_no_expression(value: object) -> None:
    with pytest.raises(InvalidSchedule, match="is a text, not"):
        parse(value)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.text(alphabet="0123456789*/-,#LWHRJANMOSU@= \t?", max_size=30))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    try:
        cron = parse(text)
    except InvalidSchedule:
        return
    assert cron.next(START, PARIS) is not None
    assert cron.sentence()


@pytest.mark.parametrize("name", ["UTC", "EST", "Etc/GMT-14", "Europe/Paris", "America/Argentina/Ushuaia"])
def test_a_zone_is_found_by_its_name(name: str) -> None:
    assert zone(name) == ZoneInfo(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "1 to 64 characters"),
        ("x" * 300, "1 to 64 characters"),
        (None, "None is none"),
        ("local", "no time zone 'local'"),
        ("localtime", "no time zone 'localtime'"),
        ("UTC+3", "no time zone"),
        ("GMT+25", "no time zone"),
        ("america/new_york", "Did you mean 'America/New_York'"),
        ("Europe/Pariss", "Did you mean 'Europe/Paris'"),
        ("utc", "Did you mean 'UTC'"),
        ("../../etc/passwd", "no time zone"),
        ("/etc/localtime", "no time zone"),
        ("UTC\0", "no time zone"),
        ("America", "no time zone 'America'"),
        ("tzdata.zi", "no time zone"),
        ("zone.tab", "no time zone"),
        ("posix/Europe/Paris", "no time zone"),
        ("Europe/Paris ", "Did you mean 'Europe/Paris'"),
        ("\ud800", "no time zone"),
    ],
)
def test_a_zone_that_is_none_is_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidSchedule, match=said):
        zone(name)


@settings(deadline=None)
@given(
    st.integers(0, 2**32), st.integers(0, 100 * 365 * DAY), st.sampled_from(["UTC", "America/Havana", "Africa/Cairo"])
)
def test_the_next_fire_is_after_the_moment_and_nothing_lies_between(seed: int, moment: int, name: str) -> None:
    text = random_expression(random.Random(seed)).text
    try:
        cron = parse(text)
    except InvalidSchedule:
        return

    instant = cron.next(moment, zone(name))

    assert instant is not None
    assert instant > moment
    assert cron.next(instant - 1, zone(name)) == instant
    assert cron.latest(instant - 1, moment, zone(name)) is None
    assert cron.latest(instant, moment, zone(name)) == instant
    assert cron.count(moment, instant, zone(name)) == 1


def test_both_day_fields_together_mean_either_unless_one_begins_with_a_star() -> None:
    assert _days("0 0 13 * FRI", 30) == ["20", "27", "04", "11", "13"]
    assert _days("0 0 */13 * FRI", 70) == ["27", "01"]
    assert _days("0 0 29 2 1", 1, start=utc("2028-02-28T12:00")) == ["29"]


def test_a_leap_day_is_found_across_the_year_that_has_none() -> None:
    after = from_datetime(utc("2096-03-01"), "")

    assert _text(parse("0 0 29 2 *").next(after, zone("UTC"))) == "2104-02-29 00:00"
    assert _text(parse("0 0 29 2 */7").next(after, zone("UTC"))) == "2128-02-29 00:00"


def test_the_second_pass_of_an_hour_does_not_repeat_a_fixed_time() -> None:
    new_york = ZoneInfo("America/New_York")
    second_pass = datetime(2026, 11, 1, 1, 10, fold=1, tzinfo=new_york)

    instant = parse("30 1 * * *").next(from_datetime(second_pass, ""), new_york)

    assert instant is not None
    assert to_datetime(instant).astimezone(new_york).isoformat() == "2026-11-02T01:30:00-05:00"


@pytest.mark.parametrize(
    ("text", "name", "after", "fires"),
    [
        ("*/25 1-18/2 LW * 0", "Pacific/Chatham", "2020-04-03T00:00", "2020-04-05 01:00"),
        ("* 2 * * *", "Australia/Lord_Howe", "2026-04-05T01:00", "2026-04-05 02:00"),
        ("*/5 0 24 * *", "Africa/Cairo", "2026-04-23T22:00", "2026-05-24 00:00"),
    ],
)
def test_a_rhythm_finds_its_way_around_odd_jumps(text: str, name: str, after: str, fires: str) -> None:
    place = ZoneInfo(name)

    assert (
        _local(parse(text).next(from_datetime(datetime.fromisoformat(after).replace(tzinfo=place), ""), place), place)
        == fires
    )


def test_there_is_an_end_of_time() -> None:
    end = from_datetime(utc("9989-12-30"), "")

    assert _text(parse("0 0 1 1 *").next(end, PARIS)) == "9989-12-31 23:00"
    assert parse("0 0 1 6 *").next(end, PARIS) is None
    assert parse("* * * * *").next(from_datetime(utc("9999-12-31"), ""), PARIS) is None


def test_a_date_that_a_zone_skipped_is_made_up_for_once() -> None:
    apia = ZoneInfo("Pacific/Apia")
    before = from_datetime(datetime(2011, 12, 29, 13, tzinfo=apia), "")

    noon, midnight = parse("0 12 * * *"), parse("0 0 * * *")

    assert _local(noon.next(before, apia), apia) == "2011-12-31 00:00"
    assert _local(midnight.next(before, apia), apia) == "2011-12-31 00:00"
    assert noon.count(before, before + 2 * DAY, apia) == 3
    assert midnight.count(before, before + DAY + 12 * HOUR, apia) == 2


def test_a_day_is_cut_where_the_clock_jumps() -> None:
    day = from_datetime(utc("2026-03-29"), "") // DAY

    before, after = stretches(PARIS, day)

    assert (before.offset, after.offset) == (3600, 7200)
    assert before.end == after.start == day * 86_400 + 3600
    assert after.start + after.offset - after.shown == 3600
    assert len(stretches(PARIS, day + 1)) == 1


def test_a_count_stops_at_its_cap() -> None:
    minutely = parse("* * * * *")

    assert minutely.count(START, START + 100 * MINUTE, PARIS) == 100
    assert minutely.count(START, START + 100 * MINUTE, PARIS, cap=70) == 70
    assert minutely.count(START, START - DAY, PARIS) == 0


def test_the_newest_fire_of_an_empty_window_is_none() -> None:
    assert parse("0 0 29 2 *").latest(START, START - 365 * DAY, PARIS) is None
    assert _text(parse("0 0 29 2 *").latest(START, 0, zone("UTC"))) == "2024-02-29 00:00"


@pytest.mark.parametrize(
    ("text", "gap"),
    [("* * * * *", MINUTE), ("*/20 * * * *", 20 * MINUTE), ("0 3 * * *", DAY), ("50 23,0 * * *", HOUR)],
)
def test_the_shortest_gap_is_that_between_the_closest_fires(text: str, gap: int) -> None:
    assert parse(text).shortest_gap() == gap


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 3 * * *", "At 03:00 every day"),
        ("*/15 * * * *", "Every 15th minute of every hour"),
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday"),
        ("0 0 21 * *", "At 00:00 on the 21st day of every month"),
        ("0 0 22 * *", "At 00:00 on the 22nd day of every month"),
        ("@hourly", "At the start of every hour"),
    ],
)
def test_an_expression_says_in_english_what_it_means(text: str, said: str) -> None:
    assert parse(text).sentence() == said


def _days(text: str, days: int, start: datetime = datetime(2026, 11, 15, tzinfo=UTC)) -> list[str]:
    cron, found = parse(text), []
    instant = cron.next(from_datetime(start, ""), zone("UTC"))
    while instant is not None and to_datetime(instant) <= start + timedelta(days=days):
        found.append(f"{to_datetime(instant):%d}")
        instant = cron.next(instant, zone("UTC"))
    return found


def _text(instant: int | None) -> str:
    return "never" if instant is None else f"{to_datetime(instant):%Y-%m-%d %H:%M}"


def _local(instant: int | None, place: ZoneInfo) -> str:
    return "never" if instant is None else f"{to_datetime(instant).astimezone(place):%Y-%m-%d %H:%M}"
