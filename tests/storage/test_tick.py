"""tick: one instant of a schedule becomes at most one job."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.definition import Pause
from penstock.domain.errors import Conflict
from penstock.domain.instant import DAY, HOUR, to_datetime
from penstock.domain.job import Draft
from penstock.domain.job_json import iso
from penstock.domain.job_list import JobFilter
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, Tick, TickRequest, TickResult
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, feed, schedules
from tests.storage.kit import START, Kit
from tests.storage.tables import check_soundness, query


def test_a_tick_makes_a_job_and_moves_the_schedule_on(kit: Kit) -> None:
    _declare(kit)
    draft = kit.draft(delay=HOUR)

    answer = kit.run(schedules.tick(Tick("nightly", 1, START, START + DAY), draft, Overlap.ALLOW))

    row = kit.run(schedules.get("nightly"))
    job = kit.job(draft.id)
    assert answer == TickResult("made", draft.id)
    assert (row.last_scheduled_at, row.schedule.next_run_at) == (to_datetime(START), START + DAY)
    assert (job.status, job.schedule_id, job.scheduled_for) == (Status.SCHEDULED, "nightly", to_datetime(START))
    assert kit.events(draft.id) == ["job.enqueued"]
    check_soundness(kit.store)


def test_the_same_instant_is_made_only_once(kit: Kit) -> None:
    _declare(kit)
    first = _tick(kit)

    assert _tick(kit).verdict == "taken"
    assert _tick(kit, START - HOUR).verdict == "taken"

    assert _jobs(kit) == [first.job_id]


def test_ticks_that_follow_each_other_need_not_read_the_schedule_again(kit: Kit) -> None:
    _declare(kit)

    verdicts = [_tick(kit, START + day * DAY).verdict for day in range(3)]

    assert verdicts == ["made"] * 3
    assert kit.run(schedules.get("nightly")).schedule.next_run_at == START + 3 * DAY


def test_a_schedule_that_was_changed_paused_disabled_or_removed_meanwhile_does_not_tick(kit: Kit) -> None:
    _declare(kit, "changed")
    kit.run(schedules.save(_schedule("changed", expression="0 4 * * *"), by="ann"))
    _declare(kit, "paused")
    kit.run(schedules.pause("paused", Pause("repairs", "ann", kit.now), by="ann"))
    kit.run(schedules.save(_schedule("disabled", enabled=False), by="ann"))

    for key in ("changed", "paused", "disabled", "removed"):
        assert kit.run(schedules.tick(Tick(key, 1, START, None), kit.draft(), Overlap.ALLOW)) == TickResult("taken")

    assert _jobs(kit) == []
    assert query(kit.store, "SELECT * FROM {s}tick") == []


def test_an_instant_on_record_is_not_made_again_after_the_schedule_was_declared_anew(kit: Kit) -> None:
    _declare(kit)
    _tick(kit)
    kit.run(schedules.remove("nightly", by="ann"))
    _declare(kit)

    assert _tick(kit).verdict == "taken"

    assert len(_jobs(kit)) == 1
    assert kit.run(schedules.get("nightly")).schedule.next_run_at == START + DAY


def test_without_a_draft_the_instant_is_passed_over(kit: Kit) -> None:
    _declare(kit)

    answer = kit.run(schedules.tick(Tick("nightly", 1, START, START + DAY, passed_over=3), None, Overlap.ALLOW))

    assert answer == TickResult("missed")
    assert _jobs(kit) == []
    assert kit.run(schedules.get("nightly")).last_scheduled_at == to_datetime(START)
    assert query(kit.store, "SELECT kind, subject, data FROM {s}event") == [
        ("schedule.missed", "nightly", f'{{"scheduledFor": "{iso(to_datetime(START))}", "passedOver": 3}}')
    ]


def test_instants_that_a_made_tick_passes_over_are_told_of(kit: Kit) -> None:
    _declare(kit)

    answer = kit.run(schedules.tick(Tick("nightly", 1, START, START + DAY, passed_over=7), kit.draft(), Overlap.ALLOW))

    assert answer.verdict == "made"
    assert query(kit.store, "SELECT kind, data FROM {s}event WHERE subject = 'nightly'") == [
        ("schedule.missed", f'{{"scheduledFor": "{iso(to_datetime(START))}", "passedOver": 7}}')
    ]


UNFINISHED = [each for each in Status if not each.terminal]


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("overlap", list(Overlap))
def test_the_job_of_an_earlier_tick_decides_by_the_policy(kit: Kit, status: Status, overlap: Overlap) -> None:
    kit.job_in(status, schedule="nightly")
    kit.now = START + 30 * DAY
    _declare(kit)

    answer = _tick(kit, overlap=overlap)

    in_the_way = {
        Overlap.ALLOW: [],
        Overlap.SKIP: UNFINISHED,
        Overlap.QUEUE_ONE: [Status.SCHEDULED, Status.QUEUED, Status.REVIEW_NEEDED],
    }[overlap]
    assert answer.verdict == ("skipped" if status in in_the_way else "made")
    assert kit.run(schedules.get("nightly")).last_scheduled_at == to_datetime(START)
    check_soundness(kit.store)


def test_a_skipped_tick_is_told_and_kept_on_record(kit: Kit) -> None:
    _declare(kit)
    kit.create(schedule="nightly")

    assert _tick(kit, overlap=Overlap.SKIP) == TickResult("skipped")

    assert query(kit.store, "SELECT subject, data FROM {s}event WHERE kind = 'schedule.skipped'") == [
        ("nightly", f'{{"scheduledFor": "{iso(to_datetime(START))}", "passedOver": 0, "overlap": "skip"}}')
    ]
    (tick,) = kit.run(schedules.ticks("nightly"))
    assert (tick["verdict"], tick["jobId"]) == ("skipped", None)


def test_a_job_between_two_attempts_is_unfinished(kit: Kit) -> None:
    claimed = kit.running(schedule="nightly")
    kit.settle(claimed, Trigger.FAIL)
    _declare(kit)

    assert _tick(kit, overlap=Overlap.SKIP).verdict == "skipped"


def test_the_jobs_of_other_schedules_are_not_in_the_way(kit: Kit) -> None:
    kit.create(schedule="hourly")
    kit.create()
    _declare(kit)

    assert _tick(kit, overlap=Overlap.SKIP).verdict == "made"


def test_a_schedule_that_ticks_once_ends_disabled(kit: Kit) -> None:
    _declare(kit, kind=Kind.ONCE, expression="2027-01-15T08:00:00Z")

    kit.run(schedules.tick(Tick("nightly", 1, START, None), kit.draft(), Overlap.ALLOW))

    row = kit.run(schedules.get("nightly"))
    assert (row.schedule.enabled, row.schedule.next_run_at) == (False, None)


def test_a_tick_whose_job_cannot_be_created_leaves_the_schedule_where_it_stood(kit: Kit) -> None:
    _declare(kit)
    kit.define()
    kit.run(control.enable("work", False, by="ann"))

    with pytest.raises(Conflict, match="disabled"):
        _tick(kit)

    assert kit.run(schedules.get("nightly")).last_scheduled_at is None
    assert kit.run(schedules.ticks("nightly")) == []
    kit.run(control.enable("work", True, by="ann"))
    assert _tick(kit).verdict == "made"


def test_a_tick_whose_draft_is_unique_names_the_job_that_is_there(kit: Kit) -> None:
    _declare(kit)
    there = kit.create(unique="u")

    answer = kit.run(schedules.tick(Tick("nightly", 1, START, None), kit.draft(unique="u"), Overlap.ALLOW))

    assert answer == TickResult("made", there)
    assert kit.run(schedules.ticks("nightly"))[0]["jobId"] == there


def test_the_newest_ticks_come_first(kit: Kit) -> None:
    _declare(kit)
    for day in range(3):
        _tick(kit, START + day * DAY)
    kit.advance(5)
    last = _tick(kit, START + 3 * DAY)

    ticks = kit.run(schedules.ticks("nightly", limit=2))

    assert ticks[0] == {
        "scheduledFor": to_datetime(START + 3 * DAY), "verdict": "made", "passedOver": 0, "jobId": last.job_id,
        "at": to_datetime(kit.now),
    }  # fmt: skip
    assert [each["scheduledFor"] for each in ticks] == [to_datetime(START + 3 * DAY), to_datetime(START + 2 * DAY)]


def test_however_many_tick_at_once_there_is_one_job_for_each_instant(shared_store: Any) -> None:
    kit = Kit(shared_store)
    kit.define()
    _declare(kit)
    instants = [START + hour * HOUR for hour in range(5)]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda n: [_tick(kit, each).verdict for each in instants], range(4)))

    assert sorted(each for answer in answers for each in answer) == ["made"] * 5 + ["taken"] * 15
    made = query(shared_store, "SELECT scheduled_for FROM {s}job_detail ORDER BY 1")
    assert made == [(each,) for each in instants]
    check_soundness(shared_store)


def test_many_schedules_tick_in_one_transaction_each_as_it_would_by_itself(kit: Kit) -> None:
    for key in ("allowed", "busy", "free", "gone over", "late", "taken"):
        _declare(kit, key)
    there = kit.create(unique="u")
    kit.run(schedules.tick(Tick("busy", 1, START - HOUR, START), kit.draft(schedule="busy"), Overlap.ALLOW))
    kit.run(schedules.tick(Tick("taken", 1, START, START + DAY), None, Overlap.ALLOW))
    own, late = kit.draft(), kit.draft()
    turns = [
        _turn("late", late, passed_over=7),
        _turn("taken", kit.draft()),
        _turn("busy", kit.draft(), Overlap.SKIP),
        _turn("free", own, Overlap.SKIP),
        _turn("unknown", kit.draft()),
        _turn("gone over", None, passed_over=2),
        _turn("allowed", kit.draft(unique="u")),
    ]
    begun = kit.run(feed.tip())

    answers = kit.run(schedules.tick_all(turns))

    assert answers == [
        TickResult("made", late.id), TickResult("taken"), TickResult("skipped"), TickResult("made", own.id),
        TickResult("taken"),
        TickResult("missed"), TickResult("made", there),
    ]  # fmt: skip
    told = [(each.type, each.subject) for each in kit.run(feed.read(begun)).events if each.subject is not None]
    assert told == [("schedule.missed", "late"), ("schedule.skipped", "busy"), ("schedule.missed", "gone over")]
    (tick,) = kit.run(schedules.ticks("allowed"))
    assert tick["jobId"] == there
    for key in ("allowed", "busy", "free", "gone over", "late", "taken"):
        row = kit.run(schedules.get(key))
        assert (row.last_scheduled_at, row.schedule.next_run_at) == (to_datetime(START), START + DAY)
    check_soundness(kit.store)


def test_when_one_job_of_many_ticks_cannot_be_created_no_schedule_moves(kit: Kit) -> None:
    kit.define("closed")
    for key in ("first", "second"):
        _declare(kit, key)
    kit.run(control.enable("closed", False, by="ann"))

    with pytest.raises(Conflict, match="disabled"):
        kit.run(schedules.tick_all([_turn("first", kit.draft()), _turn("second", kit.draft("closed"))]))

    assert [row.last_scheduled_at for row in kit.run(schedules.all())] == [None, None]
    assert kit.run(schedules.ticks("first")) == [] == _jobs(kit)


def _turn(key: str, draft: Draft | None, overlap: Overlap = Overlap.ALLOW, passed_over: int = 0) -> TickRequest:
    return TickRequest(Tick(key, 1, START, START + DAY, passed_over), draft, overlap)


def _schedule(key: str = "nightly", **facts: Any) -> Schedule:
    return Schedule(key, "work", **{"kind": Kind.CRON, "expression": "0 3 * * *", "next_run_at": START, **facts})


def _declare(kit: Kit, key: str = "nightly", **facts: Any) -> None:
    kit.run(schedules.save(_schedule(key, **facts), by="ann"))


def _tick(kit: Kit, instant: int = START, overlap: Overlap = Overlap.ALLOW) -> TickResult:
    return kit.run(schedules.tick(Tick("nightly", 1, instant, instant + DAY), kit.draft(), overlap))


def _jobs(kit: Kit) -> list[str]:
    return kit.run(control.select(JobFilter(), 100))
