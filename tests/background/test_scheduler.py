"""The scheduler: what becomes of ticks, on each store, at moments that the tests choose."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, to_datetime
from penstock.domain.outcome import Cause, Failure, Outcome
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.schedule import Kind, Schedule
from penstock.domain.states import Status, Trigger
from penstock.operations.declared_schedules import apply_schedules
from penstock.storage import ports
from tests.background.clockwork import KINDS, START, Clockwork, opened
from tests.operations.hand import Hand

HOURS = [START + number * HOUR for number in range(1, 30)]


@pytest.fixture(params=KINDS)
def clockwork(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clockwork]:
    yield from opened(request.param, request, tmp_path)


@pytest.fixture
def quick(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clockwork]:
    """On SQLite in memory, for tests to which the store is all the same."""
    yield from opened("sqlite-memory", request, tmp_path)


# --- ticks


def test_a_tick_becomes_a_job_when_its_time_has_come(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", cron="0 * * * *", params={"x": 7}, priority=3)

    clockwork.tick(HOURS[0] - 1)
    assert clockwork.made == []
    clockwork.tick(HOURS[0])

    (job,) = clockwork.app.jobs.list().jobs
    assert clockwork.made == [job.id]
    assert (job.definition_key, job.params, job.priority, job.status) == ("work", {"x": 7}, 3, Status.QUEUED)
    assert (job.schedule_id, job.scheduled_for) == ("hourly", to_datetime(HOURS[0]))
    assert clockwork.scheduler.ticked == 1
    clockwork.tick(HOURS[0] + SECOND)
    assert len(clockwork.made) == 1


def test_a_look_says_when_to_look_again(clockwork: Clockwork) -> None:
    assert clockwork.tick() == 1.0
    clockwork.app.schedules.save("hourly", "work", every="1h")

    assert clockwork.tick() == 1.0
    assert clockwork.tick(HOURS[0] - SECOND // 4) == 0.25
    assert clockwork.tick(HOURS[0] - 1) == 0.005
    assert clockwork.tick(HOURS[0]) == 1.0


def test_several_schedules_of_one_definition_tick_each_by_themselves(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("paris", "work", cron="0 1 * * *", timezone="Europe/Paris", params={"x": 1})
    clockwork.app.schedules.save("tokyo", "work", cron="0 13 * * *", timezone="Asia/Tokyo", params={"x": 2})

    for hour in range(25):
        clockwork.tick(START + hour * HOUR)

    assert clockwork.instants("paris") == [START + DAY]  # 01:00 in winter
    assert clockwork.instants("tokyo") == [START + 4 * HOUR]


def test_an_interval_does_not_drift_however_late_it_is_looked_at(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("often", "work", every=timedelta(minutes=1), start=to_datetime(START + 7 * SECOND))

    moment, lags = START, [3, 11, 0, 29, 1, 17]
    for number in range(12):
        moment = START + 7 * SECOND + number * MINUTE + lags[number % 6] * SECOND
        clockwork.tick(moment)

    assert clockwork.instants("often") == [START + 7 * SECOND + number * MINUTE for number in range(12)]


def test_once_ticks_once_and_ends_disabled(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("party", "work", at=to_datetime(HOURS[0]))

    clockwork.tick(HOURS[0])
    clockwork.tick(HOURS[5])

    row = clockwork.app.schedules.get("party")
    assert clockwork.instants("party") == [HOURS[0]]
    assert (row.schedule.enabled, row.schedule.next_run_at) == (False, None)


def test_jitter_shifts_when_the_job_is_due_and_nothing_else(clockwork: Clockwork) -> None:
    row = clockwork.app.schedules.save("spread", "work", every="1h", jitter=600)

    for instant in HOURS[:6]:
        clockwork.tick(instant)

    jobs = list(clockwork.app.jobs.iterate(sort="createdAt"))
    due = [due_ticks.due_at(row.schedule, instant) for instant in HOURS[:6]]
    assert clockwork.instants("spread") == HOURS[:6]
    assert sorted(job.run_at for job in jobs) == [to_datetime(each) for each in sorted(due)]
    assert {job.status for job in jobs} == {Status.SCHEDULED}
    assert len({late - instant for late, instant in zip(due, HOURS, strict=False)}) == 6
    assert clockwork.app.schedules.get("spread").schedule.next_run_at == HOURS[6]


# --- what was missed


@pytest.mark.parametrize(
    ("facts", "made", "passed_over"),
    [
        ({"missed": "skip"}, [], 99_999),
        ({"missed": "latest"}, [100_000], 99_999),
        ({"missed": "all", "missed_max": 5}, list(range(99_996, 100_001)), 99_995),
        ({"missed": "all", "missed_max": 5, "missed_window": 120}, [99_999, 100_000], 99_998),
        ({"missed": "latest", "missed_window": 30}, [], 99_999),
    ],
)
def test_a_hundred_thousand_missed_ticks_cost_no_more_than_a_few(
    clockwork: Clockwork, facts: Any, made: list[int], passed_over: int
) -> None:
    for key, cron in (("long", "* * * * *"), ("short", "0 0 1 1 *")):
        clockwork.app.schedules.save(key, "work", cron=cron, **facts)
    clockwork.store.statements.clear()

    clockwork.tick(START + 100_000 * MINUTE + 45 * SECOND)

    assert clockwork.instants("long") == [START + number * MINUTE for number in made]
    assert clockwork.store.statements.total() < 20 + 20 * len(made)
    (first, *_) = clockwork.verdicts("long")
    assert first[2] == passed_over
    assert clockwork.events("schedule.missed") == ["long"]
    row = clockwork.app.schedules.get("long")
    assert row.schedule.next_run_at == START + 100_001 * MINUTE


def test_skip_still_makes_the_tick_that_is_on_time(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h", missed="skip")

    clockwork.tick(HOURS[4] + 10 * SECOND)

    assert clockwork.instants("hourly") == [HOURS[4]]
    assert clockwork.verdicts("hourly") == [(HOURS[4], "made", 4)]


def test_many_ticks_of_one_schedule_do_not_keep_the_others_waiting(quick: Clockwork) -> None:
    quick.app.schedules.save("backlog", "work", every="1s", missed="all", missed_max=600)
    quick.app.schedules.save("late", "work", every="10m")

    assert quick.tick(START + 10 * MINUTE) == 0.0
    assert len(quick.instants("late")) == 1
    assert len(quick.instants("backlog")) == 500
    quick.settle()

    assert quick.instants("backlog") == [START + 10 * MINUTE - number * SECOND for number in reversed(range(600))]


# --- overlap


@pytest.mark.parametrize(
    ("overlap", "verdicts"),
    [
        ("allow", ["made", "made", "made", "made"]),
        ("skip", ["made", "skipped", "skipped", "made"]),
        ("queue_one", ["made", "skipped", "made", "made"]),
    ],
)
def test_the_job_of_an_earlier_tick_is_in_the_way_or_not(
    clockwork: Clockwork, overlap: str, verdicts: list[str]
) -> None:
    clockwork.app.schedules.save("often", "work", every="10s", overlap=overlap)
    hand = Hand(clockwork.app)

    clockwork.tick(START + 10 * SECOND)
    clockwork.tick(START + 20 * SECOND)  # while the first one waits
    first = next(each for each in hand.claim() if each.job_id == clockwork.made[0])
    clockwork.tick(START + 30 * SECOND)  # while it runs
    hand.end(first, hand.succeeding())
    for claimed in hand.claim():
        hand.end(claimed, hand.succeeding())
    clockwork.tick(START + 40 * SECOND)

    assert [verdict for _, verdict, _ in clockwork.verdicts("often")] == verdicts
    assert clockwork.events("schedule.skipped") == ["often"] * verdicts.count("skipped")


@pytest.mark.parametrize("overlap", ["skip", "queue_one"])
def test_a_job_between_two_attempts_is_in_the_way(clockwork: Clockwork, overlap: str) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h", overlap=overlap)
    clockwork.tick(HOURS[0])
    hand = Hand(clockwork.app)
    failure = Failure("ValueError", "broken", "Traceback", "print")
    hand.end(hand.claim_one(clockwork.made[0]), Outcome(Trigger.FAIL, Cause.RAISED, failure=failure))

    clockwork.tick(HOURS[1])

    assert clockwork.app.get(clockwork.made[0]).status is Status.SCHEDULED
    assert [verdict for _, verdict, _ in clockwork.verdicts("hourly")] == ["made", "skipped"]


# --- pauses


def test_what_falls_into_a_pause_is_passed_over_when_it_is_resumed(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h", missed="all")
    clockwork.tick(HOURS[0])
    clockwork.app.schedules.pause("hourly", "repairs")

    clockwork.tick(HOURS[5])
    clockwork.app.schedules.resume("hourly")
    for instant in (HOURS[5] + MINUTE, HOURS[6]):
        clockwork.tick(instant)

    assert clockwork.verdicts("hourly") == [(HOURS[0], "made", 0), (HOURS[5], "missed", 4), (HOURS[6], "made", 0)]
    assert clockwork.instants("hourly") == [HOURS[0], HOURS[6]]
    assert clockwork.events("schedule.missed") == ["hourly"]


def test_a_pause_that_ends_by_itself_passes_over_what_fell_into_it_and_nothing_later(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h", missed="all")
    clockwork.app.schedules.pause("hourly", "repairs", until=to_datetime(HOURS[3] + MINUTE))

    clockwork.tick(HOURS[3])
    assert clockwork.verdicts("hourly") == []
    clockwork.tick(HOURS[6] + MINUTE)
    clockwork.tick(HOURS[7])

    assert clockwork.verdicts("hourly") == [
        (HOURS[3], "missed", 3),
        *[(instant, "made", 0) for instant in HOURS[4:8]],
    ]
    assert clockwork.events("schedule.missed") == ["hourly"]


def test_resuming_after_the_pause_was_over_keeps_the_ticks_behind_it(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h", missed="all")
    clockwork.app.schedules.pause("hourly", "repairs", until=to_datetime(HOURS[1]))
    clockwork.now = HOURS[3]

    clockwork.app.schedules.resume("hourly")
    clockwork.tick()

    assert clockwork.instants("hourly") == [HOURS[2], HOURS[3]]


def test_a_look_during_a_pause_waits_for_its_end(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h")
    clockwork.app.schedules.pause("hourly", "repairs", until=to_datetime(HOURS[3]))

    assert clockwork.tick(HOURS[3] - SECOND // 2) == 0.5


def test_a_tick_of_once_that_falls_into_a_pause_does_not_come_back(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("party", "work", at=to_datetime(HOURS[1]))
    clockwork.app.schedules.pause("party", "repairs", until=to_datetime(HOURS[2]))

    clockwork.tick(HOURS[3])

    assert clockwork.verdicts("party") == [(HOURS[1], "missed", 0)]
    assert not clockwork.app.schedules.get("party").schedule.enabled


def test_ticks_go_on_while_the_definition_or_everything_is_paused(clockwork: Clockwork) -> None:
    clockwork.app.schedules.save("hourly", "work", every="1h")
    clockwork.app.definitions.pause("work", "repairs")
    clockwork.tick(HOURS[0])
    clockwork.app.definitions.pause_all("repairs")
    clockwork.tick(HOURS[1])

    assert clockwork.instants("hourly") == HOURS[:2]
    assert {job.status for job in clockwork.app.jobs.list().jobs} == {Status.QUEUED}


# --- what cannot tick


def test_a_schedule_of_a_disabled_definition_rests_and_then_the_policy_decides(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    clockwork.app.job("other")(lambda: None)
    clockwork.app.definitions.register()
    clockwork.app.schedules.save("a", "work", every="1h")
    clockwork.app.schedules.save("b", "other", every="1h")
    clockwork.app.definitions.disable("work")

    with caplog.at_level(logging.WARNING, "penstock.worker"):
        assert clockwork.tick(HOURS[0]) == 1.0, "what rests hurries nobody"

    assert "schedule a cannot tick" in caplog.text
    assert (clockwork.instants("a"), clockwork.instants("b")) == ([], [HOURS[0]])
    assert (clockwork.scheduler.retry_pauses["a"].seconds, clockwork.scheduler.errors) == (1.0, 1)
    for seconds in (2.0, 4.0, 8.0):
        clockwork.steady += seconds
        clockwork.tick()
        assert clockwork.scheduler.retry_pauses["a"].seconds == seconds
    clockwork.tick()
    assert clockwork.scheduler.errors == 4

    clockwork.app.definitions.enable("work")
    clockwork.steady += 60
    clockwork.tick(HOURS[3] + MINUTE)

    assert clockwork.instants("a") == [HOURS[3]]
    assert clockwork.verdicts("a") == [(HOURS[3], "made", 3)]
    assert clockwork.scheduler.retry_pauses == {}


def test_the_longest_rest_is_a_minute(quick: Clockwork) -> None:
    quick.app.schedules.save("a", "work", every="1h")
    quick.app.definitions.disable("work")
    quick.now = HOURS[0]

    for _ in range(10):
        quick.steady += 100
        quick.tick()

    assert quick.scheduler.retry_pauses["a"].seconds == 60.0


def test_a_change_ends_the_rest_of_a_schedule(clockwork: Clockwork) -> None:
    _put(clockwork, "broken", kind=Kind.CRON, expression="not a rhythm")
    clockwork.tick()
    assert "broken" in clockwork.scheduler.retry_pauses

    clockwork.app.schedules.change("broken", every="1h")
    clockwork.tick(HOURS[0])

    assert clockwork.instants("broken") == [HOURS[0]]
    assert clockwork.scheduler.retry_pauses == {}


def test_a_schedule_of_an_unknown_definition_rests(clockwork: Clockwork) -> None:
    _put(clockwork, "orphan", definition_key="nowhere")
    clockwork.app.schedules.save("a", "work", every="1h")

    clockwork.tick(HOURS[0])

    assert "There is no definition 'nowhere'" in clockwork.scheduler.retry_pauses["orphan"].error
    assert clockwork.instants("a") == [HOURS[0]]


def test_an_error_of_our_own_stops_one_schedule_only(
    quick: Clockwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("a", "b", "c"):
        quick.app.schedules.save(key, "work", every="1h")
    draft = quick.scheduler._draft

    async def stumble(schedule: Schedule, instant: int) -> Any:
        if schedule.key == "b":
            raise RuntimeError("a mistake")
        return await draft(schedule, instant)

    monkeypatch.setattr(quick.scheduler, "_draft", stumble)
    quick.tick(HOURS[0])

    assert [quick.instants(key) for key in ("a", "b", "c")] == [[HOURS[0]], [], [HOURS[0]]]
    assert quick.scheduler.retry_pauses["b"].error == "a mistake"
    assert "Traceback" in caplog.text


def test_a_schedule_that_is_gone_does_not_rest_for_ever(clockwork: Clockwork) -> None:
    _put(clockwork, "orphan", definition_key="nowhere")
    clockwork.tick()
    assert list(clockwork.scheduler.retry_pauses) == ["orphan"]

    clockwork.app.schedules.delete("orphan")
    clockwork.tick()

    assert clockwork.scheduler.retry_pauses == {}


def test_however_many_rest_the_others_tick_and_nobody_hurries(quick: Clockwork) -> None:
    for number in range(230):
        _put(quick, f"orphan-{number}", definition_key="nowhere", next_run_at=START - HOUR)
    quick.app.schedules.save("last", "work", every="1h")
    quick.now = HOURS[0]

    pauses = [quick.tick() for _ in range(5)]

    assert pauses == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert quick.instants("last") == [HOURS[0]]
    assert quick.scheduler.errors == 230


def test_a_store_that_does_not_answer_is_no_fault_of_a_schedule(
    quick: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.app.schedules.save("a", "work", every="1h")

    def fail(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(ports.schedules, "tick_all", fail)
        with pytest.raises(StoreUnavailable):
            quick.tick(HOURS[0])
    assert (quick.scheduler.retry_pauses, quick.scheduler.errors) == ({}, 0)

    quick.tick()
    assert quick.instants("a") == [HOURS[0]]


# --- code that changes


def test_code_that_comes_and_goes_makes_no_tick_twice(clockwork: Clockwork) -> None:
    old = [_hourly("both"), _hourly("dropped")]
    new = [_hourly("both", priority=3), _hourly("added")]

    for number, instant in enumerate(HOURS[:8]):
        for code in (old, new) if number % 2 else (new, old):
            clockwork.app.session.hold(apply_schedules(clockwork.app.session, code, "app"))
            clockwork.tick(instant)

    assert clockwork.instants("both") == HOURS[:8]
    for key in ("dropped", "added"):
        instants = clockwork.instants(key)
        assert len(instants) == len(set(instants))
        assert set(instants) <= set(HOURS[:8])


# --- clocks that jump


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_jumps_neither_doubles_nor_loses_a_tick(clockwork: Clockwork, jump: int) -> None:
    clockwork.app.schedules.save("often", "work", every="5m", missed="all", missed_max=1000)

    shift = 0
    for number in range(60):
        shift = {20: jump, 40: 0}.get(number, shift)
        clockwork.tick(START + number * 5 * MINUTE + shift)

    last = START + 59 * 5 * MINUTE
    assert clockwork.instants("often") == list(range(START + 5 * MINUTE, last + 1, 5 * MINUTE))
    assert {verdict for _, verdict, _ in clockwork.verdicts("often")} == {"made"}


def _hourly(key: str, **facts: Any) -> Schedule:
    return Schedule(key, "work", Kind.INTERVAL, "1h", owner="code", **facts)


def _put(clockwork: Clockwork, key: str, **facts: Any) -> None:
    """A schedule that nobody would be let make."""
    facts = {"definition_key": "work", "kind": Kind.INTERVAL, "expression": "1h", "next_run_at": START, **facts}
    clockwork.store.run(ports.schedules.save(Schedule(key, **facts), by="test"))
