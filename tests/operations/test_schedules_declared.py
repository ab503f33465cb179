"""Schedules that code declares: how they are said, and what becomes of them from one deployment to the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Context, Penstock
from penstock.domain.errors import InvalidInput, InvalidSchedule
from penstock.domain.instant import HOUR, SECOND
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, Schedule
from penstock.operations.declared_schedules import Applied, apply_schedules
from penstock.storage.commands import admin, schedules
from tests.applications import NewApp

LATER = datetime(2100, 1, 1, tzinfo=UTC)
ORIGIN = "shop.jobs:app"


def report(day: str = "today", copies: int = 1) -> None:
    """What the schedules run."""


# --- how they are said


@pytest.mark.parametrize(
    ("when", "kind", "expression"),
    [
        ("0 3 * * *", Kind.CRON, "0 3 * * *"),
        ("@daily", Kind.CRON, "@daily"),
        ("1h30m", Kind.INTERVAL, "1h30m"),
        ("7d from 2027-01-04T08:00:00Z", Kind.INTERVAL, "7d from 2027-01-04T08:00:00Z"),
        (90, Kind.INTERVAL, "1m30s"),
        (timedelta(minutes=15), Kind.INTERVAL, "15m"),
        (LATER, Kind.ONCE, "2100-01-01T00:00:00+00:00"),
    ],
)
def test_a_job_may_bring_its_schedule(memory_app: Penstock, when: Any, kind: Kind, expression: str) -> None:
    memory_app.job("report", schedule=when, timezone="Europe/Paris", overlap="skip", jitter=5)(report)

    (declared,) = memory_app.schedules.declared
    assert (declared.key, declared.definition_key, declared.owner) == ("report", "report", "code")
    assert (declared.kind, declared.expression, declared.timezone) == (kind, expression, "Europe/Paris")
    assert (declared.overlap, declared.jitter) == (Overlap.SKIP, 5 * SECOND)


def test_a_pipeline_may_bring_its_schedule(memory_app: Penstock) -> None:
    memory_app.pipeline("report", ("first", report), schedule="@daily", missed="all", missed_max=3, missed_window=60)

    (declared,) = memory_app.schedules.declared
    assert (declared.missed, declared.missed_max, declared.missed_window) == (Missed.ALL, 3, 60 * SECOND)


def test_a_schedule_of_none_is_no_schedule(memory_app: Penstock) -> None:
    memory_app.job("report", schedule=None, timezone="Europe/Paris")(report)

    assert memory_app.schedules.declared == []


def test_one_definition_may_have_several_schedules_by_handle_or_by_key(memory_app: Penstock) -> None:
    handle = memory_app.job("report")(report)

    memory_app.schedules.declare("nightly", handle, cron="0 3 * * *", params={"copies": 2})
    memory_app.schedules.declare("weekly", "report", cron="@weekly", params={"day": "Sunday"})
    memory_app.schedules.declare("urgent", handle.options(priority=20, concurrency_key="k"), every=60)

    nightly, weekly, urgent = memory_app.schedules.declared
    assert {each.definition_key for each in (nightly, weekly, urgent)} == {"report"}
    assert nightly.params == {"copies": 2}
    assert weekly.params["day"] == "Sunday"
    assert (urgent.priority, urgent.concurrency_key) == (20, "k")


def test_what_runs_may_be_defined_elsewhere(memory_app: Penstock) -> None:
    memory_app.schedules.declare("nightly", "other.report", cron="0 3 * * *", params={"day": LATER})

    (declared,) = memory_app.schedules.declared
    assert (declared.definition_key, declared.params) == ("other.report", {"day": "2100-01-01T00:00:00Z"})


def test_a_context_is_no_parameter(memory_app: Penstock) -> None:
    @memory_app.job("with.context", schedule="@daily")
    def handler(ctx: Context, x: int = 1) -> None: ...

    assert len(memory_app.schedules.declared) == 1


def test_the_same_declared_again_is_the_same(memory_app: Penstock) -> None:
    for _ in range(2):
        memory_app.job("report", schedule="@daily")(report)

    assert len(memory_app.schedules.declared) == 1
    with pytest.raises(InvalidSchedule, match=r"Schedule 'report' is declared twice\. Give one of them"):
        memory_app.schedules.declare("report", "report", cron="@weekly")
    with pytest.raises(InvalidSchedule, match="declared twice"):
        memory_app.job("report", schedule="@weekly")(report)
    assert [each.key for each in memory_app.definitions.declared] == ["report"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timezone": "UTC"}, "report: timezone without a schedule"),
        ({"schedule": "0 3 * *"}, "Schedule 'report': The cron expression '0 3 \\* \\*' has 4 fields"),
        ({"schedule": "1h 30m"}, "Schedule 'report': '1h 30m' is no interval"),
        ({"schedule": "often"}, "Schedule 'report': The cron expression"),
        ({"schedule": True}, "Schedule 'report': An interval must be seconds"),
        ({"schedule": ["@daily"]}, "Schedule 'report': An interval must be seconds"),
        ({"schedule": "@daily", "timezone": "Mars/Olympus"}, "Schedule 'report': There is no time zone"),
        ({"schedule": "@daily", "overlap": "sometimes"}, "Schedule 'report': overlap is one of"),
    ],
)
def test_a_bad_schedule_is_refused_and_the_definition_with_it(memory_app: Penstock, options: Any, error: str) -> None:
    with pytest.raises(InvalidSchedule, match=error):
        memory_app.job("report", **options)(report)

    assert memory_app.definitions.declared == []
    assert memory_app.schedules.declared == []


def test_parameters_that_the_definition_needs_must_be_given(memory_app: Penstock) -> None:
    with pytest.raises(InvalidSchedule, match=r"Schedule 'mail': .*to"):

        @memory_app.job("mail", schedule="@daily")
        def mail(to: str) -> None: ...


def test_options_of_a_handle_that_no_schedule_can_keep_are_refused(memory_app: Penstock) -> None:
    handle = memory_app.job("report")(report)

    with pytest.raises(InvalidSchedule, match="Schedule 's': it cannot keep the options delay, tags"):
        memory_app.schedules.declare("s", handle.options(delay=5, tags=["a"]), cron="@daily")


def test_an_unknown_option_is_still_refused(memory_app: Penstock) -> None:
    with pytest.raises(InvalidInput, match="'shedule' is not an option"):
        memory_app.job("report", shedule="@daily")(report)  # type: ignore[call-overload]


# --- from one deployment to the next


def test_three_deployments_and_an_operator(new_app: NewApp) -> None:
    first = _deploy(new_app, nightly={"cron": "0 3 * * *"}, weekly={"cron": "@weekly"})
    assert _apply(first) == Applied(saved=["nightly", "weekly"])
    row = first.schedules.get("nightly")
    assert (row.schedule.owner, row.schedule.origin) == ("code", ORIGIN)
    operator = new_app()
    operator.schedules.pause("nightly", "repairs", by="ann")
    operator.schedules.pause("weekly", "repairs", by="ann")

    second = _deploy(new_app, nightly={"cron": "0 4 * * *"}, weekly={"cron": "@weekly"})
    assert _apply(second) == Applied(saved=["nightly"])
    row = operator.schedules.get("nightly")
    assert row.schedule.expression == "0 4 * * *"
    assert row.pause is not None
    assert row.pause.by == "ann"

    third = _deploy(new_app, weekly={"cron": "@weekly"})
    assert _apply(third) == Applied(removed=["nightly"])
    (row,) = operator.schedules.list()
    assert (row.schedule.key, row.pause is not None, row.revision) == ("weekly", True, 2)


def test_a_restart_changes_nothing(new_app: NewApp) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    declared: Any = {"nightly": {"cron": "0 3 * * *"}, "party": {"at": LATER}, "past": {"at": past}}
    app = _deploy(new_app, **declared)
    _apply(app)
    before = app.schedules.list()

    for _ in range(2):
        assert _apply(_deploy(new_app, **declared)) == Applied()

    assert app.schedules.list() == before
    assert [row.schedule.enabled for row in before] == [True, True, False]


def test_what_an_operator_made_or_changed_is_left_alone_with_a_warning(new_app: NewApp) -> None:
    operator = new_app()
    operator.job("report")(report)
    operator.schedules.save("mine", "report", cron="@weekly", by="ann")
    _apply(_deploy(new_app, nightly={"cron": "0 3 * * *"}))
    operator.schedules.change("nightly", cron="0 5 * * *", by="ann")

    applied = _apply(_deploy(new_app, nightly={"cron": "0 4 * * *"}, mine={"cron": "@daily"}))

    assert (applied.saved, applied.removed) == ([], [])
    assert [text.partition(":")[0] for text in applied.warnings] == [
        "Schedule 'nightly' is an operator's",
        "Schedule 'mine' is an operator's",
    ]
    assert "app.schedules.delete('mine')" in applied.warnings[1]
    assert _expressions(operator) == {"mine": "@weekly", "nightly": "0 5 * * *"}
    assert _apply(_deploy(new_app)) == Applied()

    operator.schedules.delete("nightly")
    assert _apply(_deploy(new_app, nightly={"cron": "0 4 * * *"})).saved == ["nightly"]


def test_code_of_another_origin_is_another_matter(new_app: NewApp) -> None:
    shop = _deploy(new_app, nightly={"cron": "0 3 * * *"}, both={"cron": "@daily"})
    blog = _deploy(new_app, feed={"cron": "@hourly"}, both={"cron": "@weekly"})
    _apply(shop)

    applied = _apply(blog, origin="blog:app")

    assert applied.saved == ["feed"]
    assert f"Schedule 'both' is declared by {ORIGIN}: what blog:app declares does not count" in applied.warnings[0]
    assert _apply(_deploy(new_app), origin="blog:app").removed == ["feed"]
    assert _expressions(shop) == {"nightly": "0 3 * * *", "both": "@daily"}


def test_of_two_versions_side_by_side_the_one_that_came_last_counts(new_app: NewApp) -> None:
    old = _deploy(new_app, nightly={"cron": "0 3 * * *"}, dropped={"cron": "@daily"})
    new = _deploy(new_app, nightly={"cron": "0 4 * * *"}, added={"cron": "@hourly"})
    both = [{"nightly": "0 3 * * *", "dropped": "@daily"}, {"nightly": "0 4 * * *", "added": "@hourly"}]

    for app, expected in zip([old, new, old, new], both * 2, strict=True):
        _apply(app)
        assert _expressions(app) == expected


def test_what_cannot_be_read_is_not_taken_for_removed(new_app: NewApp) -> None:
    names = ("a", "b.c", "b.d", "e")
    _apply(_deploy(new_app, **{name: {"cron": "@daily"} for name in names}))

    app = _deploy(new_app)
    applied = app.session.hold(apply_schedules(app.session, [], ORIGIN, unread=["a", "b.*"]))

    assert applied.removed == ["e"]


def test_many_that_start_at_once_agree(new_app: NewApp) -> None:
    gone = {f"old{number}": {"cron": "@daily"} for number in range(5)}
    _apply(_deploy(new_app, **gone))
    apps = [_deploy(new_app, **{f"new{number}": {"cron": "@daily"} for number in range(5)}) for _ in range(4)]

    with ThreadPoolExecutor(4) as threads:
        applied = list(threads.map(_apply, apps))

    assert sorted(key for each in applied for key in each.removed) == sorted(gone)
    assert sorted(key for each in applied for key in each.saved) == [f"new{number}" for number in range(5)]
    assert not any(each.warnings for each in applied)
    assert {row.revision for row in apps[0].schedules.list()} == {1}


def test_a_tick_that_waits_survives_a_restart_but_not_another_rhythm(new_app: NewApp) -> None:
    app = _deploy(new_app, s={"every": "1h"})
    _apply(app)
    now = app.store.run(admin.clock())
    later = now + 5 * HOUR
    waiting = app.schedules.get("s").schedule.next_run_at

    _apply(_deploy(new_app, s={"every": "1h", "priority": 3}), now=later)
    assert app.schedules.get("s").schedule.next_run_at == waiting
    _apply(_deploy(new_app, s={"every": "2h", "priority": 3}), now=later)
    moved = app.schedules.get("s").schedule.next_run_at
    assert moved is not None
    assert later < moved <= later + 2 * HOUR


def test_a_schedule_that_cannot_be_read_here_is_a_warning_and_the_others_are_applied(memory_app: Penstock) -> None:
    wanted = [
        Schedule("broken", "report", Kind.CRON, "0 3 * * *", timezone="Mars/Olympus"),
        Schedule("fine", "report", Kind.CRON, "0 3 * * *"),
    ]

    applied = memory_app.session.hold(apply_schedules(memory_app.session, wanted, ORIGIN))

    assert applied.saved == ["fine"]
    assert "Schedule 'broken' was left as it is" in applied.warnings[0]


def test_code_repairs_a_stored_schedule_that_cannot_be_read_any_more(memory_app: Penstock) -> None:
    broken = Schedule("s", "report", Kind.CRON, "0 3 * * *", timezone="Mars/Olympus", owner="code", origin=ORIGIN)
    memory_app.store.run(schedules.save(replace(broken, next_run_at=5), by="code"))

    applied = _apply(_declared(memory_app, s={"cron": "@daily"}))

    assert applied == Applied(saved=["s"])
    assert memory_app.schedules.get("s").schedule.timezone == "UTC"


def _deploy(new_app: NewApp, **declared: Any) -> Penstock:
    """An application whose code declares these schedules."""
    return _declared(new_app(), **declared)


def _declared(app: Penstock, **declared: Any) -> Penstock:
    handle = app.job("report")(report)
    for key, facts in declared.items():
        app.schedules.declare(key, handle, **facts)
    app.definitions.register()
    return app


def _apply(app: Penstock, *, origin: str = ORIGIN, now: int | None = None) -> Applied:
    """What a worker does when it starts."""
    talk = apply_schedules(app.session, app.schedules.declared, origin)
    if now is None:
        return app.session.hold(talk)
    step: Any = next(talk)
    while True:
        try:
            step = talk.send(app.store.run(step, now=now))
        except StopIteration as end:
            return end.value


def _expressions(app: Penstock) -> dict[str, str]:
    return {row.schedule.key: row.schedule.expression for row in app.schedules.list()}
