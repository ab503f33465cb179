"""After the clock was ahead for a moment: what was written then is found by name, and set back."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, to_datetime
from penstock.domain.maintenance import ClockMark
from penstock.domain.outcome import Failure
from penstock.domain.schedule.due_ticks import plan, with_next_tick
from penstock.domain.schedule.schedule import Kind, Missed, Schedule, TickRequest
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, jobs, schedules
from penstock.storage.commands.maintenance import marks_ahead, set_back
from tests.storage.kit import START, Kit
from tests.storage.tables import change, query

pytestmark = pytest.mark.usefixtures("sound")

TEN_YEARS = 3650 * DAY


def declare(kit: Kit, key: str = "hourly", **facts: Any) -> None:
    """What a worker does when it starts."""
    given = {"definition_key": "work", "kind": Kind.INTERVAL, "expression": "1h", **facts}
    stored = {row.schedule.key: row for row in kit.run(schedules.all())}.get(key)
    kit.run(schedules.save(with_next_tick(Schedule(key, **given), stored, kit.now), by="code"))


def tick(kit: Kit) -> list[int]:
    """Do what the scheduler does at this moment; the instants for which there are jobs now."""
    made = []
    for row in kit.run(schedules.due()):
        for turn in plan(row, kit.now):
            draft = kit.draft() if turn.make else None
            (answer,) = kit.run(schedules.tick_all([TickRequest(turn.tick, draft, "allow")]))
            made += [turn.tick.instant] if answer.verdict == "made" else []
    return made


def ticks_of(kit: Kit, hours: int) -> list[int]:
    """The ticks of so many hours to come, looked for each hour."""
    made = []
    for _ in range(hours):
        kit.now += HOUR
        made += tick(kit)
    return made


def found(kit: Kit) -> list[tuple[str, str]]:
    return [(mark.kind, mark.name) for mark in kit.run(marks_ahead())]


@pytest.fixture
def silent(kit: Kit) -> Kit:
    """A store with a schedule that ticked once while the clock was ten years ahead."""
    kit.define()
    declare(kit)
    assert len(ticks_of(kit, 3)) == 3
    kit.now += TEN_YEARS
    assert len(tick(kit)) == 1
    kit.now -= TEN_YEARS
    return kit


def test_a_schedule_whose_mark_is_ahead_of_the_clock_is_named_and_ticks_again_once_it_is_set_back(silent: Kit) -> None:
    kit = silent
    declare(kit)
    assert ticks_of(kit, 3) == []
    mark = to_datetime((START + 3 * HOUR + TEN_YEARS) // HOUR * HOUR)
    assert kit.run(marks_ahead())[0] == ClockMark("schedule", "hourly", mark)

    kit.run(set_back(by="ann"))

    assert len(tick(kit)) == 1
    assert len(ticks_of(kit, 3)) == 3
    assert kit.run(marks_ahead()) == []


@pytest.mark.parametrize(("missed", "made"), [(Missed.ALL, 3), (Missed.LATEST, 1), (Missed.SKIP, 0)])
def test_ticks_that_a_silent_schedule_has_missed_are_decided_by_its_policy(kit: Kit, missed: Missed, made: int) -> None:
    kit.define()
    declare(kit, missed=missed)
    ticks_of(kit, 2)
    kit.now += TEN_YEARS
    tick(kit)
    kit.now -= TEN_YEARS
    assert ticks_of(kit, 3) == []
    kit.now += MINUTE

    kit.run(set_back(by="ann"))

    assert len(tick(kit)) == made


def test_each_tick_is_made_once_when_the_clock_comes_to_what_it_has_been_ahead_to(silent: Kit) -> None:
    kit = silent
    kit.run(set_back(by="ann"))

    kit.now += TEN_YEARS

    assert len(tick(kit)) == 1
    assert kit.run(marks_ahead()) == []


def test_a_schedule_that_was_first_declared_while_the_clock_was_ahead_is_set_back(kit: Kit) -> None:
    kit.define()
    kit.now += TEN_YEARS
    declare(kit)
    kit.now -= TEN_YEARS
    assert found(kit) == [("schedule", "hourly")]

    kit.run(set_back(by="ann"))

    assert len(ticks_of(kit, 2)) == 2


@pytest.mark.parametrize(
    "facts",
    [{"kind": Kind.ONCE, "expression": "2100-01-01T00:00:00Z"}, {"kind": Kind.CRON, "expression": "0 0 29 2 *"}],
)
def test_a_schedule_that_ticks_in_the_far_future_is_as_it_should_be(kit: Kit, facts: dict[str, Any]) -> None:
    kit.define()
    declare(kit, **facts)

    assert found(kit) == []
    assert kit.run(set_back(by="ann")) == []


def test_a_jump_within_the_missed_window_of_a_schedule_heals_without_a_command(kit: Kit) -> None:
    kit.define()
    declare(kit, missed=Missed.ALL, missed_window=5 * HOUR)
    before = ticks_of(kit, 2)
    kit.now += 4 * HOUR
    early = tick(kit)
    kit.now -= 4 * HOUR
    assert ("schedule", "hourly") not in found(kit)

    later = ticks_of(kit, 8)

    made = [*before, *early, *later]
    assert made == [made[0] + n * HOUR for n in range(10)]


def test_the_audit_names_a_schedule_that_was_set_back_with_its_marks(silent: Kit) -> None:
    silent.run(set_back(by="ann"))

    entries = silent.run(admin.audit(action="clock.set_back"))
    assert {(each.actor, each.target) for each in entries} == {("ann", "schedule hourly"), ("ann", "queued_jobs")}
    (entry,) = silent.run(admin.audit(target="schedule hourly"))
    assert entry.before is not None
    assert entry.after is not None
    assert "2037" in entry.before
    assert "2027" in entry.after


def test_jobs_that_were_put_off_or_queued_while_the_clock_was_ahead_run_as_long_after_as_they_should(kit: Kit) -> None:
    kit.define()
    kit.now += TEN_YEARS
    later = kit.create(delay=10 * SECOND)
    retried = kit.running()
    kit.settle(retried, Trigger.FAIL, failure=Failure("ValueError", "broken"))
    queued = kit.create()
    kit.now -= TEN_YEARS
    assert sorted(found(kit)) == sorted(
        [("scheduled_jobs", later), ("scheduled_jobs", retried.job_id), ("queued_jobs", queued)]
    )

    kit.run(set_back(by="ann"))
    kit.create()
    kit.advance(11)
    kit.run(jobs.promote())

    claimed = [each.job_id for each in kit.claim()]
    assert claimed[0] == queued
    assert {later, retried.job_id} < {*claimed}
    assert kit.run(marks_ahead()) == []


def test_a_job_that_somebody_wants_in_ten_years_is_left_alone(kit: Kit) -> None:
    kit.define()
    job = kit.create(delay=TEN_YEARS)
    before = kit.job(job)

    assert kit.run(set_back(by="ann")) == []
    assert kit.job(job) == before


def test_what_ended_while_the_clock_was_ahead_is_kept_as_long_as_its_definition_says(kit: Kit) -> None:
    kit.define(stale_after=3600, delete_after=3600)
    kit.now += TEN_YEARS
    job = kit.job_in(Status.SUCCEEDED)
    kit.now -= TEN_YEARS
    assert found(kit) == [("ended_jobs", job)]

    kit.run(set_back(by="ann"))

    assert found(kit) == []
    kit.now += HOUR + SECOND
    assert kit.status(job) is Status.STALE


def test_an_idempotency_key_that_was_taken_while_the_clock_was_ahead_expires_in_time(kit: Kit) -> None:
    kit.define()
    kit.now += TEN_YEARS
    first = kit.create(idempotency_key="k")
    kit.settle(kit.claim()[0])
    kit.now -= TEN_YEARS
    assert ("idempotency_keys", first) in found(kit)

    kit.run(set_back(by="ann"))

    assert found(kit) == []
    kit.now += 8 * DAY
    assert kit.create(idempotency_key="k") != first


@pytest.mark.parametrize("per_key", [False, True], ids=["rate", "rate-by-key"])
def test_a_rate_that_was_used_while_the_clock_was_ahead_lets_jobs_start(kit: Kit, per_key: bool) -> None:
    lane = kit.define(rate_limit=RateLimit(1, 3600, per_key=per_key), key_concurrency=0)
    kit.now += TEN_YEARS
    for _ in range(3):
        kit.create(concurrency_key="k")
    assert len(kit.claim(limited=[lane])) == 1
    kit.now -= TEN_YEARS
    assert "buckets" in [kind for kind, _ in found(kit)]

    kit.run(set_back(by="ann"))
    assert found(kit) == []
    kit.now += HOUR
    kit.run(jobs.promote())

    assert len(kit.claim(limited=[lane])) == 1


def test_sessions_alerts_and_what_webhooks_wait_for_are_set_back(kit: Kit) -> None:
    ahead, now = kit.now + TEN_YEARS, kit.now
    enabled = kit.store.dialect == "postgres" or 1
    rows = {
        "session (id, digest, token_id, created_at, expires_at)": f"'s', '{'0' * 64}', 't', {ahead}, {ahead + HOUR}",
        "alert (kind, subject, message, severity, raised_at)": f"'a', 'b', 'c', 'warning', {ahead}",
        "receiver (key, served_at, open_until)": f"'w', {ahead}, {ahead}",
        "delivery (id, endpoint, event_seq, receiver, url, kind, body, due_at, created_at)": (
            f"'d', 'w', 1, 'w', 'https://a.test/', 'job.failed', '{{{{}}}}', {ahead}, {now}"
        ),
        "webhook (id, url, description, kinds, definitions, secret, enabled, since, created_at, updated_at)": (
            f"'w', 'https://a.test/', '', '[]', '[]', 'x', {enabled}, {ahead}, {now}, {now}"
        ),
    }
    for place, values in rows.items():
        change(kit.store, f"INSERT INTO {{s}}{place} VALUES ({values})")
    assert {kind for kind, _ in found(kit)} == {"sessions", "alerts", "endpoints", "receivers", "deliveries"}

    kit.run(set_back(by="ann"))

    assert found(kit) == []
    assert query(kit.store, "SELECT expires_at FROM {s}session") == [(now + HOUR,)]
    assert query(kit.store, "SELECT raised_at, cleared_at FROM {s}alert") == [(now, None)]
    assert query(kit.store, "SELECT since FROM {s}webhook") == [(now,)]
    assert query(kit.store, "SELECT served_at, open_until, failing_since FROM {s}receiver") == [(now, None, None)]
    assert query(kit.store, "SELECT due_at FROM {s}delivery") == [(now,)]
