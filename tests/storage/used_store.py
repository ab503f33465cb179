"""Fills a store: rows in every table, jobs in every state."""

from __future__ import annotations

import json
from typing import Any

from penstock.domain.access import Role
from penstock.domain.alerts import Alert
from penstock.domain.attempt import LogLine
from penstock.domain.definition import RateLimit
from penstock.domain.instant import DAY, HOUR
from penstock.domain.schedule.schedule import Kind, Schedule, Tick
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import Duty
from penstock.storage.commands import access, admin, control, jobs, schedules
from tests.storage.deliveries import create_deliveries, endpoint, settle, take
from tests.storage.kit import Kit

FILLED = (
    "control", "definition", "worker", "job", "job_detail", "job_tag", "idempotency", "attempt", "progress", "phase",
    "review", "log", "bucket", "schedule", "tick", "tally", "tally_delta", "tally_span",
    "tally_length", "event", "hook", "feed_horizon", "setting", "audit", "token", "session", "webhook", "receiver",
    "access", "delivery", "delivery_try", "webhook_feed", "alert",
)  # fmt: skip
"""The tables that have rows afterwards."""


def fill_tables(kit: Kit, n: int) -> None:
    """Create `n` jobs and let half of them end; then something of everything else."""
    kit.define("work", hooks=("on_success",), phases=("one", "two"))
    kit.define("keyed", key_concurrency=1, rate_limit=RateLimit(1, 60.0))
    endpoint(kit, events=("job.succeeded", "job.failed"))
    _end_many(kit, n)
    for status in Status:
        kit.job_in(status, f"in-{status}") if status is not Status.STALE else None
    _details(kit)
    _webhooks(kit)
    _operators(kit)
    kit.run(admin.fold())
    kit.create("work")


def _end_many(kit: Kit, most: int) -> None:
    lane = kit._lanes["work"]
    for start in range(0, most, 500):
        some = [
            kit.draft("work", params=json.dumps({"n": n, "text": 'ä\\\t"\n'}), tags=("t",) if n % 5 else ())
            for n in range(start, min(most, start + 500))
        ]
        kit.run(jobs.create(some))
        worker = kit.worker()
        claimed = kit.claim(worker, limit=len(some) // 2, lanes=[lane], start=True)
        ends = [
            kit.ending(each, Trigger.FAIL if number % 7 == 0 else Trigger.SUCCEED, result='{"ok": 1.50}')
            for number, each in enumerate(claimed)
        ]
        kit.run(jobs.settle(worker, ends))
        kit.run(jobs.end_worker(worker))
        kit.advance(1)


def _details(kit: Kit) -> None:
    claimed = kit.running(
        "other", idempotency_key="key", reference_type="order", reference_id="7", webhook_url="https://example.test/",
        tags=("x", "y"), traceparent="00-1-2-01", actor="ann",
    )  # fmt: skip
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "run", 0, "running", progress=12.5, message="half\\way"))
    kit.run(jobs.save_progress([(held, 12.5, "half\tway", "run")]))
    kit.run(
        jobs.save_logs(held, [LogLine("info", "line\nwith more", details='{"a": 1}', duration=5), LogLine("error", "")])
    )
    kit.create("keyed", concurrency_key="k", unique="u")
    kit.claim(lanes=[kit._lanes["keyed"]], limited=[kit._lanes["keyed"]])
    worker = kit.worker()
    kit.run(jobs.heartbeat(worker, 1, duties=[Duty("claim", 0.5, 0)]))


def _webhooks(kit: Kit) -> None:
    create_deliveries(kit)
    for parcel in take(kit)[:3]:
        settle(kit, parcel)


def _operators(kit: Kit) -> None:
    kit.run(admin.save_alerts([Alert("depth", "work", "They are many.")]))
    kit.run(control.pause("*", None, by="ann"))
    kit.run(admin.put_setting("worker", '{"slots": 3}', by="ann"))
    kit.run(access.create_token("tokentokento", "d" * 64, "deploy", Role.ADMIN, by="ann"))
    kit.run(access.create_session("sessionsessi", "tokentokento", "e" * 64, HOUR, by="ann"))
    schedule = Schedule("nightly", "work", Kind.CRON, "0 3 * * *", next_run_at=kit.now + HOUR)
    row: Any = kit.run(schedules.save(schedule, by="ann"))
    tick = Tick("nightly", row.revision, kit.now + HOUR, kit.now + DAY)
    kit.run(schedules.tick(tick, kit.draft("work"), "allow"))
