"""advance: schedules tick on the way, and retention looks at the end."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

import pytest

from penstock import Context, Penstock
from penstock.domain.event import Event
from penstock.testing import TestApp

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _nothing(x: int = 0) -> None: ...


def test_what_code_declares_ticks_at_each_of_its_instants(app: Penstock) -> None:
    work = app.job("work", schedule="0 * * * *")(_nothing)

    with TestApp(app, now=NOON) as kit:
        kit.advance(timedelta(minutes=59))
        assert kit.jobs() == []
        kit.advance(timedelta(hours=3))

        jobs = kit.jobs(work)
        assert [job.scheduled_for for job in jobs] == [NOON + timedelta(hours=each) for each in (1, 2, 3)]
        assert [job.created_at for job in jobs] == [job.scheduled_for for job in jobs]
        assert kit.now == NOON + timedelta(hours=3, minutes=59)
        assert len(kit.drain().succeeded) == 3
        assert [each["verdict"] for each in app.schedules.ticks("work")] == ["made"] * 3


def test_a_schedule_that_a_test_saves_or_declares_later_ticks_too(app: Penstock) -> None:
    work = app.job("work")(_nothing)

    with TestApp(app, now=NOON) as kit:
        app.schedules.save("saved", work, every=60, params={"x": 7})
        app.schedules.declare("declared", work, at=NOON + timedelta(seconds=90))
        kit.advance(100)

        assert [(job.schedule_id, job.params) for job in kit.jobs()] == [("saved", {"x": 7}), ("declared", {})]


def test_a_schedule_that_must_not_overlap_ticks_again_once_its_job_has_run(app: Penstock) -> None:
    app.job("work", schedule="1m", overlap="skip")(_nothing)

    with TestApp(app, now=NOON) as kit:
        kit.advance(180)
        assert len(kit.jobs()) == 1
        kit.drain()
        kit.advance(60)

        assert len(kit.jobs()) == 2
        assert [each["verdict"] for each in app.schedules.ticks("work")] == ["made", "skipped", "skipped", "made"]


def test_listeners_hear_of_ticks_however_long_ago(app: Penstock) -> None:
    app.job("work", schedule="0 0 * * *", overlap="skip")(_nothing)
    heard: list[Event] = []

    with TestApp(app, now=NOON) as kit:
        app.on("schedule.skipped", heard.append)
        kit.advance(timedelta(days=40))

    assert len(heard) == 39


def test_a_schedule_that_cannot_tick_says_so_and_stops_no_other(
    app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    work, other = app.job("work", schedule="1h")(_nothing), app.job("other", schedule="1h")(lambda: None)

    with TestApp(app, now=NOON) as kit:
        app.definitions.register()
        app.definitions.disable("work")
        with caplog.at_level(logging.WARNING, "penstock.worker"):
            kit.advance(timedelta(hours=3))
        assert (len(kit.jobs(work)), len(kit.jobs(other))) == (0, 3)
        assert "schedule work cannot tick" in caplog.text

        app.definitions.enable("work")
        kit.advance(timedelta(hours=1))
        assert len(kit.jobs(work)) >= 1


def test_what_ended_long_ago_becomes_stale_and_goes(app: Penstock) -> None:
    gone: list[str] = []

    def leave(ctx: Context) -> None:
        gone.append(ctx.job_id)

    work = app.job("work", on_stale=leave, on_delete=leave)(_nothing)

    with TestApp(app, now=NOON) as kit:
        job = work.enqueue()
        kit.drain()
        kit.advance(timedelta(days=7, seconds=1))
        kit.drain()
        assert (job.refresh().status, gone) == ("stale", [job.id])
        kit.advance(timedelta(days=7))
        kit.drain()

        assert (kit.jobs(), gone) == ([], [job.id, job.id])


def test_an_async_test_may_advance_as_well(app: Penstock) -> None:
    app.job("work", schedule="1m")(_nothing)

    async def body() -> int:
        with TestApp(app, now=NOON) as kit:
            kit.advance(120)
            return len((await kit.adrain()).succeeded)

    assert asyncio.run(body()) == 2


def test_an_application_gets_nothing_of_it_in_its_own_store(app: Penstock) -> None:
    app.job("work", schedule="1m")(_nothing)

    with TestApp(app, now=NOON) as kit:
        kit.advance(120)

    assert (app.schedules.list(), app.jobs.list().jobs) == ([], [])
