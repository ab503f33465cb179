"""workers: who claims jobs, as the store sees it."""

from __future__ import annotations

from typing import Any

from penstock.domain.instant import to_datetime
from penstock.domain.worker import WorkerInfo, WorkerRow
from penstock.storage.commands import admin, jobs
from penstock.storage.sqlite.clock import ManualClock
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.kit import LEASE, START, Kit


def worker(kit: Kit) -> WorkerRow:
    (row,) = kit.run(admin.workers())
    return row


def test_a_worker_reads_as_it_introduced_itself(kit: Kit) -> None:
    info = WorkerInfo(kit.new_id(), "mail-1", "böx", 4711, lanes=(3, 1), slots=8, code_version="1.2")
    kit.run(jobs.register_worker(info, LEASE))

    assert worker(kit) == WorkerRow(
        id=info.id, name="mail-1", host="böx", pid=4711, lanes=(3, 1), slots=8, code_version="1.2",
        started_at=to_datetime(START), heartbeat_at=to_datetime(START), live=True, ended=None,
        lease_expires_at=to_datetime(START + LEASE),
    )  # fmt: skip


def test_workers_come_in_the_order_in_which_they_started(kit: Kit) -> None:
    assert kit.run(admin.workers()) == []
    kit.define()
    started = []
    for _ in range(3):
        started.append(kit.worker())
        kit.advance(1)

    assert [row.id for row in kit.run(admin.workers())] == started


def test_a_heartbeat_is_seen_with_what_it_changed(kit: Kit) -> None:
    kit.define()
    worker_id = kit.worker()
    kit.advance(5)
    kit.run(jobs.heartbeat(worker_id, LEASE, lanes=(7,), slots=3))

    row = worker(kit)

    assert (row.started_at, row.heartbeat_at) == (to_datetime(START), to_datetime(START + 5_000_000))
    assert (row.lanes, row.slots, row.live) == ((7,), 3, True)


def test_a_worker_is_live_until_its_lease_ends(kit: Kit) -> None:
    kit.define()
    kit.worker()
    kit.advance(LEASE / 1_000_000 - 1)
    assert worker(kit).live

    kit.advance(1)
    assert (worker(kit).live, worker(kit).ended) == (False, None)


def test_a_worker_that_ended_is_not_live_and_says_how(kit: Kit) -> None:
    kit.define()
    kit.run(jobs.end_worker(kit.worker()))
    assert (worker(kit).live, worker(kit).ended) == (False, "stopped")


def test_a_worker_that_was_lost_says_so(kit: Kit) -> None:
    kit.define()
    kit.worker()
    kit.advance(60)
    kit.run(jobs.reclaim(1_000_000, 0.5))

    assert (worker(kit).live, worker(kit).ended) == (False, "lost")


def test_on_sqlite_a_jump_of_the_wall_clock_ends_no_lease_and_a_reboot_ends_all(tmp_path: Any) -> None:
    clock = ManualClock()
    store = SqliteStore(str(tmp_path / "penstock.db"), clock=clock)
    info = WorkerInfo("0198c1b0-0000-7000-8000-000000000000", "worker", "here", 1, lanes=())
    store.run(jobs.register_worker(info, LEASE))

    clock.jump(3600)
    (row,) = store.run(admin.workers())
    assert row.live
    assert row.lease_expires_at == to_datetime(store.run(admin.clock()) + LEASE)

    clock.boot = "boot-2"
    (row,) = store.run(admin.workers())
    assert (row.live, row.lease_expires_at) == (False, None)
    store.close()


def test_the_live_worker_that_has_been_there_longest_leads(kit: Kit) -> None:
    assert kit.run(admin.leader()) is None

    first, second = kit.worker(), kit.worker()
    assert kit.run(admin.leader()) == first

    kit.run(jobs.end_worker(first))
    assert kit.run(admin.leader()) == second

    kit.advance(LEASE / 1_000_000 + 1)
    assert kit.run(admin.leader()) is None


def test_the_store_tells_its_time(kit: Kit) -> None:
    kit.advance(5)

    assert kit.run(admin.clock()) == START + 5_000_000
