"""Timetables: what is due, what is made up for, what comes next."""

from __future__ import annotations

import gc
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain.errors import InvalidInput, InvalidSchedule
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, from_datetime, maybe_datetime, to_datetime
from penstock.domain.schedule.due_ticks import (
    GRACE,
    PlannedTick,
    check,
    due_at,
    next_tick_after,
    plan_unpaused,
    with_next_tick,
)
from penstock.domain.schedule.preview import preview, relative
from penstock.domain.schedule.recurrence import every, recurrence
from penstock.domain.schedule.schedule import Kind, Missed, Schedule, ScheduleRow

START = from_datetime(datetime(2026, 11, 15, tzinfo=UTC), "start")
EACH_SECOND: dict[str, Any] = {"kind": Kind.INTERVAL, "expression": "1s"}
EACH_MINUTE: dict[str, Any] = {"kind": Kind.CRON, "expression": "* * * * *"}
HOURLY: dict[str, Any] = {"kind": Kind.INTERVAL, "expression": "1h"}
NOON = "2026-11-15T12:00:00Z"


# --- what an expression means


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("1s", SECOND),
        ("90s", 90 * SECOND),
        ("15m", 15 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("2d", 2 * DAY),
        ("1d1h1m1s", DAY + HOUR + MINUTE + SECOND),
        ("366d", 366 * DAY),
        ("015m", 15 * MINUTE),
    ],
)
def test_an_interval_ticks_at_its_multiples_since_1970(text: str, step: int) -> None:
    schedule = _schedule(kind=Kind.INTERVAL, expression=text)

    instant = next_tick_after(schedule, START)

    assert instant is not None
    assert instant % step == 0
    assert 0 < instant - START <= step
    assert next_tick_after(schedule, instant) == instant + step


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "0s", "0", "15", "-5s", "1us", "0.5s", "1e3s", "nan", "15 m", "15M", "15min", "1m1h", "1m1m", "s"],
        *["PT15M", "P1M", "1y", "367d", "1000000000000s", "999999999d", "٥s", "１s", "1h\n", "1h from", "1h from noon"],
        *["1h from 2026-11-15", "1h from 2026-11-15T00:00:00", "1h  from 2026-11-15T00:00:00Z", "x" * 200],
    ],
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule):
        recurrence(Kind.INTERVAL, text)


def test_an_interval_may_have_a_first_instant() -> None:
    schedule = _schedule(kind=Kind.INTERVAL, expression=f"7d from {NOON}")
    noon = START + 12 * HOUR

    assert next_tick_after(schedule, 0) == noon
    assert next_tick_after(schedule, noon - 1) == noon
    assert next_tick_after(schedule, noon) == noon + 7 * DAY


@pytest.mark.parametrize("zone", ["Europe/Paris", "UTC"])
def test_an_interval_is_real_time_whatever_the_clocks_do(zone: str) -> None:
    schedule = _schedule(kind=Kind.INTERVAL, expression="1h", timezone=zone)
    instant = from_datetime(datetime(2026, 3, 28, tzinfo=UTC), "")

    for _ in range(48):
        after = next_tick_after(schedule, instant)
        assert after == instant + HOUR
        instant = after


@settings(deadline=None)
@given(st.integers(1, 366 * 86_400))
def test_a_length_of_time_becomes_the_expression_that_means_it(seconds: int) -> None:
    assert recurrence(Kind.INTERVAL, every(seconds)).shortest_gap() == seconds * SECOND
    assert every(timedelta(seconds=seconds)) == every(seconds)


def test_a_length_of_time_may_come_with_its_first_instant() -> None:
    assert every(5400) == "1h30m"
    assert every(5400, start=datetime(2026, 11, 15, 12, tzinfo=UTC)) == f"1h30m from {NOON}"


@pytest.mark.parametrize(
    "value", [0, 0.5, -1, float("nan"), float("inf"), 10**12, timedelta(microseconds=1), True, "5"]
)
def test_a_length_of_time_that_is_no_interval_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        every(value)


@pytest.mark.parametrize("text", [NOON, "2026-11-15T13:00:00+01:00", "2026-11-15 12:00:00+00:00"])
def test_once_is_one_instant(text: str) -> None:
    schedule = _schedule(kind=Kind.ONCE, expression=text)

    assert next_tick_after(schedule, START) == START + 12 * HOUR
    assert next_tick_after(schedule, START + 12 * HOUR) is None


@pytest.mark.parametrize(
    "text", ["", "noon", "2026-11-15", "2026-11-15T12:00:00", "1969-01-01T00:00:00Z", "2026-13-01T00:00Z"]
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"is no instant\. Write date, time and offset"):
        recurrence(Kind.ONCE, text)


# --- what is due


def test_nothing_is_due_before_the_next_tick_or_without_one() -> None:
    assert plan_unpaused(_row(next_run_at=START + 1), START) == []
    assert plan_unpaused(_row(next_run_at=None), START) == []


def test_a_tick_on_time_is_made_and_leads_to_the_next() -> None:
    (turn,) = plan_unpaused(_row(**HOURLY, next_run_at=START), START + SECOND)

    assert turn.make
    assert (turn.tick.schedule, turn.tick.revision) == ("nightly", 7)
    assert (turn.tick.instant, turn.tick.next_run_at, turn.tick.passed_over) == (START, START + HOUR, 0)


@pytest.mark.parametrize("missed", list(Missed))
def test_ticks_that_are_a_little_late_are_all_made(missed: Missed) -> None:
    turns = plan_unpaused(_row(**EACH_SECOND, missed=missed, missed_max=2, next_run_at=START), START + 20 * SECOND)

    assert [turn.tick.instant for turn in turns] == [START + number * SECOND for number in range(21)]
    assert _joined(turns)


def test_skip_makes_only_what_is_on_time() -> None:
    row = _row(**HOURLY, missed=Missed.SKIP, next_run_at=START)

    (on_time,) = plan_unpaused(row, START + 5 * HOUR + GRACE)
    (late,) = plan_unpaused(row, START + 5 * HOUR + GRACE + 1)

    assert (on_time.make, on_time.tick.instant, on_time.tick.passed_over) == (True, START + 5 * HOUR, 5)
    assert (late.make, late.tick.instant, late.tick.passed_over) == (False, START + 5 * HOUR, 5)
    assert late.tick.next_run_at == START + 6 * HOUR


def test_latest_makes_the_newest_within_the_window() -> None:
    row = _row(**HOURLY, missed=Missed.LATEST, missed_window=30 * MINUTE, next_run_at=START)

    (within,) = plan_unpaused(row, START + 5 * HOUR + 30 * MINUTE)
    (beyond,) = plan_unpaused(row, START + 5 * HOUR + 31 * MINUTE)

    assert (within.make, within.tick.instant, within.tick.passed_over) == (True, START + 5 * HOUR, 5)
    assert (beyond.make, beyond.tick.instant, beyond.tick.passed_over) == (False, START + 5 * HOUR, 5)


def test_all_makes_the_newest_so_many_and_counts_the_rest() -> None:
    row = _row(**HOURLY, missed=Missed.ALL, missed_max=3, next_run_at=START)

    turns = plan_unpaused(row, START + 9 * HOUR + MINUTE)

    assert [turn.tick.instant for turn in turns] == [START + 7 * HOUR, START + 8 * HOUR, START + 9 * HOUR]
    assert [turn.tick.passed_over for turn in turns] == [7, 0, 0]
    assert all(turn.make for turn in turns)
    assert _joined(turns)
    assert turns[-1].tick.next_run_at == START + 10 * HOUR


def test_all_makes_nothing_older_than_the_window() -> None:
    row = _row(**HOURLY, missed=Missed.ALL, missed_window=2 * HOUR, next_run_at=START)

    turns = plan_unpaused(row, START + 9 * HOUR + MINUTE)

    assert [turn.tick.instant for turn in turns] == [START + 8 * HOUR, START + 9 * HOUR]
    assert turns[0].tick.passed_over == 8


def test_nothing_at_or_before_the_mark_is_made_again() -> None:
    row = _row(**HOURLY, missed=Missed.ALL, next_run_at=START, mark=START + 2 * HOUR)

    turns = plan_unpaused(row, START + 4 * HOUR + MINUTE)

    assert [turn.tick.instant for turn in turns] == [START + 3 * HOUR, START + 4 * HOUR]


def test_a_stored_tick_is_made_even_if_the_zone_has_other_rules_by_now() -> None:
    odd = START + 17 * MINUTE

    turns = plan_unpaused(_row(**HOURLY, missed=Missed.ALL, next_run_at=odd), START + 2 * HOUR)

    assert [turn.tick.instant for turn in turns] == [odd, START + HOUR, START + 2 * HOUR]


@pytest.mark.parametrize(("missed", "make"), [(Missed.SKIP, False), (Missed.LATEST, True), (Missed.ALL, True)])
def test_once_is_made_up_for_like_any_other(missed: Missed, make: bool) -> None:
    row = _row(kind=Kind.ONCE, expression=NOON, missed=missed, next_run_at=START + 12 * HOUR)

    (turn,) = plan_unpaused(row, START + DAY)

    assert (turn.make, turn.tick.instant, turn.tick.next_run_at) == (make, START + 12 * HOUR, None)


@settings(deadline=None)
@given(
    st.sampled_from([EACH_MINUTE, HOURLY, {"kind": Kind.CRON, "expression": "*/7 1-5 * * *"}]),
    st.sampled_from(list(Missed)),
    st.integers(1, 5),
    st.none() | st.integers(1, 10).map(lambda hours: hours * HOUR),
    st.integers(0, 86_400).map(lambda seconds: seconds * SECOND),
)
def test_every_instant_is_made_or_counted_once(
    timing: dict[str, Any], missed: Missed, most: int, window: int | None, away: int
) -> None:
    first = next_tick_after(_schedule(**timing), START)
    assert first is not None
    row = _row(**timing, missed=missed, missed_max=most, missed_window=window, next_run_at=first)
    expected: list[int] = []
    instant: int | None = first
    while instant is not None and instant <= first + away:
        expected.append(instant)
        instant = next_tick_after(row.schedule, instant)

    turns = plan_unpaused(row, first + away)

    assert sum(1 + turn.tick.passed_over for turn in turns) == len(expected)
    assert [turn.tick.instant for turn in turns] == expected[-len(turns) :]
    assert turns[-1].tick.next_run_at == instant
    assert _joined(turns)


# --- the work does not grow with what was missed


@pytest.mark.parametrize("missed", list(Missed))
def test_a_hundred_thousand_missed_seconds_cost_as_much_as_a_hundred(missed: Missed) -> None:
    row = _row(**EACH_SECOND, missed=missed, missed_max=10, next_run_at=START)

    few, some_steps = _counted(row, START + 100 * SECOND)
    many, steps = _counted(row, START + 100_000 * SECOND)

    assert few[0].tick.passed_over + len(few) == 101
    assert many[0].tick.passed_over + len(many) == 100_001
    assert steps == some_steps < 500


@pytest.mark.parametrize("missed", list(Missed))
def test_a_hundred_thousand_missed_minutes_cost_only_their_seventy_days(missed: Missed) -> None:
    away = 100_000 * MINUTE
    row = _row(**EACH_MINUTE, timezone="Europe/Paris", missed=missed, missed_max=10, next_run_at=START)
    daily = _row(kind=Kind.CRON, expression="0 0 * * *", timezone="Europe/Paris", missed=missed, next_run_at=START)

    many, steps = _counted(row, START + away)
    _, steps_of_seventy = _counted(daily, START + away)

    assert many[0].tick.passed_over + len(many) == 100_001
    assert steps < 70 * 150
    assert steps < 3 * steps_of_seventy


def _counted(row: ScheduleRow, now: int) -> tuple[list[PlannedTick], int]:
    """The plan, and how many calls of functions it took."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    # What is known of a zone is found out once and kept; other tests may have done that already.
    plan_unpaused(row, now)
    before = sys.getprofile()
    # What the collector calls at its own times is not ours.
    gc.disable()
    sys.setprofile(count)
    try:
        turns = plan_unpaused(row, now)
    finally:
        sys.setprofile(before)
        gc.enable()
    return turns, steps


# --- declaring


def test_a_new_schedule_begins_with_its_next_instant() -> None:
    assert with_next_tick(_schedule(**HOURLY), None, START + 1).next_run_at == START + HOUR
    assert with_next_tick(_schedule(kind=Kind.ONCE, expression=NOON), None, START + DAY).next_run_at is None


def test_a_tick_that_waits_survives_a_restart_of_the_program() -> None:
    stored = _row(kind=Kind.CRON, expression="@daily", next_run_at=START)

    again = with_next_tick(_schedule(kind=Kind.CRON, expression="0 0 * * *"), stored, START + HOUR)

    assert again.next_run_at == START


def test_another_rhythm_begins_anew() -> None:
    stored = _row(kind=Kind.CRON, expression="0 0 * * *", next_run_at=START)
    now = START + HOUR

    assert (
        with_next_tick(_schedule(kind=Kind.CRON, expression="0 6 * * *"), stored, now).next_run_at == START + 6 * HOUR
    )
    tokyo = _schedule(kind=Kind.CRON, expression="0 0 * * *", timezone="Asia/Tokyo")
    assert with_next_tick(tokyo, stored, now).next_run_at == START + 15 * HOUR


def test_what_was_missed_while_disabled_is_not_made_up_for() -> None:
    stored = _row(**HOURLY, enabled=False, next_run_at=START)

    assert with_next_tick(_schedule(**HOURLY), stored, START + DAY + 1).next_run_at == START + DAY + HOUR


def test_declaring_goes_on_behind_the_mark_even_if_the_clock_was_put_back() -> None:
    stored = _row(**HOURLY, next_run_at=START + 3 * HOUR, mark=START + 2 * HOUR)

    assert with_next_tick(_schedule(**HOURLY), stored, START).next_run_at == START + 3 * HOUR


# --- jitter


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20).filter(lambda key: "\0" not in key), st.integers(0, 2**52), st.integers(1, DAY))
def test_jitter_delays_by_less_than_its_limit_and_always_the_same(key: str, instant: int, jitter: int) -> None:
    schedule = _schedule(key, jitter=jitter)

    due = due_at(schedule, instant)

    assert 0 <= due - instant < jitter
    assert due_at(_schedule(key, jitter=jitter, expression="0 5 * * *"), instant) == due


def test_jitter_is_the_same_in_every_release() -> None:
    assert due_at(_schedule(jitter=HOUR), START) - START == 910_748_966


def test_jitter_spreads_schedules_and_instants() -> None:
    by_instant = {due_at(_schedule(jitter=HOUR), START + day * DAY) - day * DAY for day in range(100)}
    by_key = {due_at(_schedule(f"job {number}", jitter=HOUR), START) for number in range(100)}

    assert len(by_instant) == len(by_key) == 100
    assert max(by_key) - min(by_key) > 50 * MINUTE


def test_without_jitter_a_job_is_due_at_its_instant() -> None:
    assert due_at(_schedule(), START) == START


# --- checking


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"expression": "61 * * * *"}, "field 1: '61' is no minute"),
        ({"timezone": "Mars"}, "no time zone 'Mars'"),
        ({"kind": Kind.INTERVAL, "expression": "0s"}, "1 second to 366 days"),
        ({"kind": Kind.ONCE, "expression": "soon"}, "'soon' is no instant"),
        ({"definition_key": ""}, "''"),
        ({"definition_key": "no spaces"}, "'no spaces'"),
        ({"params_text": "[]"}, "params must be a JSON object"),
        ({"params_text": "{"}, "params"),
        ({"priority": 21}, "priority must be an integer from 0 to 20"),
        ({"definition_version": 0}, "version must be a positive integer"),
        ({"missed_max": 10_001}, "missed_max must be 1 to 10000"),
        ({"missed_window": 0}, "missed_window must be at least one second"),
        ({"jitter": DAY}, "jitter must be less than the 1 d between two ticks"),
        ({**HOURLY, "jitter": HOUR}, "jitter must be less than the 1 h between"),
        ({"owner": "nobody"}, "owner is 'code' or 'operator'"),
    ],
)
def test_a_schedule_that_cannot_work_is_refused_by_name(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSchedule, match=f"Schedule 'nightly': .*{said}"):
        check(_schedule(**facts))


@pytest.mark.parametrize("key", [".", ".."])
def test_a_schedule_that_no_url_can_name_is_refused(key: str) -> None:
    with pytest.raises(InvalidSchedule, match="no URL can name it"):
        check(_schedule(key=key))


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {
            "definition_version": 3,
            "priority": 0,
            "params_text": '{"a": 1}',
            "missed_window": SECOND,
            "jitter": DAY - 1,
            "owner": "code",
        },
        {"kind": Kind.ONCE, "expression": NOON, "jitter": 30 * DAY},
        {**HOURLY, "jitter": HOUR - 1},
    ],
)
def test_a_schedule_that_works_is_let_through(facts: dict[str, Any]) -> None:
    check(_schedule(**facts))


# --- preview


def test_a_preview_shows_local_and_utc_times_and_how_far_they_are() -> None:
    schedule = _schedule(timezone="Europe/Paris")

    shown = preview(schedule, from_datetime(datetime(2026, 10, 24, 12, tzinfo=UTC), ""), 2)

    assert shown.sentence == "At 03:00 every day, Europe/Paris time."
    assert [(fire.local, fire.utc, fire.relative) for fire in shown.fires] == [
        ("2026-10-25 03:00:00+01:00", "2026-10-25 02:00:00Z", "in 14 h"),
        ("2026-10-26 03:00:00+01:00", "2026-10-26 02:00:00Z", "in 1 d 14 h"),
    ]
    assert to_datetime(shown.fires[0].instant) == datetime(2026, 10, 25, 2, tzinfo=UTC)


def test_a_preview_ends_with_the_schedule() -> None:
    shown = preview(_schedule(kind=Kind.ONCE, expression=NOON), START, 5)

    assert shown.sentence == "Once, at 2026-11-15 12:00:00Z."
    assert len(shown.fires) == 1
    assert preview(_schedule(kind=Kind.ONCE, expression=NOON), START + DAY).fires == ()


def test_an_interval_is_told_in_words() -> None:
    assert preview(_schedule(kind=Kind.INTERVAL, expression="90m"), START).sentence == "Every 1 h 30 min."
    anchored = _schedule(kind=Kind.INTERVAL, expression=f"7d from {NOON}")
    assert preview(anchored, START).sentence == "Every 7 d from 2026-11-15 12:00:00Z."


@pytest.mark.parametrize("number", [0, -1, 101, True, 2.5, None])
def test_a_preview_of_no_sensible_length_is_refused(number: Any) -> None:
    with pytest.raises(InvalidInput, match="A preview shows 1 to 100 ticks"):
        preview(_schedule(), START, number)


@pytest.mark.parametrize(
    ("distance", "said"),
    [
        (SECOND - 1, "in less than 1 s"),
        (45 * SECOND + 7, "in 45 s"),
        (61 * SECOND, "in 1 min 1 s"),
        (3 * HOUR + 5 * MINUTE + 59 * SECOND, "in 3 h 5 min"),
        (DAY + 30 * MINUTE, "in 1 d"),
        (400 * DAY + 2 * HOUR, "in 400 d 2 h"),
    ],
)
def test_a_distance_is_told_in_its_two_largest_units(distance: int, said: str) -> None:
    assert relative(distance) == said


def _joined(turns: list[PlannedTick]) -> bool:
    """Each tick leads to the one after it."""
    return [turn.tick.next_run_at for turn in turns[:-1]] == [turn.tick.instant for turn in turns[1:]]


def _schedule(key: str = "nightly", **facts: Any) -> Schedule:
    return Schedule(key, **{"definition_key": "report", "kind": Kind.CRON, "expression": "0 3 * * *", **facts})


def _row(mark: int | None = None, **facts: Any) -> ScheduleRow:
    at = to_datetime(START)
    return ScheduleRow(_schedule(**facts), 7, None, maybe_datetime(mark), at, at)
