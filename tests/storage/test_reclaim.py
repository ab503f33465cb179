"""reclaim: the jobs of workers whose lease has ended are freed."""

from __future__ import annotations

import pytest

from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.job import Claimed
from penstock.domain.retry import Fixed
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import Reclaimed
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, dump, query

pytestmark = pytest.mark.usefixtures("sound")

GRACE = SECOND
NOTHING = Reclaimed([], [], [], [], [])


def _worker_with_a_job(kit: Kit, *, start: bool = True) -> tuple[str, Claimed]:
    kit.create()
    worker = kit.worker(lease=15 * SECOND)
    (claimed,) = kit.claim(worker, start=start)
    return worker, claimed


def test_a_started_attempt_of_a_dead_worker_is_lost_and_runs_again(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit)
    kit.advance(16.1)

    answer = kit.run(jobs.reclaim(GRACE, 0.5))

    job = kit.job(claimed.job_id)
    (attempt,) = kit.run(admin.attempts(claimed.job_id))
    assert answer == Reclaimed([worker], [claimed.job_id], [], [], [])
    assert (job.status, job.attempts, job.lost, job.worker_id) == (Status.SCHEDULED, 0, 1, None)
    assert job.run_at <= to_datetime(kit.now + SECOND)
    assert (attempt.cause, attempt.error_type, attempt.worker_id) == ("lost", "WorkerLost", worker)
    assert kit.events(claimed.job_id)[-1] == "job.lost"
    kit.advance(1)
    kit.run(jobs.promote())
    assert [(each.job_id, each.fence, each.lost) for each in kit.claim()] == [(claimed.job_id, 2, 1)]


def test_a_dead_worker_is_recorded_as_lost(kit: Kit) -> None:
    worker, _ = _worker_with_a_job(kit)
    kit.advance(60)

    kit.run(jobs.reclaim(GRACE, 0.5))

    assert [(row.id, row.live, row.ended) for row in kit.run(admin.workers())] == [(worker, False, "lost")]
    assert ("worker.lost", worker) in query(kit.store, "SELECT kind, subject FROM {s}event")


def test_nothing_is_reclaimed_for_a_caller_that_has_lost_touch_while_it_waited_for_the_answer(kit: Kit) -> None:
    _, claimed = _worker_with_a_job(kit)
    kit.advance(60)
    before = dump(kit.store)

    assert kit.run(jobs.reclaim(GRACE, 0.5, still=lambda: False)) == NOTHING

    assert dump(kit.store) == before
    assert kit.run(jobs.reclaim(GRACE, 0.5, still=lambda: True)).lost == [claimed.job_id]


def test_nothing_is_reclaimed_before_the_grace_is_over(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit)

    kit.advance(16)
    assert kit.run(jobs.reclaim(GRACE, 0.5)) == NOTHING
    assert kit.status(claimed.job_id) is Status.RUNNING
    kit.advance(0.000001)

    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == [worker]


def test_how_long_a_job_runs_does_not_matter_while_its_worker_lives(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit)

    for _ in range(100):
        kit.advance(10)
        kit.run(jobs.heartbeat(worker, 15 * SECOND))
    assert kit.run(jobs.reclaim(GRACE, 0.5)) == NOTHING

    assert kit.settle(claimed).applied == [claimed.job_id]


def test_an_attempt_that_never_started_is_released_free(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit, start=False)
    kit.advance(60)

    answer = kit.run(jobs.reclaim(GRACE, 0.5))

    job = kit.job(claimed.job_id)
    assert answer == Reclaimed([worker], [], [claimed.job_id], [], [])
    assert (job.status, job.attempts, job.lost) == (Status.QUEUED, 0, 0)
    assert kit.events(claimed.job_id)[-1] == "job.released"


@pytest.mark.parametrize("start", [True, False])
def test_a_cancelling_job_of_a_dead_worker_is_cancelled(kit: Kit, start: bool) -> None:
    worker, claimed = _worker_with_a_job(kit, start=start)
    kit.run(control.cancel([claimed.job_id]))
    kit.advance(60)

    answer = kit.run(jobs.reclaim(GRACE, 0.5))

    assert answer == Reclaimed([worker], [], [], [claimed.job_id], [])
    assert kit.status(claimed.job_id) is Status.CANCELLED
    assert kit.claim() == []


def test_the_third_loss_fails_the_job(kit: Kit) -> None:
    kit.define(backoff=Fixed(5))
    job_id = kit.create()
    seen = []
    for _ in range(3):
        kit.run(jobs.promote())
        (claimed,) = kit.claim()
        kit.run(jobs.start([kit.held(claimed)]))
        kit.advance(60)
        answer = kit.run(jobs.reclaim(GRACE, 0.5))
        seen.append((answer.lost, answer.failed))
        kit.advance(60)

    assert seen == [([job_id], []), ([job_id], []), ([], [job_id])]
    job = kit.job(job_id)
    assert (job.status, job.lost, job.error_type) == (Status.FAILED, 3, "WorkerLost")
    told = [each.error or "" for each in kit.run(admin.attempts(job_id))]
    assert ["lost 3 times in a row" in each for each in told] == [False, False, True]


def test_later_losses_wait_for_the_backoff_of_the_definition(kit: Kit) -> None:
    kit.define(backoff=Fixed(40))
    claimed = kit.running()
    kit.settle(claimed, Trigger.LOSE)
    kit.advance(2)
    kit.run(jobs.promote())
    kit.claim()
    kit.run(jobs.start([kit.held(claimed, 2)]))
    kit.advance(60)

    kit.run(jobs.reclaim(GRACE, 0.5))

    assert kit.job(claimed.job_id).run_at == to_datetime(kit.now + 40 * SECOND)


def test_a_job_that_waits_for_its_turn_to_run_alone_loses_nothing_with_its_worker(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.LOSE)
    kit.advance(2)
    kit.run(jobs.promote())
    kit.claim()
    kit.advance(60)

    answer = kit.run(jobs.reclaim(GRACE, 0.5))

    assert (answer.lost, answer.released) == ([], [claimed.job_id])
    assert kit.job(claimed.job_id).lost == 1


def test_only_the_dead_are_reclaimed(kit: Kit) -> None:
    dead, lost = _worker_with_a_job(kit)
    kit.advance(10)
    _, kept = _worker_with_a_job(kit)
    kit.advance(7)

    assert kit.run(jobs.reclaim(GRACE, 0.5)) == Reclaimed([dead], [lost.job_id], [], [], [])
    assert kit.status(kept.job_id) is Status.RUNNING


def test_reclaiming_again_changes_nothing(kit: Kit) -> None:
    _worker_with_a_job(kit)
    kit.advance(60)
    kit.run(jobs.reclaim(GRACE, 0.5))
    before = dump(kit.store)

    assert kit.run(jobs.reclaim(GRACE, 0.5)) == NOTHING

    assert dump(kit.store) == before


def test_many_workers_are_reclaimed_a_few_at_a_time_the_longest_dead_first(kit: Kit) -> None:
    workers = []
    for _ in range(5):
        workers.append(_worker_with_a_job(kit)[0])
        kit.advance(0.001)
    kit.advance(60)

    answers = [kit.run(jobs.reclaim(GRACE, 0.5, limit=2)).workers for _ in range(4)]

    assert answers == [workers[:2], workers[2:4], workers[4:], []]


def test_of_workers_whose_leases_ended_at_once_the_lowest_ids_go_first(kit: Kit) -> None:
    ids = sorted((kit.new_id() for _ in range(5)), reverse=True)
    for worker in ids:
        kit.worker(id=worker)
    kit.advance(60)

    answers = [kit.run(jobs.reclaim(GRACE, 0.5, limit=2)).workers for _ in range(3)]

    assert answers == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


def test_a_worker_with_thousands_of_jobs_is_freed_in_parts_and_ends_with_the_last(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(1500)]))
    worker = kit.worker()
    assert len(kit.claim(worker, limit=1500)) == 1500
    kit.advance(60)

    first, second, third = (kit.run(jobs.reclaim(GRACE, 0.5)) for _ in range(3))

    assert (first.workers, second.workers) == ([], [worker])
    assert 0 < len(first.lost) <= 1000
    assert len(first.lost) + len(second.lost) == 1500
    assert third == NOTHING


def test_jobs_of_a_worker_that_has_ended_or_is_unknown_are_freed_too(kit: Kit) -> None:
    ended, first = _worker_with_a_job(kit)
    unknown, second = _worker_with_a_job(kit, start=False)
    change(kit.store, f"UPDATE {{s}}worker SET ended = 'stopped' WHERE id = '{ended}'")
    change(kit.store, f"DELETE FROM {{s}}worker WHERE id = '{unknown}'")

    answer = kit.run(jobs.reclaim(GRACE, 0.5))

    assert answer == Reclaimed([], [first.job_id], [second.job_id], [], [])
    assert query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL") == [(0,)]


def test_what_a_dead_worker_hands_in_afterwards_is_not_believed(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit)
    kit.advance(60)
    kit.run(jobs.reclaim(GRACE, 0.5))
    before = dump(kit.store)

    report = kit.settle(claimed, result="1")
    with pytest.raises(LeaseLost):
        kit.run(jobs.heartbeat(worker, 15 * SECOND))
    with pytest.raises(LeaseLost):
        kit.run(jobs.emit(kit.held(claimed), "late", None))

    assert report.applied == []
    assert dump(kit.store) == before


def test_the_attempt_keeps_the_worker_that_ran_it(kit: Kit) -> None:
    worker, claimed = _worker_with_a_job(kit)
    kit.advance(60)
    kit.run(jobs.reclaim(GRACE, 0.5))

    assert [each.worker_id for each in kit.run(admin.attempts(claimed.job_id))] == [worker]
