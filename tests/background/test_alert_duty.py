"""The duty that raises and clears alerts: every kind there is, once each way."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.background import alerts as engine_alerts
from penstock.domain import event as kinds
from penstock.domain.outcome import Failure
from penstock.domain.schedule.schedule import Kind, Schedule
from penstock.launch import services
from penstock.runtime.service import Service
from penstock.storage.commands import feed, jobs, schedules, webhooks
from tests.definitions import shapes
from tests.operations.hand import LEASE, Hand
from tests.storage.tables import change, query

BROKEN = Failure("ValueError", "broken", "Traceback", "mark")
Undo = Callable[[], object]


class Scene:
    """An application with one definition, a worker that is played by hand, and the duty."""

    def __init__(self, app: Penstock) -> None:
        self.app = app
        self.work = app.job("work")(shapes.plain)
        app.register()
        self.hand = Hand(app)

    async def look(self) -> None:
        await services.alerts(self.app, lambda: "").once()

    def standing(self) -> set[str]:
        return {each.alert.id for each in self.app.alert_history(cleared=False)}

    def set(self, **thresholds: Any) -> None:
        self.app.set_worker_config({"alerts": thresholds})


def failing(scene: Scene) -> Undo:
    scene.set(leastSample=2, failureRate=0.4)
    for _ in range(2):
        scene.hand.fail(scene.work.enqueue("x").id, BROKEN)

    def end() -> None:
        for _ in range(4):
            scene.hand.succeed(scene.work.enqueue("x").id)

    return end


def stuck(scene: Scene) -> Undo:
    scene.hand.succeed(scene.work.enqueue("x").id)
    job = scene.work.enqueue("x")
    claimed = scene.hand.claim_one(job.id)
    change(scene.app.store, "UPDATE {s}job SET started_at = started_at - 4000000000 WHERE worker IS NOT NULL")
    return lambda: scene.hand.end(claimed, scene.hand.succeeding())


def silent(scene: Scene) -> Undo:
    claimed = scene.hand.claim_one(scene.work.enqueue("x").id)
    scene.app.store.run(jobs.save_progress([(scene.hand.held(claimed), 10.0, None, None)]))
    change(scene.app.store, "UPDATE {s}progress SET updated_at = updated_at - 301000000")
    return lambda: scene.app.store.run(jobs.save_progress([(scene.hand.held(claimed), 11.0, None, None)]))


def deep(scene: Scene) -> Undo:
    scene.set(depth=2)
    for _ in range(3):
        scene.work.enqueue("x")
    return scene.hand.claim


def disabled(scene: Scene) -> Undo:
    scene.app.set_worker_config({"enabled": False})
    return lambda: scene.app.set_worker_config({"enabled": True})


def paused(scene: Scene) -> Undo:
    scene.app.pause_all("The disk is full.")
    return scene.app.resume_all


def unserved(scene: Scene) -> Undo:
    other = scene.app.job("other")(shapes.plain)
    other.enqueue("x")
    return lambda: Hand(scene.app)


def missed(scene: Scene) -> Undo:
    due = round((datetime.now(UTC) - timedelta(minutes=2)).timestamp() * 1e6)
    nightly = Schedule("nightly", "work", Kind.INTERVAL, "3600", params_text='{"to":"x"}', next_run_at=due)
    scene.app.store.run(schedules.save(nightly, by="ann"))
    later = replace(nightly, next_run_at=due + 3_600_000_000)
    return lambda: scene.app.store.run(schedules.save(later, by="ann"))


def unreachable(scene: Scene) -> Undo:
    scene.app.save_webhook("https://receiver.test/hook")
    change(scene.app.store, "UPDATE {s}receiver SET failures = 5, last_failure_at = 1")
    return lambda: change(scene.app.store, "UPDATE {s}receiver SET failures = 0")


SCENES: dict[str, tuple[Callable[[Scene], Undo], set[str]]] = {
    "failure rate": (failing, {"failure_rate:work"}),
    "running beyond its usual": (stuck, {"stuck:{job}"}),
    "without progress": (silent, {"silent:{job}"}),
    "depth": (deep, {"depth:work", "depth:*"}),
    "worker disabled": (disabled, {"worker_disabled:*"}),
    "system paused": (paused, {"system_paused:*"}),
    "no live worker": (unserved, {"unserved:other"}),
    "missed schedule": (missed, {"schedule_missed:nightly"}),
    "endpoint failing": (unreachable, {"endpoint_failing:{endpoint}"}),
}


@pytest.mark.parametrize("name", SCENES)
async def test_an_alert_is_raised_and_cleared_once_each(
    app: Penstock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="penstock.worker")
    scene = Scene(app)
    await scene.look()
    assert scene.standing() == set()
    begin, expected = SCENES[name]

    end = begin(scene)
    await scene.look()
    await scene.look()

    newest = max((str(each) for (each,) in query(app.store, "SELECT id FROM {s}job")), default="")
    endpoint = "".join(each for (each,) in query(app.store, "SELECT id FROM {s}webhook"))
    expected = {each.replace("{job}", newest).replace("{endpoint}", endpoint) for each in expected}
    assert scene.standing() == expected
    end()
    await scene.look()
    await scene.look()
    assert scene.standing() == set()
    assert {each.alert.id for each in app.alert_history(cleared=True)} == expected
    events = await _events(app)
    assert sorted(events) == sorted(
        (kind, each) for kind in (kinds.ALERT_RAISED, kinds.ALERT_CLEARED) for each in expected
    )
    said = [each.getMessage() for each in caplog.records]
    for each in expected:
        assert [text.startswith(f"alert raised: {each}: ") for text in said].count(True) == 1
        assert said.count(f"alert cleared: {each}") == 1


async def test_alerts_begin_when_the_other_duties_have_had_their_first_pass(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(app)
    app.pause_all("x")
    caught_up = False
    duty = services.alerts(app, lambda: scene.hand.id, caught_up=lambda: caught_up)

    assert await duty.tick() < 1
    assert scene.standing() == set()
    monkeypatch.setattr(engine_alerts, "_LONGEST_CATCHING_UP", 0.0)
    caught_up = False
    await app.store.arun(jobs.heartbeat(scene.hand.id, LEASE))
    await duty.once()
    assert scene.standing() == {"system_paused:*"}


async def test_a_duty_that_fails_or_has_done_its_work_keeps_no_alert_back() -> None:
    pauses = iter([0.0, 0.0, 1.0])

    async def work() -> float:
        pause = next(pauses)
        seen.append(working.caught_up)
        if pause:
            working.stop()
        return pause

    async def fail() -> float:
        failing.stop()
        raise ValueError("broken")

    seen: list[bool] = []
    working, failing = Service("work", work), Service("fail", fail)
    await working.run()
    await failing.run()

    assert seen == [False, False, False]
    assert working.caught_up
    assert failing.caught_up


async def test_webhooks_can_ask_for_alerts(app: Penstock) -> None:
    scene = Scene(app)
    app.save_webhook("https://receiver.test/hook", events=["alert.*"])
    app.pause_all("x")

    await scene.look()
    await app.store.arun(webhooks.create_deliveries())

    ((kind, text),) = query(app.store, "SELECT kind, body FROM {s}delivery")
    body = json.loads(text)
    assert kind == "alert.raised"
    assert (body["data"]["subject"], body["data"]["details"]["kind"]) == ("system_paused:*", "system_paused")


async def _events(app: Penstock) -> list[tuple[str, str | None]]:
    news = await app.store.arun(feed.read(await app.store.arun(feed.origin())))
    return [(each.type, each.subject) for each in news.events if each.type.startswith("alert.")]
