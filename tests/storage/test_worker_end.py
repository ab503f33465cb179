"""end_worker: a worker that holds nothing any more has stopped."""

from __future__ import annotations

import pytest

from penstock.domain.errors import Conflict, LeaseLost
from penstock.domain.instant import SECOND
from penstock.storage.commands import admin, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")


def test_a_worker_that_holds_nothing_stops(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()

    kit.run(jobs.end_worker(worker))

    assert [(row.live, row.ended) for row in kit.run(admin.workers())] == [(False, "stopped")]
    assert ("worker.stopped", worker) in query(kit.store, "SELECT kind, subject FROM {s}event")
    with pytest.raises(LeaseLost):
        kit.run(jobs.heartbeat(worker, SECOND))


def test_a_worker_that_still_holds_a_job_does_not_stop(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    job_id = kit.create()
    kit.claim(worker)
    before = dump(kit.store)

    with pytest.raises(Conflict) as caught:
        kit.run(jobs.end_worker(worker))

    assert caught.value.job_id == job_id
    assert dump(kit.store) == before


def test_stopping_again_changes_nothing(kit: Kit) -> None:
    worker = kit.worker()
    kit.run(jobs.end_worker(worker))
    before = dump(kit.store)

    kit.run(jobs.end_worker(worker))
    kit.run(jobs.end_worker(kit.new_id()))

    assert dump(kit.store) == before


def test_a_worker_that_stopped_is_not_counted_as_lost(kit: Kit) -> None:
    worker = kit.worker()
    kit.run(jobs.end_worker(worker))
    kit.advance(3600)

    assert kit.run(jobs.reclaim(0, 0.5)).workers == []

    assert [row.ended for row in kit.run(admin.workers())] == ["stopped"]
