"""release_unheld: jobs that name a worker which does not know that it has them."""

from __future__ import annotations

import pytest

from penstock.domain.job import Held
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")


def _held(kit: Kit, worker: str, n: int) -> list[Held]:
    kit.run(jobs.create([kit.draft() for _ in range(n)]))
    return [kit.held(each) for each in kit.claim(worker, limit=n)]


def test_what_the_worker_does_not_hold_is_queued_again_and_costs_nothing(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    held = _held(kit, worker, 4)

    released = kit.run(jobs.release_unheld(worker, held[:2]))

    assert sorted(released) == [each.job_id for each in held[2:]]
    assert [kit.status(each.job_id) for each in held] == [Status.RUNNING] * 2 + [Status.QUEUED] * 2
    job = kit.job(held[2].job_id)
    assert (job.attempts, job.lost, job.worker_id) == (0, 0, None)
    assert kit.events(job.id)[-1] == "job.released"


def test_a_worker_that_knows_all_its_jobs_releases_none(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    held = _held(kit, worker, 3)
    before = dump(kit.store)

    assert kit.run(jobs.release_unheld(worker, held)) == []

    assert dump(kit.store) == before


def test_the_jobs_of_others_are_left_alone(kit: Kit) -> None:
    kit.define()
    worker, other = kit.worker(), kit.worker()
    (theirs,) = _held(kit, other, 1)

    assert kit.run(jobs.release_unheld(worker, [])) == []

    assert kit.status(theirs.job_id) is Status.RUNNING


def test_a_job_held_under_an_older_fence_is_not_held(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    (held,) = _held(kit, worker, 1)
    kit.settle(held, Trigger.RELEASE)
    kit.claim(worker)

    assert kit.run(jobs.release_unheld(worker, [held])) == [held.job_id]


def test_an_unknown_job_that_shall_be_cancelled_is_cancelled(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    (held,) = _held(kit, worker, 1)
    kit.run(control.cancel([held.job_id]))

    kit.run(jobs.release_unheld(worker, []))

    assert kit.status(held.job_id) is Status.CANCELLED


def test_what_is_not_held_is_found_however_much_is(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    held = _held(kit, worker, 1300)

    assert kit.run(jobs.release_unheld(worker, held[:-1])) == [held[-1].job_id]

    assert query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL") == [(1299,)]
