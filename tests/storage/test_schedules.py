"""save, get, list, remove, pause, due, next_tick: schedules as they are kept."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.definition import Pause
from penstock.domain.errors import NotFound, RevisionConflict
from penstock.domain.instant import DAY, HOUR, to_datetime
from penstock.domain.plan import Plan
from penstock.domain.schedule.schedule import Kind, Missed, Overlap, Schedule, Tick
from penstock.storage.commands import schedules
from tests.storage.kit import START, Kit
from tests.storage.tables import query


def test_a_schedule_is_read_as_it_was_saved(kit: Kit) -> None:
    wanted = Schedule(
        "nightly", "report", Kind.CRON, "0 3 * * *", definition_version=2, params_text='{"ä": 1}', priority=4,
        timezone="Europe/Berlin", missed=Missed.ALL, missed_max=7, missed_window=HOUR, overlap=Overlap.QUEUE_ONE,
        jitter=5, owner="code", next_run_at=START + HOUR,
    )  # fmt: skip

    row = kit.run(schedules.save(wanted, by="ann"))

    assert row.schedule == wanted
    assert row.schedule.params == {"ä": 1}
    assert (row.revision, row.pause, row.last_scheduled_at) == (1, None, None)
    assert row.created_at == row.updated_at == to_datetime(kit.now)
    assert kit.run(schedules.get("nightly")) == row
    assert kit.run(schedules.all()) == [row]


def test_a_schedule_that_is_not_there_is_not_found(kit: Kit) -> None:
    plans: tuple[Plan[Any], ...] = (
        schedules.get("nightly"),
        schedules.remove("nightly", by="ann"),
        schedules.pause("nightly", None, by="ann"),
    )
    for plan in plans:
        with pytest.raises(NotFound, match="no schedule 'nightly'"):
            kit.run(plan)


def test_saving_again_replaces_it_under_the_next_revision(kit: Kit) -> None:
    first = _save(kit)
    kit.advance(5)

    second = _save(kit, expression="0 4 * * *", enabled=False)

    assert (second.revision, second.schedule.expression, second.schedule.enabled) == (2, "0 4 * * *", False)
    assert (second.created_at, second.updated_at) == (first.created_at, to_datetime(kit.now))


def test_saving_the_same_again_changes_nothing(kit: Kit) -> None:
    first = _save(kit)
    kit.advance(5)

    assert _save(kit) == first
    assert len(_audit(kit)) == 1


def test_a_change_to_another_revision_than_the_stored_one_is_refused(kit: Kit) -> None:
    _save(kit)
    _save(kit, expression="0 4 * * *")

    with pytest.raises(RevisionConflict, match="'nightly' is at revision 2, not 1"):
        kit.run(schedules.save(_schedule(expression="0 5 * * *"), by="ann", revision=1))
    with pytest.raises(RevisionConflict, match="'other' is at revision 0, not 3"):
        kit.run(schedules.save(_schedule("other"), by="ann", revision=3))
    with pytest.raises(RevisionConflict, match="is at revision 2, not 0"):
        kit.run(schedules.save(_schedule(), by="ann", revision=0))

    assert kit.run(schedules.save(_schedule(expression="0 5 * * *"), by="ann", revision=2)).revision == 3
    assert kit.run(schedules.save(_schedule("new"), by="ann", revision=0)).revision == 1


def test_a_pause_survives_what_code_declares(kit: Kit) -> None:
    _save(kit)
    pause = Pause("repairs", "ann", kit.now, None)
    kit.run(schedules.pause("nightly", pause, by="ann"))

    row = _save(kit, expression="0 4 * * *", owner="code")

    assert row.pause == pause
    kit.run(schedules.pause("nightly", None, by="ann"))
    assert kit.run(schedules.get("nightly")).pause is None


def test_a_next_tick_that_was_made_already_is_not_taken_over(kit: Kit) -> None:
    _save(kit, next_run_at=START)
    _pass_over(kit, START, START + DAY)

    for again in (START - HOUR, START):
        assert _save(kit, next_run_at=again).schedule.next_run_at == START + DAY
    assert _save(kit, next_run_at=START + 1).schedule.next_run_at == START + 1
    row = _save(kit, next_run_at=None)
    assert (row.schedule.next_run_at, row.last_scheduled_at) == (None, to_datetime(START))


def test_a_once_schedule_that_is_over_stays_disabled_when_code_declares_it_again(kit: Kit) -> None:
    once = _schedule(kind=Kind.ONCE, expression="2027-01-15T08:00:00Z", next_run_at=START)
    kit.run(schedules.save(once, by="code"))
    _pass_over(kit, START, None)

    row = kit.run(schedules.save(once, by="code"))

    assert (row.schedule.enabled, row.schedule.next_run_at) == (False, None)


def test_removing_a_schedule_keeps_the_record_of_its_ticks(kit: Kit) -> None:
    _save(kit, next_run_at=START)
    _pass_over(kit, START, START + DAY)

    kit.run(schedules.remove("nightly", by="ann"))

    assert kit.run(schedules.all()) == []
    assert len(kit.run(schedules.ticks("nightly"))) == 1


def test_a_schedule_is_removed_only_at_the_revision_that_was_read(kit: Kit) -> None:
    stored = _save(kit)

    with pytest.raises(RevisionConflict, match="revision 1, not 2"):
        kit.run(schedules.remove("nightly", by="ann", revision=2))
    assert kit.run(schedules.all()) == [stored]

    kit.run(schedules.remove("nightly", by="ann", revision=1))
    assert kit.run(schedules.all()) == []


def test_due_are_those_whose_tick_has_come_the_earliest_first(kit: Kit) -> None:
    _save(kit, "late", next_run_at=START)
    _save(kit, "early", next_run_at=START - HOUR)
    _save(kit, "to come", next_run_at=START + 1)
    _save(kit, "never", next_run_at=None)
    _save(kit, "disabled", next_run_at=START, enabled=False)
    _save(kit, "paused", next_run_at=START)
    kit.run(schedules.pause("paused", Pause("repairs", "ann", kit.now), by="ann"))

    assert [row.schedule.key for row in kit.run(schedules.due())] == ["early", "late"]
    assert [row.schedule.key for row in kit.run(schedules.due(limit=1))] == ["early"]


def test_a_paused_schedule_is_due_when_its_pause_is_over(kit: Kit) -> None:
    _save(kit, next_run_at=START)
    kit.run(schedules.pause("nightly", Pause("repairs", "ann", kit.now, kit.now + HOUR), by="ann"))
    assert kit.run(schedules.due()) == []

    assert kit.run(schedules.next_tick()) == START + HOUR

    kit.advance(3600)
    assert [row.schedule.key for row in kit.run(schedules.due())] == ["nightly"]


def test_the_next_tick_is_the_earliest_of_those_that_run(kit: Kit) -> None:
    assert kit.run(schedules.next_tick()) is None
    _save(kit, "late", next_run_at=START + DAY)
    _save(kit, "early", next_run_at=START + HOUR)
    _save(kit, "disabled", next_run_at=START, enabled=False)
    _save(kit, "paused", next_run_at=START)
    kit.run(schedules.pause("paused", Pause("repairs", "ann", kit.now), by="ann"))

    assert kit.run(schedules.next_tick()) == START + HOUR


def test_every_change_is_written_down(kit: Kit) -> None:
    _save(kit)
    _save(kit, expression="0 4 * * *")
    kit.run(schedules.pause("nightly", Pause("repairs", "ann", kit.now), by="bob"))
    kit.run(schedules.pause("nightly", None, by="bob"))
    kit.run(schedules.remove("nightly", by="cid"))

    entries = _audit(kit)

    assert [entry[:3] for entry in entries] == [
        ("ann", "schedule.create", "nightly"),
        ("ann", "schedule.replace", "nightly"),
        ("bob", "schedule.pause", "nightly"),
        ("bob", "schedule.resume", "nightly"),
        ("cid", "schedule.remove", "nightly"),
    ]
    before, after = (json.loads(text) for text in entries[1][3:])
    assert (before["expression"], after["expression"]) == ("0 3 * * *", "0 4 * * *")


def test_the_audit_does_not_show_secret_parameters(kit: Kit) -> None:
    kit.define("work", secret_fields=("code",))
    kit.define("work", version=2, secret_fields=("pin",))
    params = '{"code":"canary","pin":"canary","my_token":"canary","n":1.50}'

    _save(kit, params_text=params)
    _save(kit, params_text=params, expression="0 4 * * *")
    kit.run(schedules.remove("nightly", by="ann"))

    shown = '{"code":"***","pin":"***","my_token":"***","n":1.50}'
    told = [json.loads(text)["params"] for entry in _audit(kit) for text in entry[3:] if text is not None]
    assert told == [shown] * 4


def test_the_audit_shows_no_parameter_of_a_definition_that_nobody_knows(kit: Kit) -> None:
    _save(kit, params_text='{"a":"canary","b":[1]}')

    assert json.loads(_audit(kit)[0][4])["params"] == '{"a":"***","b":"***"}'


def test_those_who_declare_the_same_schedule_at_once_make_it_once(shared_store: Any) -> None:
    kit = Kit(shared_store)

    with ThreadPoolExecutor(4) as threads:
        rows = list(threads.map(lambda _: _save(kit), range(12)))

    assert {row.revision for row in rows} == {1}
    assert len(kit.run(schedules.all())) == 1


def _schedule(key: str = "nightly", **facts: Any) -> Schedule:
    return Schedule(key, "work", **{"kind": Kind.CRON, "expression": "0 3 * * *", **facts})


def _save(kit: Kit, key: str = "nightly", **facts: Any) -> Any:
    return kit.run(schedules.save(_schedule(key, **facts), by="ann"))


def _pass_over(kit: Kit, instant: int, next_run_at: int | None) -> None:
    kit.run(schedules.tick(Tick("nightly", 1, instant, next_run_at), None, Overlap.ALLOW))


def _audit(kit: Kit) -> list[tuple[Any, ...]]:
    return query(kit.store, "SELECT actor, action, target, before, after FROM {s}audit ORDER BY seq")
