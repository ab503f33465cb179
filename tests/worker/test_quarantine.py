"""One bad row or one part that fails never stops the rest: it is counted, said and shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock import InvalidSchedule
from penstock.background.housekeeper import Housekeeper
from penstock.background.scheduler import Scheduler
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidPayload, StoreUnavailable
from penstock.domain.instant import HOUR
from penstock.domain.plan import Plan
from penstock.domain.worker import HookCall
from penstock.operations.declared_schedules import apply_schedules
from penstock.runtime.service import Service
from penstock.storage import open_store, ports
from penstock.worker.hooks import Hooks
from tests.background.clockwork import KINDS, START, Clockwork, opened
from tests.storage.tables import change
from tests.waiting import wait_until_async
from tests.worker.fleet import Stage

HOURS = [START + number * HOUR for number in range(1, 30)]


@pytest.fixture(params=KINDS)
def clockwork(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clockwork]:
    yield from opened(request.param, request, tmp_path)


# --- schedules


def test_a_schedule_that_cannot_be_read_stops_no_other_and_is_said_once(
    clockwork: Clockwork, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("a", "bad", "c"):
        clockwork.app.schedules.save(key, "work", every="1h")
    _spoil(clockwork.host, "bad")

    with caplog.at_level(logging.WARNING, "penstock.worker"):
        assert clockwork.tick(HOURS[0]) == 1.0, "nobody hurries because of it"
        for seconds in (2, 4, 8, 100, 100):
            clockwork.steady += seconds
            clockwork.tick()

    assert [clockwork.instants(key) for key in ("a", "bad", "c")] == [[HOURS[0]], [], [HOURS[0]]]
    assert caplog.text.count("schedule bad cannot be read") == 1
    assert (clockwork.scheduler.errors, "bad" in (clockwork.scheduler.last_error or "")) == (6, True)


def test_others_are_as_punctual_as_ever_beside_one_that_cannot_be_read(clockwork: Clockwork) -> None:
    for key in ("a", "bad"):
        clockwork.app.schedules.save(key, "work", every="1h")
    _spoil(clockwork.host, "bad")
    clockwork.tick(HOURS[0])

    assert clockwork.tick(HOURS[1] - 100_000) == pytest.approx(0.1)


def test_many_that_cannot_be_read_crowd_out_nobody(clockwork: Clockwork) -> None:
    for number in range(130):
        clockwork.app.schedules.save(f"bad-{number:03}", "work", every="1h")
    clockwork.app.schedules.save("good", "work", every="1h")
    _spoil(clockwork.host, "bad-%")

    clockwork.now = HOURS[0]
    clockwork.settle()

    assert clockwork.instants("good") == [HOURS[0]]
    assert clockwork.scheduler.errors == 130


def test_an_application_shows_what_cannot_be_read_and_repairs_it(clockwork: Clockwork) -> None:
    app = clockwork.app
    for key in ("bad", "good"):
        app.schedules.save(key, "work", every="1h")
    _spoil(clockwork.host, "bad")
    clockwork.tick(HOURS[0])

    assert [(row.schedule.key, row.error is None) for row in app.schedules.list()] == [("bad", False), ("good", True)]
    for call in (
        lambda: app.schedules.change("bad", priority=3),
        lambda: app.schedules.trigger("bad"),
        lambda: app.schedules.preview("bad"),
    ):
        with pytest.raises(InvalidSchedule, match=r"'bad' cannot be read.*Save it again, or delete it"):
            call()
    app.schedules.pause("bad", "it is broken")
    app.schedules.resume("bad")

    app.schedules.save("bad", "work", every="1h")
    clockwork.tick(HOURS[1])
    assert clockwork.instants("bad") == [HOURS[1]]
    _spoil(clockwork.host, "bad")
    app.schedules.delete("bad")
    assert [row.schedule.key for row in app.schedules.list()] == ["good"]


def test_code_that_declares_a_schedule_again_repairs_it(clockwork: Clockwork) -> None:
    app = clockwork.app
    app.schedules.declare("mine", "work", every="1h")
    app.session.hold(apply_schedules(app.session, app.schedules.declared, "here"))
    app.schedules.save("theirs", "work", every="1h")
    _spoil(clockwork.host, "%")

    applied = app.session.hold(apply_schedules(app.session, app.schedules.declared, "here"))

    assert (applied.saved, applied.removed, applied.warnings) == (["mine"], [], [])
    assert [row.error is None for row in app.schedules.list()] == [True, False], "what an operator made is left alone"


def test_what_does_not_fit_is_not_told_with_its_value() -> None:
    scheduler = Scheduler(*[None] * 5)  # type: ignore[arg-type]
    row: Any = type("Row", (), {"schedule": type("S", (), {"key": "nightly"}), "revision": 1, "error": None})

    scheduler._wait_for_retry(row, InvalidPayload("'hunter2' is not an integer", path="/password"))

    assert scheduler.last_error == "nightly: InvalidPayload at /password"


def test_a_worker_ticks_and_says_so_beside_rows_that_cannot_be_read(stage: Stage) -> None:
    stage.worker()
    for key in ("bad", "good"):
        stage.app.schedules.save(key, "script", every="1s", params={"script": []})
    _spoil(stage.app.store, "bad")
    change(stage.app.store, "UPDATE {s}definition SET body = '{' WHERE key = 'short'")

    def ticks() -> int:
        return len(stage.app.schedules.ticks("good"))

    known = ticks()
    stage.eventually(lambda: ticks() >= known + 2, "the good one ticks on")

    def reported() -> bool:
        (worker,) = stage.app.workers.list()
        duties = {duty.name: duty for duty in worker.duties}
        return bool(duties and duties["schedule"].errors and "bad" in (duties["schedule"].last_error or ""))

    stage.eventually(reported, "any process sees the errors of the duty")
    (worker,) = stage.app.workers.list()
    ages = {duty.name: duty.last_success_age for duty in worker.duties}
    assert {"claim", "settle", "record", "promote", "rescue", "hooks", "schedule", "housekeep"} <= set(ages)
    for name in ("promote", "schedule"):
        age = ages[name]
        assert age is not None
        assert 0 <= age < 30
    assert stage.workers[0].output.count("schedule bad cannot be read") == 1


# --- housekeeping


PARTS = ["fold", "apply_defaults", "retire", "tidy", "forget_attempts", "prune"]


def test_housekeeping_goes_on_when_one_part_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Failing(f"sqlite:///{tmp_path}/jobs.db", {"retire", "tidy"})
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "")  # type: ignore[arg-type]

    assert asyncio.run(housekeeper.once()) is False

    assert store.asked == PARTS
    assert housekeeper.errors == {"retire": 1, "tidy": 1}
    assert "tidy failed as well" in caplog.text
    store.failing.clear()
    asyncio.run(housekeeper.once())
    assert (housekeeper.problem, store.asked[len(PARTS) :]) == (None, PARTS)


def test_a_part_that_fails_is_an_error_of_the_duty(tmp_path: Path) -> None:
    store = Failing(f"sqlite:///{tmp_path}/jobs.db", {"fold"})
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "")  # type: ignore[arg-type]
    housekeeper._me = lambda: None  # type: ignore[assignment,return-value]  # it leads: there is no worker
    service = Service("housekeep", housekeeper.tick)

    async def some_rounds() -> None:
        running = asyncio.ensure_future(service.run())
        await wait_until_async(lambda: service.errors >= 2, "it has failed twice")
        assert service.report().last_success_age is None
        store.failing.clear()
        await wait_until_async(lambda: service.succeeded_at is not None, "it went well")
        service.stop()
        await running

    asyncio.run(some_rounds())

    report = service.report()
    assert (report.name, report.errors, report.last_error) == ("housekeep", 2, "ValueError: fold is out of order")
    assert report.last_success_age is not None
    assert store.asked.count("retire") == 3


def test_a_store_that_does_not_answer_ends_the_round(tmp_path: Path) -> None:
    store = Failing(f"sqlite:///{tmp_path}/jobs.db", {"retire"}, StoreUnavailable("gone"))
    housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "")  # type: ignore[arg-type]

    with pytest.raises(StoreUnavailable):
        asyncio.run(housekeeper.once())

    assert store.asked == ["fold", "apply_defaults", "retire"]


class Failing:
    """A store on which some verbs fail."""

    def __init__(self, url: str, failing: set[str], error: Exception | None = None) -> None:
        self.failing = failing
        self.asked: list[str] = []
        self._error = error
        self._store = open_store(url)

    async def arun(self, plan: Plan[Any]) -> Any:
        if plan.name != "leader":
            self.asked.append(plan.name)
        if plan.name in self.failing:
            raise self._error or ValueError(f"{plan.name} is out of order")
        return self._store.run(plan)


# --- hooks


def test_a_hook_whose_row_cannot_be_read_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    definition = Definition(key="work", hooks=("on_fail",))
    calls = [
        HookCall(job_id, 1, 1, "job.failed", data, datetime.now(UTC))
        for job_id, data in (("first", "{broken"), ("second", '{"error": "x"}'))
    ]
    hooks = _hooks(calls)
    hooks.lanes = {1: definition}
    called: list[str] = []
    hooks._begin = lambda definition, tasks: called.extend(  # type: ignore[method-assign]
        task.job_id for task in tasks.values()
    )

    asyncio.run(hooks.tick())

    assert called == ["second"]
    assert (hooks.errors, "first" in (hooks.last_error or "")) == (1, True)
    assert "hooks of job first" in caplog.text


def _hooks(calls: list[HookCall]) -> Hooks:
    class Told:
        async def arun(self, plan: Any) -> Any:
            return plan

    class Jobs:
        def take_hooks(self, lanes: Any, limit: int) -> Any:
            return calls

    class Admin:
        def get(self, job_ids: Any) -> Any:
            return []

    zygote: Any = type("Zygote", (), {"alive": True})
    parts: list[Any] = [Told(), Jobs(), Admin(), lambda: zygote, None, None, 1.0, lambda lane, code: code]
    return Hooks(*parts)


def _spoil(store: Any, keys: str) -> None:
    change(store, f"UPDATE {{s}}schedule SET body = '{{broken' WHERE key LIKE '{keys}'")
