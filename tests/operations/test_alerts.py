"""Alerts: each is there while its reason holds, and gone when it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import InvalidInput, Penstock, Status
from penstock.domain.alerts import Alert, AlertFacts, alerts
from penstock.domain.definition import Pause
from penstock.domain.outcome import Failure
from penstock.domain.schedule.schedule import Kind, Schedule, ScheduleRow
from penstock.domain.stats import DefinitionStats, Durations, Flow, Running, Stats
from penstock.domain.worker import Duty
from penstock.domain.worker_config import AlertThresholds, WorkerConfig
from penstock.storage.commands import admin, jobs, schedules
from tests.definitions import shapes
from tests.operations.hand import LEASE, Hand
from tests.storage.tables import change

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NIGHTLY = Schedule("nightly", "work", Kind.INTERVAL, "3600", params_text='{"to":"x"}')
BROKEN = Failure("ValueError", "broken", "Traceback", "mark")


@pytest.fixture
def work(app: Penstock) -> Any:
    handle = app.job("work")(shapes.plain)
    app.register()
    return handle


def found(app: Penstock) -> dict[str, Alert]:
    return {each.id: each for each in app.alerts()}


async def test_a_quiet_store_has_no_alerts(app: Penstock, work: Any) -> None:
    work.enqueue("x")
    Hand(app)

    assert app.alerts() == []
    assert await app.aalerts() == []


def test_disabled_workers(app: Penstock, work: Any) -> None:
    before = datetime.now(UTC)
    app.set_worker_config({"enabled": False}, by="ann")

    alert = found(app)["worker_disabled:*"]

    assert "ann has disabled them" in alert.message
    assert alert.since is not None
    assert timedelta(0) <= alert.since - before < timedelta(minutes=1)
    app.set_worker_config({"enabled": True}, by="ann")
    assert found(app) == {}


@pytest.mark.parametrize("text", ['{"slots": "many"}', '{"alerts": 7}', "[1]", "{"])
def test_a_configuration_that_cannot_be_read(app: Penstock, work: Any, text: str) -> None:
    app.store.run(admin.put_setting("worker", text, by="hand"))

    alert = found(app)["worker_config:*"]

    assert alert.severity == "critical"
    assert "cannot be used" in alert.message
    assert app.why(work.enqueue("x").id)
    with pytest.raises(InvalidInput):
        app.set_worker_config({"slots": 2})
    app.set_worker_config(WorkerConfig(slots=2), by="ann")
    assert "worker_config:*" not in found(app)


def test_a_paused_system(app: Penstock, work: Any) -> None:
    app.pause_all("The disk is full.", by="ann")

    alert = found(app)["system_paused:*"]

    assert (alert.message, alert.severity) == ("ann has paused the whole system: The disk is full.", "warning")
    app.resume_all()
    assert found(app) == {}


def test_a_definition_that_waits_for_a_worker(app: Penstock, work: Any) -> None:
    assert found(app) == {}
    work.enqueue("x")

    alert = found(app)["unserved:work"]

    assert (alert.severity, alert.subject) == ("critical", "work")
    assert "1 of version 1" in alert.message
    assert alert.since is not None
    Hand(app)
    assert found(app) == {}


def test_a_worker_that_cannot_start_its_application(app: Penstock, work: Any) -> None:
    hand = Hand(app)
    app.store.run(jobs.heartbeat(hand.id, LEASE, duties=[Duty("load", 3.0, 2, "SyntaxError: the password is x")]))

    alert = found(app)[f"worker_failing:{hand.id}"]

    assert (alert.severity, alert.subject) == ("critical", hand.id)
    assert "Worker hand (process 1 on here) cannot start its application" in alert.message
    assert "password" not in alert.message, "alerts are sent to webhooks"
    app.store.run(jobs.heartbeat(hand.id, LEASE, duties=[Duty("load", 0.0, 2)]))
    assert found(app) == {}


def test_a_deep_queue(app: Penstock, work: Any) -> None:
    hand = Hand(app)
    app.set_worker_config({"alerts": {"depth": 2}})
    jobs = [work.enqueue("x") for _ in range(2)]
    assert found(app) == {}

    jobs.append(work.enqueue("x"))

    assert found(app).keys() == {"depth:work", "depth:*"}
    assert found(app)["depth:work"].message == "3 jobs of 'work' are queued."
    hand.succeed(jobs[0].id)
    assert found(app) == {}


def test_many_failures(app: Penstock, work: Any) -> None:
    hand = Hand(app)
    app.set_worker_config({"alerts": {"leastSample": 4, "failureRate": 0.25}})
    jobs = [work.enqueue("x").id for _ in range(5)]
    claimed = {each.job_id: each for each in hand.claim()}
    for job_id in jobs[:2]:
        hand.end(claimed[job_id], hand.failing(BROKEN))
    hand.end(claimed[jobs[2]], hand.succeeding())
    assert found(app) == {}, "the sample is too small"

    hand.end(claimed[jobs[3]], hand.succeeding())

    alert = found(app)["failure_rate:work"]
    assert (alert.message, alert.severity) == (
        "2 of 4 jobs of 'work' have failed in the last 15 minutes.", "critical",
    )  # fmt: skip
    app.set_worker_config({"alerts": {"failureRate": 0.5}})
    assert found(app) == {}, "not more than the threshold"


def test_a_schedule_that_nobody_ticks(app: Penstock, work: Any) -> None:
    past = datetime.now(UTC) - timedelta(minutes=2)
    app.store.run(schedules.save(replace(NIGHTLY, next_run_at=round(past.timestamp() * 1e6)), by="ann"))

    alert = found(app)["schedule_missed:nightly"]

    assert (alert.severity, alert.since) == ("critical", past)
    app.pause_schedule("nightly", "not now")
    assert found(app) == {}


def test_only_what_runs_longer_than_usual_is_stuck() -> None:
    usual = DefinitionStats("work", durations=Durations(5, 10, 20))
    never = DefinitionStats("new")

    def told(definition: str, seconds: float) -> list[str]:
        running = Running("job", definition, NOON - timedelta(seconds=seconds))
        return [each.kind for each in alerts(_facts(definitions=[usual, never], running=[running]))]

    assert told("work", 310) == []
    assert told("work", 311) == ["stuck"]
    assert told("new", 300) == []
    assert told("new", 301) == ["stuck"], "the threshold alone suffices"


def test_without_a_success_in_the_window_a_job_is_compared_with_the_history_and_then_with_the_timeout() -> None:
    history = {"nightly": Durations(1800, 3600, 20)}
    timeouts = {"nightly": None, "quick": 30.0, "slow": 86_400.0, "endless": None}

    def told(definition: str, seconds: float) -> list[str]:
        running = Running("job", definition, NOON - timedelta(seconds=seconds))
        return [each.kind for each in alerts(_facts(running=[running], history=history, timeouts=timeouts))]

    assert [told("nightly", each) for each in (3900, 3901)] == [[], ["stuck"]]
    assert [told("quick", each) for each in (90, 91)] == [[], ["stuck"]]
    for definition in ("slow", "endless", "gone"):
        assert [told(definition, each) for each in (300, 301)] == [[], ["stuck"]]


def test_a_hung_job_of_a_definition_without_a_success_in_the_window_is_told(app: Penstock, work: Any) -> None:
    hand = Hand(app)
    job = work.enqueue("x")
    hand.claim_one(job.id)
    change(app.store, "UPDATE {s}job SET started_at = started_at - 400000000 WHERE worker IS NOT NULL")

    alert = found(app)[f"stuck:{job.id}"]

    assert "has been running for 40" in alert.message
    assert "no job of it has succeeded yet" in alert.message


def test_a_hung_job_is_compared_with_successes_of_the_day_before(app: Penstock, work: Any) -> None:
    hand = Hand(app)
    hand.succeed(work.enqueue("x").id)
    job = work.enqueue("x")
    hand.claim_one(job.id)
    change(app.store, "UPDATE {s}job SET started_at = started_at - 400000000 WHERE worker IS NOT NULL")
    change(app.store, "UPDATE {s}tally_delta SET minute = minute - 1500")

    alert = found(app)[f"stuck:{job.id}"]

    assert "s are usual" in alert.message


@pytest.mark.parametrize(
    ("facts", "missed"),
    [
        ({}, True),
        ({"late": 59}, False),
        ({"enabled": False}, False),
        ({"late": None}, False),
        ({"pause": 0}, False),
        ({"pause": 1}, False),
        ({"pause": -1}, True),
        ({"error": "it is no schedule"}, False),
    ],
)
def test_a_schedule_is_missed_when_it_should_have_ticked(facts: dict[str, Any], missed: bool) -> None:
    told = alerts(_facts(schedules=[_row(**facts)]))

    assert [each.id for each in told] == (["schedule_missed:nightly"] if missed else [])


def test_the_critical_come_first_and_each_has_an_id_of_its_own() -> None:
    deep = [DefinitionStats("b", {Status.QUEUED: 200}), DefinitionStats("a", flow=Flow(succeeded=10, failed=10))]

    told = alerts(_facts(definitions=deep, schedules=[_row()], unserved=[("b", 1, 3), ("b", 2, 4)]))

    assert [each.id for each in told] == ["failure_rate:a", "schedule_missed:nightly", "unserved:b", "depth:b"]
    assert "3 of version 1, 4 of version 2" in told[2].message


def _facts(definitions: Sequence[DefinitionStats] = (), **facts: Any) -> AlertFacts:
    stats = Stats(NOON, NOON - timedelta(minutes=15), {}, Flow(), definitions, [], None)
    return AlertFacts(stats, AlertThresholds(), **facts)


def _row(
    late: float | None = 60, enabled: bool = True, pause: int | None = None, error: str | None = None
) -> ScheduleRow:
    """A schedule that is so many seconds late; its pause has no end (0), or ends later (1), or has ended (-1)."""
    due = None if late is None else _micro(NOON - timedelta(seconds=late))
    until = None if not pause else _micro(NOON + timedelta(seconds=pause))
    paused = None if pause is None else Pause("rest", "ann", 0, until)
    schedule = replace(NIGHTLY, next_run_at=due, enabled=enabled)
    return ScheduleRow(schedule, 1, paused, None, NOON, NOON, error)


def _micro(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
