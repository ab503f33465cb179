"""register_worker and heartbeat: a worker's lease, and what it learns with each beat."""

from __future__ import annotations

import json

import pytest

from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.worker import WorkerInfo
from penstock.storage import migrations
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")

LEASE = 15 * SECOND


def test_a_worker_introduces_itself_and_its_lease_begins(kit: Kit) -> None:
    worker = WorkerInfo(kit.new_id(), "anna", "host-1", 42, lanes=(3, 1), slots=8, code_version="abc")

    kit.run(jobs.register_worker(worker, LEASE))

    (row,) = kit.run(admin.workers())
    assert (row.id, row.name, row.host, row.pid) == (worker.id, "anna", "host-1", 42)
    assert (row.lanes, row.slots, row.code_version) == ((3, 1), 8, "abc")
    assert (row.started_at, row.heartbeat_at) == (to_datetime(kit.now), to_datetime(kit.now))
    assert (row.live, row.ended) == (True, None)
    assert query(kit.store, "SELECT kind, subject FROM {s}event") == [("worker.started", worker.id)]


def test_introducing_itself_again_changes_nothing(kit: Kit) -> None:
    worker = WorkerInfo(kit.new_id(), "anna", "host-1", 42, lanes=())
    kit.run(jobs.register_worker(worker, LEASE))
    kit.advance(5)
    before = dump(kit.store)

    kit.run(jobs.register_worker(worker, 4 * LEASE))

    assert dump(kit.store) == before


def test_a_heartbeat_extends_the_lease(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)

    for _ in range(5):
        kit.advance(14)
        kit.run(jobs.heartbeat(worker, LEASE))

    (row,) = kit.run(admin.workers())
    assert (row.live, row.heartbeat_at) == (True, to_datetime(kit.now))


def test_a_lease_that_has_ended_stays_ended(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    kit.advance(15)
    before = dump(kit.store)

    for _ in range(2):
        with pytest.raises(LeaseLost, match=worker):
            kit.run(jobs.heartbeat(worker, LEASE))

    assert dump(kit.store) == before
    (row,) = kit.run(admin.workers())
    assert (row.live, row.ended) == (False, None)


def test_a_worker_that_was_reclaimed_or_is_unknown_is_told_so(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    kit.advance(60)
    kit.run(jobs.reclaim(0, 0.5))

    for name in (worker, kit.new_id()):
        with pytest.raises(LeaseLost):
            kit.run(jobs.heartbeat(name, LEASE))


def test_a_heartbeat_brings_the_jobs_to_cancel(kit: Kit) -> None:
    kit.run(jobs.create([kit.draft() for _ in range(3)]))
    worker = kit.worker()
    mine = kit.claim(worker)
    other = kit.running("other")
    assert kit.run(jobs.heartbeat(worker, LEASE)).cancels == []

    kit.run(control.cancel([mine[0].job_id, mine[2].job_id, other.job_id]))
    pulse = kit.run(jobs.heartbeat(worker, LEASE))

    wanted = [kit.held(mine[0]), kit.held(mine[2])]
    assert sorted(pulse.cancels, key=lambda each: each.job_id) == wanted


def test_a_heartbeat_tells_when_operators_changed_something(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    before = kit.run(jobs.heartbeat(worker, LEASE)).controls
    assert kit.run(jobs.heartbeat(worker, LEASE)).controls == before

    kit.run(control.override("work", {"concurrency": 3}, by="anna"))

    assert kit.run(jobs.heartbeat(worker, LEASE)).controls > before


def test_a_heartbeat_tells_the_newest_schema(kit: Kit) -> None:
    pulse = kit.run(jobs.heartbeat(kit.worker(), LEASE))

    assert pulse.newest_schema == migrations.newest(kit.store.dialect)


def test_a_heartbeat_may_change_what_the_worker_serves(kit: Kit) -> None:
    worker = kit.worker(lanes=(1, 2), slots=4)

    kit.run(jobs.heartbeat(worker, LEASE, lanes=[5], slots=9))
    kit.run(jobs.heartbeat(worker, LEASE))

    ((lanes, slots),) = query(kit.store, "SELECT lanes, slots FROM {s}worker")
    assert (json.loads(lanes), slots) == ([5], 9)


def test_a_worker_learns_how_many_there_are_and_whether_it_leads(kit: Kit) -> None:
    first, second = kit.worker(), kit.worker()

    assert [_fleet(kit, each) for each in (first, second)] == [(2, True), (2, False)]

    kit.run(jobs.end_worker(first))

    assert _fleet(kit, second) == (1, True)


def _fleet(kit: Kit, worker: str) -> tuple[int, bool]:
    pulse = kit.run(jobs.heartbeat(worker, 60 * SECOND))
    return pulse.workers, pulse.leads
