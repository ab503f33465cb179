"""What only the SQLite store has: group commit, one disk, one lock, the clock of one host."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from penstock.domain.errors import IdempotencyConflict, LeaseLost, NotFound, StoreError, StoreFull, StoreUnavailable
from penstock.domain.instant import SECOND
from penstock.domain.job import Created
from penstock.domain.states import Status
from penstock.storage.commands import admin, jobs
from penstock.storage.sqlite import files
from penstock.storage.sqlite import store as sqlite
from penstock.storage.sqlite.clock import HostClock, ManualClock
from penstock.storage.sqlite.store import SqliteStore
from penstock.storage.write_queue import Task
from tests.conftest import Counts, Figures
from tests.storage.concurrency import Arena, begin
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query
from tests.waiting import wait_until

LEASE = 15 * SECOND


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "penstock.db"))
    store.open()
    yield store
    store.close()


@pytest.fixture
def kit(store: SqliteStore) -> Kit:
    kit = Kit(store)
    kit.define()
    return kit


@contextmanager
def locked(store: SqliteStore) -> Iterator[None]:
    """Somebody else keeps the file's write lock."""
    connection = apsw.Connection(store.path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def meanwhile(kit: Kit, plans: list[Any], already: int = 0) -> list[Future[Any]]:
    """Start threads that each carry out a plan, and wait until all of them stand in the queue."""
    waiting = kit.store._mine.waiting
    wait_until(lambda: len(waiting) == already, "the first ones wait for the lock")
    futures = [begin(lambda plan=plan: kit.run(plan)) for plan in plans]  # type: ignore[misc]
    wait_until(lambda: len(waiting) == already + len(plans), "all of them wait for the lock")
    return futures


def commits(store: SqliteStore) -> list[int]:
    """A list that grows with each commit of the store."""
    seen: list[int] = []
    store._writer().set_commit_hook(lambda: bool(seen.append(1)))  # type: ignore[func-returns-value]
    return seen


def test_a_new_file_has_pages_of_eight_kilobytes_and_an_older_one_keeps_its_own(tmp_path: Path) -> None:
    for name, before, after in (("new.db", None, 8192), ("older.db", 4096, 4096)):
        path = tmp_path / name
        if before:
            older = apsw.Connection(str(path))
            older.execute(f"PRAGMA page_size = {before}; PRAGMA journal_mode = WAL")
            older.close()
        store = SqliteStore(str(path))
        store.open()
        assert query(store, "PRAGMA page_size") == [(after,)]
        store.close()


def test_a_new_file_that_another_one_sets_up_just_now_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite refuses to change the journal while somebody writes, and does not ask how long to wait."""
    path, waits = str(tmp_path / "new.db"), threading.Event()
    sleep = time.sleep

    def noted(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", noted)
    other = apsw.Connection(path)
    other.execute("CREATE TABLE notes (x); BEGIN IMMEDIATE")
    store = SqliteStore(path)

    opened = begin(store.open)
    assert waits.wait(20)
    other.execute("ROLLBACK")

    opened.result(timeout=20)
    assert query(store, "PRAGMA journal_mode") == [("wal",)]
    store.close()
    other.close()


# Group commit


def test_threads_that_wait_share_one_commit(kit: Kit, store: SqliteStore, figures: Figures) -> None:
    counted = commits(store)

    with locked(store):
        futures = meanwhile(kit, [jobs.create([kit.draft()]) for _ in range(32)])
    answers = [future.result(timeout=20)[0] for future in futures]

    assert all(answer.created for answer in answers)
    assert query(store, "SELECT count(*) FROM job") == [(32,)]
    assert len(counted) <= 4
    figures("sqlite.group_commit", jobs=32, commits=len(counted))


def test_threads_that_come_at_once_need_fewer_commits_than_jobs(
    kit: Kit, store: SqliteStore, counts: Counts, figures: Figures
) -> None:
    counted = commits(store)
    each = counts(ci=10, soak=200)

    def create() -> None:
        for _ in range(each):
            kit.run(jobs.create([kit.draft()]))

    with Arena(32) as arena:
        assert arena.together(*[create] * 32) == [None] * 32

    assert query(store, "SELECT count(*) FROM job") == [(32 * each,)]
    assert len(counted) < 32 * each
    figures("sqlite.group_commit_busy", jobs=32 * each, commits=len(counted))


def test_coroutines_share_commits_too(kit: Kit, store: SqliteStore) -> None:
    counted = commits(store)

    async def create_all() -> list[Any]:
        return await asyncio.gather(*[store.arun(jobs.create([kit.draft()])) for _ in range(50)])

    answers = asyncio.run(create_all())

    assert [answer.created for (answer,) in answers] == [True] * 50
    assert len(counted) <= 10


def test_one_that_fails_does_not_hurt_the_others_of_its_group(kit: Kit, store: SqliteStore) -> None:
    counted = commits(store)
    kit.create(idempotency_key="k", params_digest="one")
    good = [jobs.create([kit.draft()]) for _ in range(6)]
    unknown = jobs.create([kit.draft(), replace(kit.draft(), lane=4711)])
    conflict = jobs.create([kit.draft(), kit.draft(idempotency_key="k", params_digest="other")])
    refused = jobs.create([kit.draft(), kit.draft(priority=99)])

    with locked(store):
        futures = meanwhile(kit, [*good[:2], unknown, *good[2:4], conflict, refused, *good[4:]])
    errors = [type(future.exception(timeout=20)) for future in futures]

    nothing = type(None)
    assert errors[:2] == errors[3:5] == errors[7:] == [nothing] * 2
    assert (errors[2], errors[5]) == (NotFound, IdempotencyConflict)
    assert issubclass(errors[6], StoreError)
    assert query(store, "SELECT count(*) FROM job") == [(7,)]
    assert len(counted) <= 5
    check_soundness(store)


def test_an_error_of_the_database_is_one_of_ours_alone_and_in_a_group(kit: Kit, store: SqliteStore) -> None:
    plan = jobs.create([kit.draft(priority=99)])

    with pytest.raises(StoreError):
        kit.run(plan)
    with locked(store):
        futures = meanwhile(kit, [plan, plan, plan])

    assert all(isinstance(future.exception(timeout=20), StoreError) for future in futures)


def test_whoever_stands_behind_a_full_group_still_gets_an_answer(
    kit: Kit, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_GROUP_SECONDS", 0.0)
    ahead = [Task(jobs.create([kit.draft()]), kit.now) for _ in range(3)]
    store._mine.waiting.extend(ahead)

    (created,) = kit.run(jobs.create([kit.draft()]))

    assert created.created
    assert all(task.done and task.answer()[0].created for task in ahead)


def test_whoever_was_served_by_another_ones_group_does_not_wait_for_the_next(kit: Kit, store: SqliteStore) -> None:
    with store._mine.leading():
        (future,) = meanwhile(kit, [jobs.create([kit.draft()])])
        store._commit_group()

        (created,) = future.result(timeout=20)

    assert created.created


def test_one_who_waits_leads_when_the_leader_goes(kit: Kit, store: SqliteStore) -> None:
    with store._mine.leading():
        futures = meanwhile(kit, [jobs.create([kit.draft()]) for _ in range(3)])

    assert all(future.result(timeout=20)[0].created for future in futures)


def test_one_who_is_interrupted_while_it_waits_leaves_its_turn_to_the_next(
    kit: Kit, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupt(BaseException):
        pass

    def interrupted(task: Task) -> None:
        assert task.turn is not None
        task.turn.wait()
        raise Interrupt

    patient = Task.await_turn
    ways = [interrupted]
    monkeypatch.setattr(Task, "await_turn", lambda task: (ways.pop() if ways else patient)(task))
    with store._mine.leading():
        (first,) = meanwhile(kit, [jobs.create([kit.draft()])])
        wait_until(lambda: not ways, "the first one waits for its turn")
        (second,) = meanwhile(kit, [jobs.create([kit.draft()])], already=1)

    assert isinstance(first.exception(timeout=20), Interrupt)
    assert second.result(timeout=20)[0].created
    assert query(store, "SELECT count(*) FROM job") == [(1,)]


def test_a_fork_wakes_those_who_waited_for_it(kit: Kit, store: SqliteStore) -> None:
    store.before_fork()
    futures = meanwhile(kit, [jobs.create([kit.draft()]) for _ in range(3)])
    store.after_fork(child=False)

    assert all(future.result(timeout=20)[0].created for future in futures)


def test_whoever_stands_behind_one_that_fails_gets_an_error_of_his_own(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "missing" / "penstock.db"))
    kit = Kit(store)
    kit._lanes["work"] = 1
    store._mine.waiting.append(ahead := Task(jobs.create([kit.draft()]), kit.now))

    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        kit.run(jobs.create([kit.draft()]))

    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        ahead.answer()


def test_threads_and_coroutines_that_wait_together_all_get_their_answers(
    kit: Kit, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_GROUP_SECONDS", 0.0)
    plans = [jobs.create([kit.draft()]) for _ in range(16)]

    async def create_all() -> list[Any]:
        return await asyncio.gather(*[store.arun(plan) for plan in plans[:8]])

    with locked(store):
        coroutines = begin(lambda: asyncio.run(create_all()))
        futures = meanwhile(kit, plans[8:], already=8)
    answers = [*coroutines.result(timeout=20), *(future.result(timeout=20) for future in futures)]

    assert all(isinstance(answer[0], Created) for answer in answers)


def test_commits_are_flushed_to_the_disk(store: SqliteStore) -> None:
    writer = store._writer()

    assert (writer.pragma("journal_mode"), writer.pragma("synchronous")) == ("wal", 2)


# Locks


def test_a_writer_waits_while_another_process_writes(kit: Kit, store: SqliteStore) -> None:
    with locked(store):
        (future,) = meanwhile(kit, [jobs.create([kit.draft()])])
        assert not future.done()

    assert future.result(timeout=20)[0].created


def test_a_writer_that_waited_too_long_says_so_and_writes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "penstock.db"), busy_seconds=0.3)
    kit = Kit(store)
    kit.define()

    with locked(store):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="locked by another writer"):
            kit.create()
        assert 0.3 <= time.monotonic() - began < 5

    assert query(store, "SELECT count(*) FROM job") == [(0,)]
    assert kit.status(kit.create()) is Status.QUEUED
    store.close()


def test_readers_wait_for_nobody(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "penstock.db"), busy_seconds=0.0)
    kit = Kit(store)
    job_id = kit.create()

    with locked(store):
        assert kit.status(job_id) is Status.QUEUED
    store.close()


# A full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and _mount("-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder))
    if not mounted:
        pytest.skip("only root may mount a small disk, and this machine does not let us")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


@pytest.mark.parametrize("threads", [1, 8])
def test_a_full_disk_loses_nothing_that_was_acknowledged_and_hurts_nobody_afterwards(
    small_disk: Path, figures: Figures, threads: int
) -> None:
    store = SqliteStore(str(small_disk / "penstock.db"))
    kit = Kit(store)
    kit.define()
    params = '"' + "x" * 20_000 + '"'

    def create_until_full() -> tuple[list[str], Exception]:
        made: list[str] = []
        while True:
            try:
                made.append(kit.create(params=params, unique=kit.new_id()))
            except Exception as error:
                return made, error

    with Arena(threads) as arena:
        answers = arena.together(*[create_until_full] * threads)

    acknowledged = sorted(job_id for made, _ in answers for job_id in made)
    assert [type(error) for _, error in answers] == [StoreFull] * threads
    assert acknowledged
    assert sorted(job_id for (job_id,) in query(store, "SELECT id FROM job")) == acknowledged
    assert query(store, "PRAGMA integrity_check") == [("ok",)]
    check_soundness(store)
    assert kit.job(acknowledged[0]).params_text == params
    # Readers may have made room for a few more in the log; then it is full again.
    more, error = create_until_full()
    acknowledged += more
    assert type(error) is StoreFull

    assert _mount("-o", "remount,size=12m", str(small_disk))
    assert kit.status(kit.create(params=params)) is Status.QUEUED
    assert len(kit.claim(limit=1000)) == len(acknowledged) + 1
    store.close()
    figures("sqlite.disk_full", threads=threads, acknowledged=len(acknowledged))


# Clocks


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def clocked(tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    store = SqliteStore(str(tmp_path / "clocked.db"), clock=clock)
    store.open()
    yield store
    store.close()


def _worker_with_a_job(store: Any, clock: ManualClock) -> tuple[str, Any]:
    """Made with the store's own clock; nothing here tells it the time."""
    kit = _Clocked(store)
    kit.define()
    kit.create()
    worker = kit.worker(lease=LEASE)
    (claimed,) = kit.claim(worker)
    return worker, claimed


class _Clocked(Kit):
    """A kit that leaves the time to the store."""

    def run(self, plan: Any) -> Any:
        return self.store.run(plan)


@pytest.mark.parametrize("hours", [1, -1, 24 * 365, -24 * 365])
def test_a_jump_of_the_wall_clock_ends_no_lease(clocked: Any, clock: ManualClock, hours: int) -> None:
    worker, claimed = _worker_with_a_job(clocked, clock)
    kit = _Clocked(clocked)

    clock.jump(hours * 3600)

    assert clocked.run(jobs.reclaim(0, 0.5)).workers == []
    clocked.run(jobs.heartbeat(worker, LEASE))
    assert clocked.run(jobs.claim(worker, [claimed.lane], 1)) == []
    assert kit.settle(claimed).applied == [claimed.job_id]


def test_a_lease_ends_when_its_time_has_gone_by_whatever_the_wall_clock_says(clocked: Any, clock: ManualClock) -> None:
    worker, claimed = _worker_with_a_job(clocked, clock)

    clock.advance(16)
    clock.jump(-3600)

    with pytest.raises(LeaseLost):
        clocked.run(jobs.heartbeat(worker, LEASE))
    assert clocked.run(jobs.reclaim(0, 0.5)).lost == [claimed.job_id]


def test_no_lease_outlives_a_restart_of_the_host(clocked: Any, clock: ManualClock) -> None:
    worker, claimed = _worker_with_a_job(clocked, clock)

    clock.boot = "boot-2"
    clock.steady = 5 * SECOND

    with pytest.raises(LeaseLost):
        clocked.run(jobs.heartbeat(worker, LEASE))
    with pytest.raises(LeaseLost):
        clocked.run(jobs.claim(worker, [claimed.lane], 1))
    reclaimed = clocked.run(jobs.reclaim(3600 * SECOND, 0.5))
    assert (reclaimed.workers, reclaimed.lost) == ([worker], [claimed.job_id])


def test_the_hosts_own_clock_names_its_boot_and_goes_on() -> None:
    one, other = HostClock(), HostClock()
    first, second = one.read(), other.read()

    assert one.boot == other.boot != ""
    assert second[1] >= first[1]
    assert abs(first[0] - time.time_ns() // 1000) < 60 * SECOND


# Network file systems

MOUNTS = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:20 / /proc rw,nosuid - proc proc rw
30 21 0:30 / /srv/nfs rw,relatime shared:2 - nfs4 server:/export rw,vers=4.2
31 30 8:2 / /srv/nfs/local rw,relatime - xfs /dev/sdb1 rw
32 21 0:31 / /mnt/my\040share rw - cifs //server/share rw
33 21 0:32 / /mnt/tab\011bed rw master:1 propagate_from:2 - fuse.sshfs user@host:/ rw
34 21 8:3 / /mnt/twice rw - nfs server:/ rw
35 21 8:4 / /mnt/twice rw - ext4 /dev/sdc1 rw
36 21 0:40 / /mnt/share rw - 9p host rw
a line of nonsense
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/home/anna", "ext4"),
        ("/srv/nfs", "nfs4"),
        ("/srv/nfs/a/b", "nfs4"),
        ("/srv/nfsx", "ext4"),
        ("/srv/nfs/local/a", "xfs"),
        ("/mnt/my share/a", "cifs"),
        ("/mnt/tab\tbed", "fuse.sshfs"),
        ("/mnt/twice", "ext4"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_the_innermost_mount(folder: str, kind: str) -> None:
    assert files.file_system(Path(folder), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_a_file_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    root = "21 1 8:1 / / rw - ext4 /dev/sda1 rw"
    mounts.write_text(f"{root}\n30 21 0:30 / {tmp_path.resolve()} rw - {kind} server:/ rw\n")
    monkeypatch.setattr(files, "_MOUNTS", mounts)

    with pytest.raises(StoreError, match=rf"network file system \({kind}\).*PostgreSQL"):
        SqliteStore(str(tmp_path / "penstock.db")).open()

    assert not (tmp_path / "penstock.db").exists()


def test_where_the_file_system_cannot_be_known_the_file_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "missing")
    store = SqliteStore(str(tmp_path / "penstock.db"))

    store.open()

    store.close()


def test_a_file_can_be_read_before_anything_was_written(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "new.db"))

    assert store.run(admin.definitions()) == []

    store.close()
