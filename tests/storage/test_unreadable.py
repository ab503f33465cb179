"""One row that cannot be read is shown as such, keeps no other from being read, and can be repaired."""

from __future__ import annotations

import json

import pytest

from penstock.domain.definition import Pause
from penstock.domain.errors import InvalidDefinition
from penstock.domain.instant import HOUR
from penstock.domain.schedule.schedule import Kind, Schedule, ScheduleRow, Tick
from penstock.storage.commands import admin, control, jobs, schedules
from tests.storage.kit import LEASE, START, Kit
from tests.storage.tables import change, query

BODIES = {
    "no JSON": "{broken",
    "no object": "[1]",
    "a field too few": '{"definition_key": "work"}',
    "an unknown kind": json.dumps({"definition_key": "work", "kind": "weekly", "expression": "x", "missed": "skip",
                                   "overlap": "skip"}),
    "a field too many": json.dumps({"definition_key": "work", "kind": "cron", "expression": "x", "missed": "skip",
                                    "overlap": "skip", "moon": "full"}),
    "a field of another type": json.dumps({"definition_key": "work", "kind": "cron", "expression": "x",
                                           "missed": "skip", "overlap": "skip", "jitter": "much"}),
}  # fmt: skip


@pytest.fixture(params=list(BODIES))
def body(request: pytest.FixtureRequest) -> str:
    return BODIES[request.param]


def test_a_schedule_that_cannot_be_read_has_an_error_and_hides_no_other(kit: Kit, body: str) -> None:
    before = _save(kit, "bad")
    good = _save(kit, "good")
    _spoil(kit, "bad", body)

    bad, other = kit.run(schedules.all())

    assert other == good
    assert bad == kit.run(schedules.get("bad"))
    assert bad.error
    assert (bad.schedule.key, bad.revision, bad.schedule.next_run_at) == ("bad", before.revision, START)
    assert [row.schedule.key for row in kit.run(schedules.due())] == ["bad", "good"]
    assert kit.run(schedules.next_tick()) == START


def test_a_schedule_that_cannot_be_read_never_ticks(kit: Kit) -> None:
    kit.define()
    row = _save(kit, "bad")
    _spoil(kit, "bad", "{")

    ticked = kit.run(schedules.tick(Tick("bad", row.revision, START, START + HOUR), kit.draft(), "allow"))

    assert ticked.verdict == "taken"
    assert kit.run(schedules.ticks("bad")) == []


def test_saving_it_anew_repairs_a_schedule_and_keeps_its_mark_and_pause(kit: Kit) -> None:
    row = _save(kit, "bad")
    kit.run(schedules.tick(Tick("bad", row.revision, START, START + HOUR), None, "allow"))
    kit.run(schedules.pause("bad", Pause("quiet", "ann", kit.now), by="ann"))
    _spoil(kit, "bad", "{")

    saved = _save(kit, "bad", next_run_at=START)

    assert saved.error is None
    assert (saved.schedule.definition_key, saved.schedule.next_run_at) == ("work", START + HOUR), "not before the mark"
    assert saved.pause is not None
    assert kit.run(schedules.get("bad")) == saved
    before = json.loads(kit.run(admin.audit())[0].before or "{}")
    assert list(before) == ["error"], "its text, which may be anything, is not in the audit"


def test_a_schedule_that_cannot_be_read_can_be_paused_and_removed(kit: Kit) -> None:
    _save(kit, "bad")
    _spoil(kit, "bad", "{")

    kit.run(schedules.pause("bad", Pause("quiet", "ann", kit.now), by="ann"))
    assert kit.run(schedules.due()) == []
    kit.run(schedules.remove("bad", by="ann"))

    assert kit.run(schedules.all()) == []


def test_the_next_tick_leaves_out_those_that_are_named_with_their_revision(kit: Kit) -> None:
    first = _save(kit, "first")
    _save(kit, "second 1", next_run_at=START + HOUR)

    assert kit.run(schedules.next_tick({"first": first.revision})) == START + HOUR
    assert kit.run(schedules.next_tick({"first": first.revision + 1})) == START
    assert kit.run(schedules.next_tick({"first": 1, "second 1": 1})) is None


@pytest.mark.parametrize("text", ["{broken", "[]", "{}", '{"key": "bad", "version": "x", "backoff": 1}'])
def test_a_definition_that_cannot_be_read_has_an_error_and_hides_no_other(kit: Kit, text: str) -> None:
    kit.define("bad")
    kit.define("good", concurrency=3)
    _spoil_definition(kit, "bad", text)

    bad, good = kit.run(admin.definitions())

    assert bad.error
    assert (bad.definition.key, bad.definition.version) == ("bad", 1)
    assert (good.error, good.definition.concurrency) == (None, 3)
    assert kit.run(admin.definition("good")) == good
    for plan in (admin.definition("bad"), admin.definition("bad", 1)):
        with pytest.raises(
            InvalidDefinition, match=r"definition bad version 1 cannot be read.*registers the definition again"
        ):
            kit.run(plan)
    with pytest.raises(InvalidDefinition, match="definition bad cannot be read"):
        kit.run(control.override("bad", {"concurrency": 1}, by="ann"))

    kit.define("bad")
    assert kit.run(admin.definition("bad")).error is None, "registering it repairs it"


def test_what_operators_want_of_a_definition_may_be_unreadable_too(kit: Kit) -> None:
    kit.define("bad")
    change(kit.store, "UPDATE {s}control SET overrides = 'x' WHERE key = 'bad'")

    (row,) = kit.run(admin.definitions())

    assert row.error


def test_jobs_of_a_dead_worker_are_freed_though_their_definition_cannot_be_read(kit: Kit) -> None:
    claimed = kit.running()
    _spoil_definition(kit, "work", "{")
    kit.advance(LEASE / 1e6 + 2)

    freed = kit.run(jobs.reclaim(1_000_000, 0.5))

    assert freed.lost == [claimed.job_id]
    assert query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL") == [(0,)]


def _save(kit: Kit, key: str, next_run_at: int = START) -> ScheduleRow:
    wanted = Schedule(key, "work", Kind.INTERVAL, "1h", next_run_at=next_run_at)
    return kit.run(schedules.save(wanted, by="ann"))


def _spoil(kit: Kit, key: str, body: str) -> None:
    change(kit.store, f"UPDATE {{s}}schedule SET body = '{body}' WHERE key = '{key}'")


def _spoil_definition(kit: Kit, key: str, body: str) -> None:
    change(kit.store, f"UPDATE {{s}}definition SET body = '{body}' WHERE key = '{key}'")
