"""Schedules that are made, read, changed, paused and removed while the application runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import InvalidInput, NotFound, Penstock
from penstock.domain.context import RequestingJob
from penstock.domain.errors import Conflict, InvalidDefinition, InvalidSchedule, RevisionConflict
from penstock.domain.instant import HOUR, SECOND, to_datetime
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, ScheduleRow, Tick
from penstock.domain.states import Status
from penstock.operations.job_requests import StoreErrands
from penstock.storage.commands import admin, schedules

LATER = datetime(2100, 1, 1, tzinfo=UTC)


def report(day: str = "today", copies: int = 1) -> None:
    """What the schedules run."""


@pytest.fixture(autouse=True)
def definition(request: pytest.FixtureRequest) -> None:
    name = "app" if "app" in request.fixturenames else "memory_app"
    made: Penstock = request.getfixturevalue(name)
    made.job("report")(report)
    made.register()


def test_a_schedule_is_kept_as_it_was_said(app: Penstock) -> None:
    row = app.save_schedule(
        "nightly", "report", cron="0 3 * * *", timezone="Europe/Paris", params={"copies": 2}, definition_version=1,
        priority=4,
        missed="all", missed_max=7, missed_window=timedelta(hours=2), overlap="queue_one", jitter=90, by="ann",
    )  # fmt: skip

    kept = row.schedule
    assert app.get_schedule("nightly") == row
    assert app.schedules() == [row]
    assert (kept.key, kept.definition_key, kept.kind, kept.expression) == ("nightly", "report", Kind.CRON, "0 3 * * *")
    assert (kept.timezone, kept.params["copies"], kept.definition_version) == ("Europe/Paris", 2, 1)
    assert (kept.priority, kept.missed, kept.missed_max, kept.missed_window) == (4, Missed.ALL, 7, 2 * HOUR)
    assert (kept.overlap, kept.jitter, kept.owner, kept.enabled) == (Overlap.QUEUE_ONE, 90 * SECOND, "operator", True)
    assert kept.next_run_at is not None
    assert to_datetime(kept.next_run_at) > datetime.now(UTC)


async def test_each_call_has_its_async_twin(app: Penstock) -> None:
    await app.asave_schedule("nightly", "report", cron="0 3 * * *")
    await app.achange_schedule("nightly", cron="0 4 * * *")
    await app.apause_schedule("nightly", "repairs", until=LATER)
    paused = await app.aget_schedule("nightly")
    await app.aresume_schedule("nightly")
    job = await app.atrigger_schedule("nightly")
    ahead = await app.apreview_schedule("nightly", 2)

    assert paused.pause is not None
    assert (paused.pause.reason, paused.pause.by) == ("repairs", "python")
    assert [row.schedule.expression for row in await app.aschedules()] == ["0 4 * * *"]
    assert (await app.aget(job.id)).job.schedule_id == "nightly"
    assert (len(ahead.fires), await app.aschedule_ticks("nightly")) == (2, [])
    await app.adelete_schedule("nightly")
    assert await app.aschedules() == []
    await app.aclose()


@pytest.mark.parametrize(
    ("facts", "kind", "expression"),
    [
        ({"cron": "@daily"}, Kind.CRON, "@daily"),
        ({"every": 90}, Kind.INTERVAL, "1m30s"),
        ({"every": timedelta(days=7)}, Kind.INTERVAL, "7d"),
        ({"every": "15m"}, Kind.INTERVAL, "15m"),
        ({"every": 60, "start": LATER}, Kind.INTERVAL, "1m from 2100-01-01T00:00:00Z"),
        ({"at": LATER}, Kind.ONCE, "2100-01-01T00:00:00+00:00"),
    ],
)
def test_when_is_said_in_one_of_three_ways(memory_app: Penstock, facts: Any, kind: Kind, expression: str) -> None:
    kept = memory_app.save_schedule("s", "report", **facts).schedule

    assert (kept.kind, kept.expression) == (kind, expression)


@pytest.mark.parametrize(
    ("facts", "error"),
    [
        ({}, "Schedule 's': it has no time. Give one of cron, every and at"),
        ({"cron": "0 3 * * *", "every": 5}, "Schedule 's': cron and every are both given"),
        ({"cron": "0 3 * *"}, "Schedule 's': The cron expression '0 3 \\* \\*' has 4 fields"),
        ({"cron": 5}, "Schedule 's': cron must be a text"),
        ({"every": 0.5}, "Schedule 's': An interval must be whole seconds"),
        ({"every": True}, "Schedule 's': An interval must be seconds or a timedelta"),
        ({"every": "now and then"}, "Schedule 's': 'now and then' is no interval"),
        ({"every": "1h", "start": LATER}, "Schedule 's': give the start of a textual interval within it"),
        ({"cron": "@daily", "start": LATER}, "Schedule 's': start goes with every"),
        ({"at": datetime(2100, 1, 1)}, "Schedule 's': at has no time zone"),
        ({"at": "tomorrow"}, "Schedule 's': at must be a datetime"),
        ({"at": datetime(2001, 1, 1, tzinfo=UTC)}, "Schedule 's': 2001-01-01T00:00:00\\+00:00 is over"),
        ({"cron": "@daily", "timezone": "Europe/Pari"}, "Schedule 's': There is no time zone .* Did you mean"),
        ({"cron": "@daily", "timezone": 5}, "Schedule 's': A time zone's name"),
        ({"cron": "@daily", "missed": "never"}, "Schedule 's': missed is one of skip, latest, all, not 'never'"),
        ({"cron": "@daily", "missed": 1}, "Schedule 's': missed is one of"),
        ({"cron": "@daily", "missed_max": "many"}, "Schedule 's': missed_max must be an integer"),
        ({"cron": "@daily", "missed_max": 0}, "Schedule 's': .*missed_max must be at least 1"),
        ({"cron": "@daily", "missed_window": -1}, "Schedule 's': missed_window must be"),
        ({"cron": "@daily", "overlap": ["skip"]}, "Schedule 's': overlap is one of"),
        ({"cron": "@daily", "jitter": "5m"}, "Schedule 's': jitter must be seconds or a timedelta"),
        ({"every": 60, "jitter": 60}, "Schedule 's': jitter must be less than the 1 min"),
        ({"cron": "@daily", "priority": 21}, "Schedule 's': .*priority must be an integer from 0 to 20"),
        ({"cron": "@daily", "definition_version": "1"}, "Schedule 's': definition_version must be an integer"),
        ({"cron": "@daily", "enabled": "yes"}, "Schedule 's': enabled must be True or False"),
        ({"cron": "@daily", "params": [1]}, "Schedule 's': params must be a mapping"),
        ({"cron": "@daily", "params": {"copies": "two"}}, "Schedule 's': .*copies"),
        ({"cron": "@daily", "params": {"pages": 1}}, "Schedule 's': .*pages"),
        ({"cron": "@daily", "tiemzone": "UTC"}, "Schedule 's': 'tiemzone' is not a fact .* Did you mean 'timezone'"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_schedule(memory_app: Penstock, facts: Any, error: str) -> None:
    with pytest.raises(InvalidSchedule, match=error):
        memory_app.save_schedule("s", "report", **facts)

    assert memory_app.schedules() == []


@pytest.mark.parametrize("key", ["", "x" * 201, "a\0b", 5, None, "\ud800"])
def test_what_is_no_key_is_refused(memory_app: Penstock, key: Any) -> None:
    with pytest.raises(InvalidInput, match="schedule"):
        memory_app.save_schedule(key, "report", cron="@daily")


@pytest.mark.parametrize("key", [".", ".."])
def test_a_key_that_no_url_can_name_is_refused_wherever_it_comes_from(app: Penstock, key: str) -> None:
    with pytest.raises(InvalidSchedule, match="no URL can name it"):
        app.save_schedule(key, "report", cron="@daily")
    with pytest.raises(InvalidSchedule, match="no URL can name it"):
        app.schedule(key, "report", cron="@daily")
    with pytest.raises(InvalidDefinition, match="cannot be a definition's key"):
        app.job(key)(lambda: None)
    assert app.schedules() == []


def test_a_schedule_needs_a_definition_that_is_known(app: Penstock) -> None:
    with pytest.raises(NotFound, match="no definition 'nowhere'"):
        app.save_schedule("s", "nowhere", cron="@daily")
    with pytest.raises(InvalidSchedule, match="a definition or its key, not 5"):
        app.save_schedule("s", 5, cron="@daily")  # type: ignore[arg-type]


def test_saving_again_replaces_everything_but_the_pause(app: Penstock) -> None:
    app.save_schedule("s", "report", cron="@daily", priority=3)
    app.pause_schedule("s", "repairs")

    row = app.save_schedule("s", "report", every="1h")

    assert (row.schedule.kind, row.schedule.priority, row.revision) == (Kind.INTERVAL, None, 3)
    assert row.pause is not None


def test_a_change_leaves_the_rest_as_it_is(app: Penstock) -> None:
    app.save_schedule("s", "report", cron="0 3 * * *", params={"copies": 3}, priority=3, missed_window=60)

    row = app.change_schedule("s", timezone="Asia/Tokyo", definition_version=1, priority=None, missed_window=None)

    assert (row.schedule.expression, row.schedule.timezone) == ("0 3 * * *", "Asia/Tokyo")
    assert row.schedule.params["copies"] == 3
    assert (row.schedule.priority, row.schedule.missed_window, row.schedule.definition_version) == (None, None, 1)
    with pytest.raises(InvalidSchedule, match=r"Schedule 's': .*copies"):
        app.change_schedule("s", params={"copies": "x"})
    assert app.change_schedule("s", params={"copies": 4}).schedule.params != row.schedule.params


def test_a_change_of_what_somebody_else_changed_is_refused_if_asked_for(app: Penstock) -> None:
    first = app.save_schedule("s", "report", cron="@daily")
    app.change_schedule("s", priority=1)

    with pytest.raises(RevisionConflict, match="revision 2, not 1"):
        app.change_schedule("s", priority=2, revision=first.revision)
    with pytest.raises(RevisionConflict, match="revision 2, not 0"):
        app.change_schedule("s", priority=2, revision=0)
    assert app.change_schedule("s", priority=2, revision=2).revision == 3
    assert app.change_schedule("s", priority=3).revision == 4
    with pytest.raises(RevisionConflict, match="revision 4, not 0"):
        app.save_schedule("s", "report", cron="@weekly", revision=0)
    with pytest.raises(RevisionConflict, match="revision 4, not 1"):
        app.delete_schedule("s", revision=first.revision)
    app.delete_schedule("s", revision=4)
    assert app.save_schedule("s", "report", cron="@weekly", revision=0).revision == 1


async def test_a_schedule_is_previewed_before_it_is_saved(app: Penstock) -> None:
    ahead = await app.apreview_facts(3, cron="30 3 * * *", timezone="Asia/Kolkata")

    assert [fire.local[11:] for fire in ahead.fires] == ["03:30:00+05:30"] * 3
    assert app.preview_facts(1, every="90s").sentence == "Every 1 min 30 s."
    assert app.schedules() == []
    with pytest.raises(InvalidSchedule, match="has no time"):
        app.preview_facts(3)


def test_a_change_of_nothing_is_refused(memory_app: Penstock) -> None:
    memory_app.save_schedule("s", "report", cron="@daily")

    with pytest.raises(InvalidInput, match="Nothing of schedule 's' is to be changed"):
        memory_app.change_schedule("s")


def test_a_job_cannot_speak_of_schedules(memory_app: Penstock) -> None:
    memory_app.enter_job(StoreErrands(memory_app).of(RequestingJob("", "asking", None, "own")))

    calls: list[Any] = [memory_app.schedules, lambda: memory_app.trigger_schedule("s")]
    for call, name in zip(calls, ("schedules", "trigger_schedule"), strict=True):
        with pytest.raises(Conflict, match=rf"app\.{name} is not possible inside a job"):
            call()


def test_a_disabled_schedule_begins_anew_when_it_is_enabled(app: Penstock) -> None:
    app.save_schedule("s", "report", every="1h", enabled=False)
    assert app.store.run(schedules.next_tick()) is None

    row = app.change_schedule("s", enabled=True)

    now = app.store.run(admin.clock())
    assert row.schedule.next_run_at is not None
    assert now < row.schedule.next_run_at <= now + HOUR


def test_once_that_is_over_lives_again_with_another_instant(app: Penstock) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=60)
    row = app.save_schedule("party", "report", at=soon)
    app.store.run(schedules.tick(_tick_of(row), None, "allow"))
    assert not app.get_schedule("party").schedule.enabled

    again = app.change_schedule("party", at=LATER)

    assert again.schedule.enabled
    assert to_datetime(again.schedule.next_run_at or 0) == LATER


def test_what_is_not_there_is_not_found(app: Penstock) -> None:
    calls: list[Any] = [
        lambda: app.get_schedule("s"),
        lambda: app.change_schedule("s", priority=1),
        lambda: app.delete_schedule("s"),
        lambda: app.pause_schedule("s", "repairs"),
        lambda: app.resume_schedule("s"),
        lambda: app.trigger_schedule("s"),
        lambda: app.schedule_ticks("s"),
        lambda: app.preview_schedule("s"),
    ]
    for call in calls:
        with pytest.raises(NotFound, match="no schedule 's'"):
            call()


@pytest.mark.parametrize(
    ("reason", "until", "error"),
    [
        (None, None, "A pause needs a reason"),
        ("", None, "reason must have 1 to 500"),
        ("x", datetime(2001, 1, 1, tzinfo=UTC), "'s' until 2001-01-01 .* is over already"),
        ("x", datetime(2101, 1, 1), "until has no time zone"),
        ("x", 5, "until must be a datetime"),
    ],
)
def test_a_pause_needs_a_reason_and_an_end_to_come(memory_app: Penstock, reason: Any, until: Any, error: str) -> None:
    memory_app.save_schedule("s", "report", cron="@daily")

    with pytest.raises(InvalidInput, match=error):
        memory_app.pause_schedule("s", reason, until=until)

    assert memory_app.get_schedule("s").pause is None


def test_a_pause_says_who_why_and_until_when(app: Penstock) -> None:
    app.save_schedule("s", "report", cron="@daily")

    app.pause_schedule("s", "repairs", until=LATER, by="ann")

    pause = app.get_schedule("s").pause
    assert pause is not None
    assert (pause.reason, pause.by, to_datetime(pause.until or 0)) == ("repairs", "ann", LATER)
    app.resume_schedule("s", by="bob")
    app.resume_schedule("s", by="bob")
    assert app.get_schedule("s").pause is None


def test_a_job_of_a_schedule_can_be_made_now(app: Penstock) -> None:
    before = app.save_schedule("s", "report", cron="@daily", params={"copies": 5}, priority=2)
    app.pause_schedule("s", "repairs")

    job = app.trigger_schedule("s", by="ann").job

    assert (job.schedule_id, job.scheduled_for, job.actor) == ("s", None, "ann")
    assert (job.params["copies"], job.priority, job.status) == (5, 2, Status.QUEUED)
    after = app.get_schedule("s")
    assert (after.schedule, after.last_scheduled_at) == (before.schedule, None)
    assert app.schedule_ticks("s") == []
    app.disable("report")
    with pytest.raises(Conflict, match="report"):
        app.trigger_schedule("s")


def test_a_schedule_that_is_gone_leaves_its_jobs(app: Penstock) -> None:
    app.save_schedule("s", "report", cron="@daily")
    job = app.trigger_schedule("s")

    app.delete_schedule("s")

    assert app.schedules() == []
    assert app.get(job.id).job.schedule_id == "s"


def test_a_preview_tells_the_next_ticks_and_what_they_mean(app: Penstock) -> None:
    app.save_schedule("s", "report", cron="30 3 * * *", timezone="Asia/Kolkata")

    ahead = app.preview_schedule("s", 3)

    assert ahead.sentence.endswith("Asia/Kolkata time.")
    assert [fire.local[11:] for fire in ahead.fires] == ["03:30:00+05:30"] * 3
    assert [fire.utc[11:] for fire in ahead.fires] == ["22:00:00Z"] * 3
    assert ahead.fires[0].instant == app.get_schedule("s").schedule.next_run_at
    for count in (0, 101, "3", True):
        with pytest.raises(InvalidInput, match="1 to 100"):
            app.preview_schedule("s", count)  # type: ignore[arg-type]


def test_the_number_of_ticks_to_read_is_limited(memory_app: Penstock) -> None:
    memory_app.save_schedule("s", "report", cron="@daily")

    for limit in (0, 1001, "3", None):
        with pytest.raises(InvalidInput, match="limit must be"):
            memory_app.schedule_ticks("s", limit)  # type: ignore[arg-type]


def test_a_key_for_concurrency_is_that_of_the_parameters_or_as_given(app: Penstock) -> None:
    app.job("mail", concurrency_key="to")(lambda to: None)
    app.register()

    row = app.save_schedule("s", "mail", cron="@daily", params={"to": "ann"})
    assert row.schedule.concurrency_key == "ann"
    assert app.trigger_schedule("s").job.concurrency_key == "ann"
    assert app.change_schedule("s", params={"to": "bob"}).schedule.concurrency_key == "bob"
    assert app.change_schedule("s", concurrency_key="all").schedule.concurrency_key == "all"
    assert app.change_schedule("s", priority=2).schedule.concurrency_key == "all"


def _tick_of(row: ScheduleRow) -> Tick:
    assert row.schedule.next_run_at is not None
    return Tick(row.schedule.key, row.revision, row.schedule.next_run_at, None)
