"""Leases that are extended next to a SQLite file, where their row cannot be written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.errors import LeaseLost, StoreError
from penstock.storage.commands import admin, jobs
from penstock.storage.sqlite.clock import ManualClock
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.kit import LEASE, Kit

GRACE = 1_000_000


@pytest.fixture
def kit(tmp_path: Path) -> Any:
    store = SqliteStore(str(tmp_path / "penstock.db"))
    store.open()
    kit = Kit(store)
    kit.define()
    yield kit
    store.close()


def extend(kit: Kit, worker: str, seconds: float = 15) -> bool:
    return bool(kit.store.extend_lease(worker, round(seconds * 1e6), now=kit.now))


def is_live(kit: Kit, worker: str) -> bool:
    return next(row.live for row in kit.run(admin.workers()) if row.id == worker)


def test_an_extended_lease_lasts_as_if_its_row_had_been_written(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    kit.create()
    kit.advance(14)
    assert extend(kit, worker)

    kit.advance(14)

    assert is_live(kit, worker)
    assert not kit.run(jobs.has_expired_workers(GRACE))
    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == []
    assert len(kit.claim(worker)) == 1
    assert kit.run(jobs.heartbeat(worker, LEASE)).workers == 1


def test_it_ends_when_its_time_is_over(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    kit.advance(14)
    extend(kit, worker)
    kit.advance(15)

    assert not is_live(kit, worker)
    with pytest.raises(LeaseLost):
        kit.claim(worker)
    with pytest.raises(LeaseLost):
        kit.run(jobs.heartbeat(worker, LEASE))
    assert not kit.run(jobs.has_expired_workers(GRACE))
    kit.advance(1.1)
    assert kit.run(jobs.has_expired_workers(GRACE))
    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == [worker]


def test_an_extension_that_comes_after_the_reclaim_brings_nothing_back(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    kit.advance(17)
    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == [worker]

    extend(kit, worker)

    assert not is_live(kit, worker)
    with pytest.raises(LeaseLost):
        kit.run(jobs.heartbeat(worker, LEASE))


def test_it_does_not_outlive_a_restart_of_the_host(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SqliteStore(str(tmp_path / "penstock.db"), clock=clock)
    kit = Kit(store)
    kit.now = clock.steady
    worker = kit.worker(lease=LEASE)
    store.extend_lease(worker, 10 * LEASE)
    store.close()

    after = SqliteStore(store.path, clock=ManualClock(steady=clock.steady, boot="boot-2"))

    assert after.run(jobs.has_expired_workers(GRACE))
    after.close()


def test_a_lease_whose_file_cannot_be_read_is_not_taken_for_ended(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    os.mkdir(f"{kit.store.path}-lease-{worker}")
    kit.advance(60)

    with pytest.raises(StoreError):
        kit.run(jobs.reclaim(GRACE, 0.5))

    os.rmdir(f"{kit.store.path}-lease-{worker}")
    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == [worker]


def test_what_is_no_lease_holds_nobody_up(kit: Kit) -> None:
    worker = kit.worker(lease=LEASE)
    Path(f"{kit.store.path}-lease-{worker}").write_bytes(b"\xff nonsense")
    kit.advance(60)

    assert kit.run(jobs.reclaim(GRACE, 0.5)).workers == [worker]


def test_a_store_in_memory_extends_none(kit: Kit) -> None:
    memory = SqliteStore(":memory:")

    assert not memory.extend_lease("worker", LEASE)
    memory.forget_extension("worker")
    memory.close()


def test_files_of_workers_that_are_gone_are_removed(kit: Kit) -> None:
    gone, here = kit.worker(lease=LEASE), kit.worker(lease=LEASE)
    extend(kit, gone)
    kit.advance(2 * 3600)

    extend(kit, here)

    left = [name for name in os.listdir(Path(kit.store.path).parent) if "-lease-" in name]
    assert left == [f"penstock.db-lease-{here}"]
    kit.store.forget_extension(here)
    kit.store.forget_extension(here)
    assert not any("-lease-" in name for name in os.listdir(Path(kit.store.path).parent))
