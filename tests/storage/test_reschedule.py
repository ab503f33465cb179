"""reschedule: another time for a job that waits."""

from __future__ import annotations

import json

import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.errors import Conflict, NotFound
from penstock.domain.instant import HOUR, MINUTE, to_datetime
from penstock.domain.job_json import iso
from penstock.domain.states import Status
from penstock.storage.commands import control, feed, jobs
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query

PENDING = (Status.SCHEDULED, Status.QUEUED)


@pytest.mark.parametrize("status", PENDING)
def test_a_job_that_waits_is_put_off_to_a_later_time(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    later = kit.now + 2 * HOUR

    assert kit.run(control.reschedule(job_id, due=later)) is Status.SCHEDULED

    job = kit.job(job_id)
    assert (job.status, job.run_at) == (Status.SCHEDULED, to_datetime(later))
    assert kit.claim() == []
    assert kit.events(job_id)[-1] == "job.rescheduled"
    check_soundness(kit.store)

    kit.advance(2 * 3600)
    assert kit.run(jobs.promote()) == [job_id]


@pytest.mark.parametrize("status", PENDING)
@pytest.mark.parametrize("ago", [0, HOUR])
def test_a_time_that_has_come_puts_the_job_into_the_queue_now(kit: Kit, status: Status, ago: int) -> None:
    job_id = kit.job_in(status)
    kit.advance(60)

    assert kit.run(control.reschedule(job_id, due=kit.now - ago)) is Status.QUEUED

    assert kit.job(job_id).run_at == to_datetime(kit.now)
    assert [each.job_id for each in kit.claim()] == [job_id]
    check_soundness(kit.store)


@pytest.mark.parametrize("status", PENDING)
def test_time_and_priority_are_changed_together(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    urgent = kit.create(priority=10)
    kit.run(control.reschedule(urgent, delay=MINUTE))

    kit.run(control.reschedule(job_id, delay=MINUTE, priority=15, by="ada"))

    assert (kit.job(job_id).priority, kit.job(job_id).run_at) == (15, to_datetime(kit.now + MINUTE))
    assert kit.events(job_id)[-2:] == ["job.rescheduled", "job.rescheduled"]
    check_soundness(kit.store)

    kit.advance(60)
    kit.run(jobs.promote())
    assert [each.job_id for each in kit.claim()][:2] == [job_id, urgent]


def test_a_job_that_is_refused_another_time_keeps_its_priority(kit: Kit) -> None:
    running = kit.running()

    with pytest.raises(Conflict):
        kit.run(control.reschedule(running.job_id, delay=MINUTE, priority=15))

    assert kit.job(running.job_id).priority == 10


def test_a_delay_counts_from_the_store_s_now(kit: Kit) -> None:
    job_id = kit.job_in(Status.QUEUED)

    kit.run(control.reschedule(job_id, delay=MINUTE))

    assert kit.job(job_id).run_at == to_datetime(kit.now + MINUTE)


def test_without_a_time_it_is_now(kit: Kit) -> None:
    job_id = kit.job_in(Status.SCHEDULED)

    assert kit.run(control.reschedule(job_id)) is Status.QUEUED

    assert kit.job(job_id).queued_at == to_datetime(kit.now)


def test_a_queued_job_moved_to_now_stands_behind_those_who_came_before(kit: Kit) -> None:
    first, second = kit.create(), kit.create()
    began = kit.now
    kit.advance(1)

    kit.run(control.reschedule(first))

    assert kit.job(first).queued_at == to_datetime(began)
    assert [each.job_id for each in kit.claim()] == [second, first]


def test_a_job_that_is_put_off_frees_the_slot_of_its_concurrency_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    first, second = kit.create(concurrency_key="k"), kit.create(concurrency_key="k")

    kit.run(control.reschedule(first, delay=HOUR))
    assert not kit.job(second).blocked

    kit.run(control.reschedule(first))
    assert kit.job(first).blocked
    check_soundness(kit.store)


def test_a_job_that_was_put_off_by_its_rate_pays_again_when_it_is_moved(kit: Kit) -> None:
    lane = kit.define(rate_limit=RateLimit(1, 60, per_key=True))
    first, second = kit.create(concurrency_key="k"), kit.create(concurrency_key="k")
    assert [each.job_id for each in kit.claim(limited=[lane])] == [first]
    assert kit.claim(limited=[lane]) == []
    assert kit.status(second) is Status.SCHEDULED

    kit.run(control.reschedule(second))

    assert kit.claim(limited=[lane]) == []


@pytest.mark.parametrize("status", [each for each in Status if each not in PENDING])
def test_a_job_that_does_not_wait_keeps_its_time(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    before = kit.job(job_id)

    with pytest.raises(Conflict, match=f"{job_id} is {status} and cannot be given another time") as caught:
        kit.run(control.reschedule(job_id, delay=HOUR))

    assert caught.value.job_id == job_id
    assert caught.value.hint
    assert kit.job(job_id) == before


def test_a_job_that_is_not_there_cannot_be_moved(kit: Kit) -> None:
    with pytest.raises(NotFound, match="no job"):
        kit.run(control.reschedule(kit.new_id()))


def test_who_moved_it_is_written_down(kit: Kit) -> None:
    job_id = kit.create()

    kit.run(control.reschedule(job_id, delay=HOUR, by="ann"))

    assert query(kit.store, "SELECT actor, action, target FROM {s}audit") == [("ann", "job.reschedule", job_id)]


def test_the_event_tells_the_new_time_as_all_events_do(kit: Kit) -> None:
    job_id = kit.create()

    kit.run(control.reschedule(job_id, due=kit.now + 60_000_000))

    event = kit.run(feed.of_job(job_id))[-1]
    assert json.loads(event.data_text or "")["runAt"] == iso(to_datetime(kit.now + 60_000_000))
