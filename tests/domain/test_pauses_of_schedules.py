"""Pauses: what falls into them is passed over, all of it in one turn."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.domain.definition import Pause
from penstock.domain.instant import HOUR, MINUTE, from_datetime, to_datetime
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.due_ticks import passed_over, plan
from penstock.domain.schedule.schedule import Kind, Missed, Schedule, ScheduleRow

START = from_datetime(datetime(2026, 11, 15, tzinfo=UTC), "start")


@pytest.mark.parametrize("missed", list(Missed))
@pytest.mark.parametrize("until", [START, START + 10 * MINUTE, START + 5 * HOUR, START + 100_000 * HOUR])
def test_all_that_is_due_is_passed_over_in_one_turn_whatever_the_policy(missed: Missed, until: int) -> None:
    turn = passed_over(_row(missed=missed), until)

    assert turn is not None
    newest = until // HOUR * HOUR
    assert (turn.make, turn.tick.instant, turn.tick.next_run_at) == (False, newest, newest + HOUR)
    assert turn.tick.passed_over == (newest - START) // HOUR


def test_what_comes_later_is_not_passed_over() -> None:
    assert passed_over(_row(), START - 1) is None


def test_behind_a_pause_the_policy_decides() -> None:
    row = _row(pause=Pause("repairs", "ann", START - HOUR, START + 2 * HOUR), missed=Missed.ALL)
    now = START + 5 * HOUR + MINUTE

    turns = plan(row, now)

    assert [(turn.tick.instant, turn.make) for turn in turns] == [
        (START + 2 * HOUR, False),
        *[(START + number * HOUR, True) for number in (3, 4, 5)],
    ]
    assert [turn.tick.next_run_at for turn in turns] == [START + number * HOUR for number in (3, 4, 5, 6)]


@pytest.mark.parametrize("until", [None, START - HOUR])
def test_a_pause_without_an_end_or_with_one_long_ago_changes_nothing(until: int | None) -> None:
    row = _row(pause=Pause("repairs", "ann", START - 2 * HOUR, until))

    assert plan(row, START + MINUTE) == due_ticks.plan_unpaused(row, START + MINUTE)


def _row(*, pause: Pause | None = None, missed: Missed = Missed.LATEST) -> ScheduleRow:
    schedule = Schedule(
        "hourly", "work", Kind.INTERVAL, "1h", missed=missed, missed_window=10 * HOUR, next_run_at=START
    )
    moment = to_datetime(START)
    return ScheduleRow(schedule, 1, pause, None, moment, moment)
