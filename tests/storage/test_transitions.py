"""Every status with every trigger, through the real verbs, against the one table; and what the schema refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import apsw
import psycopg
import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.errors import Conflict
from penstock.domain.instant import HOUR
from penstock.domain.states import TABLE, Status, Trigger, allowed
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, check_soundness

Way = Callable[[Kit, str], bool]
"""Pulls a trigger on a job; False when the verb refused it or left it out."""

SILENT = {(Status.SCHEDULED, Trigger.DUE), (Status.CANCELLING, Trigger.CANCEL)}
"""Pairs that are allowed and tell nothing: the job was announced before."""


def _settle(trigger: Trigger, *, lost: int = 0, **facts: Any) -> Way:
    def pull(kit: Kit, job_id: str) -> bool:
        attempt: Any = SimpleNamespace(job_id=job_id, fence=kit.job(job_id).fence, attempt=1, max_attempts=3, lost=lost)
        return job_id in kit.settle(attempt, trigger, **facts).applied

    return pull


def _due(kit: Kit, job_id: str) -> bool:
    kit.advance(2 * 3600)
    return job_id in kit.run(jobs.promote())


def _claim(kit: Kit, job_id: str) -> bool:
    return job_id in [claimed.job_id for claimed in kit.claim(limit=1000)]


def _retire(kit: Kit, job_id: str) -> bool:
    kit.advance(8 * 86_400)
    return job_id in kit.run(admin.retire()).stale


def _cancel(kit: Kit, job_id: str) -> bool:
    before = kit.status(job_id)
    return kit.run(control.cancel([job_id])) != {job_id: before}


def _retry(kit: Kit, job_id: str) -> bool:
    before = kit.status(job_id)
    return kit.run(control.retry([job_id])) != {job_id: before}


WAYS: dict[Trigger, list[Way]] = {
    Trigger.DUE: [_due],
    Trigger.RESCHEDULE: [
        lambda kit, job_id: bool(kit.run(control.reschedule(job_id))),
        lambda kit, job_id: bool(kit.run(control.reschedule(job_id, delay=HOUR))),
    ],
    Trigger.CLAIM: [_claim],
    Trigger.SUCCEED: [_settle(Trigger.SUCCEED)],
    Trigger.ASK_REVIEW: [_settle(Trigger.ASK_REVIEW)],
    Trigger.APPROVE: [
        lambda kit, job_id: bool(kit.run(control.approve(job_id, by="ann", finished=True))),
        lambda kit, job_id: bool(kit.run(control.approve(job_id, by="ann", finished=False))),
    ],
    Trigger.REJECT: [lambda kit, job_id: bool(kit.run(control.reject(job_id, by="ann")))],
    Trigger.FAIL: [_settle(Trigger.FAIL), _settle(Trigger.FAIL, retryable=False)],
    Trigger.SNOOZE: [_settle(Trigger.SNOOZE, delay=HOUR)],
    Trigger.RELEASE: [_settle(Trigger.RELEASE)],
    Trigger.LOSE: [_settle(Trigger.LOSE), _settle(Trigger.LOSE, lost=2)],
    Trigger.CANCEL: [_cancel],
    Trigger.RETRY: [_retry],
    Trigger.RETIRE: [_retire],
    Trigger.DELETE: [lambda kit, job_id: kit.run(control.delete([job_id])) == [job_id]],
}
ANNOUNCING = (Status.STALE, Trigger.RETIRE)
"""A stale job reads so by itself; retention only announces it, as a test of its own says."""


@pytest.mark.parametrize("status", list(Status))
def test_each_trigger_leads_exactly_where_the_table_says(kit: Kit, status: Status) -> None:
    for trigger in [trigger for trigger in WAYS if allowed(status, trigger)]:
        reached: set[Status | None] = set()
        for number, way in enumerate(WAYS[trigger]):
            job_id = kit.job_in(status, f"{trigger}{number}")
            events = len(kit.events(job_id))

            assert way(kit, job_id) or (status, trigger) in SILENT, trigger

            reached.add(_status(kit, job_id))
            assert (len(kit.events(job_id)) > events) is ((status, trigger) not in SILENT), trigger

        assert reached == allowed(status, trigger), trigger
        check_soundness(kit.store)


@pytest.mark.parametrize("status", list(Status))
def test_every_other_trigger_is_refused_and_changes_nothing(kit: Kit, status: Status) -> None:
    for trigger in [trigger for trigger in WAYS if not allowed(status, trigger) and (status, trigger) != ANNOUNCING]:
        for number, way in enumerate(WAYS[trigger]):
            job_id = kit.job_in(status, f"{trigger}{number}")
            before = kit.job(job_id), kit.events(job_id)

            assert not _accepted(way, kit, job_id), trigger

            assert (kit.job(job_id), kit.events(job_id)) == before, trigger
        check_soundness(kit.store)


def test_a_stale_job_is_announced_once_and_stays_stale(kit: Kit) -> None:
    job_id = kit.job_in(Status.STALE)

    announced = [kit.run(admin.retire()).stale for _ in range(2)]

    assert announced == [[job_id], []]
    assert kit.status(job_id) is Status.STALE
    assert kit.events(job_id)[-1] == "job.stale"


def test_the_table_and_the_ways_speak_of_the_same_triggers() -> None:
    assert {*WAYS, Trigger.CREATE} == set(Trigger)
    assert {trigger for _, trigger in TABLE} == set(Trigger)


@pytest.mark.parametrize(
    ("status", "change_to", "constraint"),
    [
        (Status.QUEUED, "worker = '01890a5d-ac96-774b-bcce-b302099a8057'", "job_owned"),
        (Status.RUNNING, "worker = NULL", "job_owned"),
        (Status.FAILED, "done_by = '01890a5d-ac96-774b-bcce-b302099a8057'", "job_done"),
        (Status.QUEUED, "finished_at = 1", "job_ended"),
        (Status.SUCCEEDED, "finished_at = NULL", "job_ended"),
        (Status.SUCCEEDED, "stale_at = NULL", "job_retained"),
        (Status.FAILED, "retire_at = NULL", "job_retained"),
        (Status.SCHEDULED, "stale_at = 1", "job_retained"),
        (Status.QUEUED, "blocked = true", "job_held_back"),
        (Status.SCHEDULED, "blocked = true, limit_key = 'work|k'", "job_held_back"),
        (Status.QUEUED, "queued_at = NULL", "job_was_queued"),
        (Status.SCHEDULED, "status = {queued}", "job_was_queued"),
        (Status.RUNNING, "status = {cancelling}", "job_asked_to_stop"),
        (Status.QUEUED, "status = {review_needed}", "job_was_claimed"),
        (Status.CANCELLED, "status = {succeeded}", "job_was_claimed"),
        (Status.SUCCEEDED, "status = {stale}", ""),
        (Status.QUEUED, "status = -1", ""),
        (Status.QUEUED, "priority = 21", ""),
        (Status.QUEUED, "priority = -1", ""),
        (Status.QUEUED, "fence = -1", ""),
        (Status.QUEUED, "attempt = -1", ""),
        (Status.QUEUED, "max_attempts = 0", ""),
        (Status.QUEUED, "lost = -1", ""),
        (Status.QUEUED, "generation = 0", ""),
    ],
)
def test_the_schema_refuses_a_job_that_may_never_be(kit: Kit, status: Status, change_to: str, constraint: str) -> None:
    job_id = kit.job_in(status)

    _refused(kit, f"UPDATE {{s}}job SET {change_to} WHERE id = '{job_id}'", constraint)

    assert kit.status(job_id) is status


@pytest.mark.parametrize(
    ("table", "change_to"),
    [
        ("control", "concurrency = -1"),
        ("control", "key_concurrency = -1"),
        ("control", "rate_count = -1"),
        ("definition", "version = 0"),
        ("worker", "ended = 'asleep'"),
        ("phase", "status = 'waiting'"),
        ("phase", "ended_at = NULL"),
        ("phase", "forgotten = NOT forgotten"),
        ("progress", "percent = 101"),
        ("review", "decision = 'perhaps'"),
        ("log", "level = 4"),
    ],
)
def test_the_schema_refuses_what_may_never_be_elsewhere(kit: Kit, table: str, change_to: str) -> None:
    claimed = kit.running()
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "run", 0, "completed", result="1"))
    kit.run(jobs.save_progress([(held, 1.0, None, None)]))
    kit.run(jobs.save_logs(held, [LogLine("info", "hello")]))
    kit.settle(claimed, Trigger.ASK_REVIEW)

    _refused(kit, f"UPDATE {{s}}{table} SET {change_to}")


def test_the_schema_refuses_a_second_active_job_under_a_unique_key(kit: Kit) -> None:
    first = kit.create(unique="u")
    kit.run(control.cancel([first]))
    second = kit.create()

    change(kit.store, f"UPDATE {{s}}job SET unique_key = 'work|u' WHERE id = '{second}'")
    third = kit.create()

    _refused(kit, f"UPDATE {{s}}job SET unique_key = 'work|u' WHERE id = '{third}'", "unique_key|job_unique")


def _accepted(way: Way, kit: Kit, job_id: str) -> bool:
    try:
        return way(kit, job_id)
    except Conflict:
        return False


def _status(kit: Kit, job_id: str) -> Status | None:
    found = kit.run(admin.get([job_id]))
    return found[0].status if found else None


def _refused(kit: Kit, text: str, constraint: str = "") -> None:
    with pytest.raises((apsw.ConstraintError, psycopg.IntegrityError)) as caught:
        change(kit.store, text)
    assert re.search(constraint, str(caught.value))
