"""The feed while many write: commits out of order, transactions left open, broken off, retention underneath."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.domain.errors import FeedGone
from penstock.domain.event import Event
from penstock.domain.instant import DAY
from penstock.domain.job import Held
from penstock.domain.states import Status
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import control, feed, jobs
from penstock.storage.sqlite.store import SqliteStore
from tests.conftest import Counts
from tests.services import PostgresServer
from tests.storage.concurrency import begin, wait_until_blocked
from tests.storage.conftest import open_store
from tests.storage.kit import Kit
from tests.waiting import wait_until

WRITERS = 4


@pytest.fixture(params=("postgres-16", "postgres-18"))
def postgres_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store(request.param, request, tmp_path):
        yield Kit(store)


@pytest.fixture(params=("sqlite-file", "postgres-16", "postgres-18"))
def shared_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store(request.param, request, tmp_path):
        yield Kit(store)


@pytest.fixture
def foreign_transaction(postgres_kit: Kit, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that has written and stays open, in another database of the same server."""
    server: PostgresServer = request.getfixturevalue(_server(request))
    url = server.create_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE something (n integer)")
        yield connection
        connection.rollback()
    server.drop_database(url)


class Reader:
    """Follows the feed from a cursor and remembers what it was given."""

    def __init__(self, kit: Kit, cursor: str | None = None, limit: int = 500) -> None:
        self.kit = kit
        self.cursor = kit.run(feed.tip()) if cursor is None else cursor
        self.limit = limit
        self.events: list[Event] = []

    def read(self) -> list[Event]:
        """Everything that can be had now."""
        fresh: list[Event] = []
        while True:
            news = self.kit.run(feed.read(self.cursor, self.limit))
            fresh += news.events
            self.cursor = news.cursor
            if not news.more:
                self.events += fresh
                return fresh

    def jobs(self) -> list[str | None]:
        return [event.job_id for event in self.read()]


@contextlib.contextmanager
def transaction(kit: Kit) -> Iterator[psycopg.Connection[Any]]:
    """A caller's own transaction on the store's database."""
    with psycopg.connect(kit.store.url) as connection:
        yield connection


def create_in(kit: Kit, connection: psycopg.Connection[Any]) -> str:
    draft = kit.draft()
    kit.store.run_on(connection, jobs.create([draft]), now=kit.now)
    return draft.id


def test_what_is_committed_late_is_not_skipped(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    reader = Reader(kit)
    with transaction(kit) as slow, transaction(kit) as fast:
        early = create_in(kit, slow)
        late = create_in(kit, fast)

        fast.commit()
        assert reader.jobs() == [late]

        assert reader.jobs() == []
        slow.commit()
        assert reader.jobs() == [early]
    assert reader.jobs() == []


def test_writers_that_commit_in_reverse_are_each_seen_once(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    reader = Reader(kit, limit=1)
    with contextlib.ExitStack() as stack:
        open_ones = [stack.enter_context(transaction(kit)) for _ in range(6)]
        created = [create_in(kit, connection) for connection in open_ones]
        for connection, job_id in reversed(list(zip(open_ones, created, strict=True))):
            connection.commit()

            assert reader.jobs() == [job_id]
    assert reader.jobs() == []


def test_a_transaction_that_is_open_at_the_cursor_is_not_forgotten_by_later_cursors(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    with transaction(kit) as slow:
        early = create_in(kit, slow)
        reader = Reader(kit)
        for _ in range(5):
            job_id = kit.create()
            assert reader.jobs() == [job_id]

        slow.commit()

    assert reader.jobs() == [early]


def test_a_transaction_that_was_broken_off_leaves_no_trace(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    reader = Reader(kit)
    with transaction(kit) as connection:
        create_in(kit, connection)
        before = kit.create()
        assert reader.jobs() == [before]

        connection.rollback()

    after = kit.create()
    assert reader.jobs() == [after]


def test_a_commit_between_two_pages_comes_after_the_pages(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    reader = Reader(kit)
    with transaction(kit) as slow:
        early = create_in(kit, slow)
        created = [kit.create() for _ in range(4)]
        first = kit.run(feed.read(reader.cursor, 2))
        slow.commit()
    reader.cursor = first.cursor

    assert [event.job_id for event in first.events] == created[:2]
    assert reader.jobs() == [*created[2:], early]


def test_of_two_events_of_a_job_the_first_comes_first_though_its_transaction_is_the_younger(
    postgres_kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = postgres_kit
    claimed = kit.running()
    held = kit.held(claimed)
    for window in (1, 2, 3, feed.WINDOW):
        monkeypatch.setattr(feed, "WINDOW", window)
        whole, small = Reader(kit), Reader(kit, limit=1)
        with transaction(kit) as elder:
            elder.execute("SELECT pg_current_xact_id()")
            kit.run(jobs.emit(held, "first", None))
            other = kit.create("other")
            kit.store.run_on(elder, jobs.emit(held, "second", None), now=kit.now)
        last = kit.create("other")

        for reader in (whole, small):
            told = [(event.job_id, event.type) for event in reader.read()]
            assert [kind for job_id, kind in told if job_id == held.job_id] == ["first", "second"]
            assert {job_id for job_id, _ in told} == {held.job_id, other, last}
            assert len(told) == 4


def test_an_open_transaction_in_another_database_neither_stops_the_feed_nor_slows_it(
    postgres_kit: Kit, foreign_transaction: psycopg.Connection[Any]
) -> None:
    kit = postgres_kit
    kit.define()
    reader = Reader(kit)
    for _ in range(20):
        made = kit.run(jobs.create([kit.draft() for _ in range(100)]))
        kit.run(control.cancel([each.job_id for each in made]))
        assert len(reader.read()) == 200
    job_id = kit.create()

    touched = _rows_touched(kit, reader.cursor)

    assert reader.jobs() == [job_id]
    assert touched < 20
    foreign_transaction.rollback()
    assert reader.jobs() == []


def test_retention_tells_readers_that_missed_something_and_no_others(postgres_kit: Kit) -> None:
    kit = postgres_kit
    behind = Reader(kit)
    job_id = kit.job_in(Status.SUCCEEDED)
    kit.run(control.delete([job_id]))
    ahead = Reader(kit)
    kit.advance(86_401)
    with transaction(kit) as pruning:
        assert kit.store.run_on(pruning, feed.prune(DAY), now=kit.now) > 0
        assert behind.jobs()[-1] == job_id
        behind.cursor = ahead.cursor
        ahead.read()
        kit.run(feed.read(kit.run(feed.origin())))

    later = kit.create()
    assert ahead.jobs() == [later]
    assert behind.jobs() == [later]


def test_retention_of_a_transaction_that_was_open_at_the_cursor_is_told(postgres_kit: Kit) -> None:
    kit = postgres_kit
    kit.define()
    with transaction(kit) as slow:
        # An event of this transaction is old already when it is committed.
        slow.execute("SELECT pg_current_xact_id()")
        kit.store.run_on(slow, jobs.register_worker(_info(kit), 1), now=kit.now)
        kit.advance(86_401)
        kit.run(control.delete([kit.job_in(Status.SUCCEEDED)]))
        reader = Reader(kit)
        slow.commit()
    kit.advance(86_401)
    while kit.run(feed.prune(DAY)):
        pass

    with pytest.raises(FeedGone):
        reader.read()


def test_two_that_remove_events_from_one_bundle_remove_both(postgres_kit: Kit) -> None:
    kit = postgres_kit
    ids = [each.job_id for each in kit.run(jobs.create([kit.draft() for _ in range(4)]))]
    for job_id in ids[:2]:
        kit.run(control.cancel([job_id]))
        kit.run(control.delete([job_id]))
        kit.advance(86_400)

    with transaction(kit) as first:
        assert kit.store.run_on(first, feed.prune(DAY + DAY // 2), now=kit.now) == 3
        second = begin(lambda: kit.run(feed.prune(DAY // 2)))
        wait_until_blocked(kit.store.url, second)
        first.commit()
        assert second.result(60) == 3

    assert [kit.events(job_id) for job_id in ids] == [[], [], ["job.enqueued"], ["job.enqueued"]]
    assert [event.job_id for event in kit.run(feed.read(kit.run(feed.origin()))).events] == ids[2:]


def test_a_cursor_inside_of_a_bundle_outlives_its_process(shared_kit: Kit) -> None:
    kit = shared_kit
    origin = kit.run(feed.origin())
    ids = [each.job_id for each in kit.run(jobs.create([kit.draft() for _ in range(6)]))]
    halfway = kit.run(feed.read(origin, 4)).cursor
    other = kit.store.reserve(5.0)
    try:
        later = kit.create()

        assert Reader(Kit(other), halfway, limit=1).jobs() == [*ids[4:], later]
    finally:
        other.close()


def test_every_event_of_many_writers_is_read_once_and_in_each_jobs_order(
    shared_kit: Kit, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = shared_kit
    monkeypatch.setattr(feed, "WINDOW", 30)
    claimed = [kit.running() for _ in range(8)]
    held = [kit.held(each) for each in claimed]
    origin = kit.run(feed.tip())
    live, patient = Reader(kit, origin, limit=7), Reader(kit, origin, limit=50)
    per_writer = counts(ci=200, soak=5000)
    together = threading.Barrier(WRITERS + 1)

    def write(writer: int) -> None:
        together.wait()
        for n in range(per_writer):
            kit.run(jobs.emit(held[(writer + n) % len(held)], f"note.{writer}.{n}", None))

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, writer) for writer in range(WRITERS)]
        together.wait()
        wait_until(lambda: live.read() is not None and all(each.done() for each in writing), "all have written", 100)
    for each in writing:
        each.result()
    live.read()
    patient.read()

    expected = sorted(f"note.{writer}.{n}" for writer in range(WRITERS) for n in range(per_writer))
    for reader in (live, patient):
        assert sorted(event.type for event in reader.events) == expected
        _check_order(reader.events)


def test_transactions_that_overlap_long_are_read_once_and_in_each_jobs_order(
    postgres_kit: Kit, foreign_transaction: psycopg.Connection[Any], counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each transaction takes its number, writes about some jobs, and waits for others; some are broken off."""
    kit = postgres_kit
    monkeypatch.setattr(feed, "WINDOW", 5)
    held = [kit.held(each) for each in (kit.running() for _ in range(6))]
    origin = kit.run(feed.tip())
    readers = [Reader(kit, origin, limit=limit) for limit in (1, 4, 500)]
    late = Reader(kit, origin, limit=3)
    rounds = counts(ci=40, soak=1000)
    together = threading.Barrier(WRITERS + 1)

    def write(writer: int) -> list[str]:
        kept = []
        with psycopg.connect(kit.store.url) as connection:
            together.wait()
            for n in range(rounds):
                connection.execute("SELECT pg_current_xact_id()")
                # Jobs are taken in order, as the store's own verbs do: no deadlock.
                notes = [f"note.{writer}.{n}.{part}" for part in range(1 + n % 3)]
                for part, note in enumerate(notes):
                    job = held[min(len(held) - 1, (writer + n) % 4 + part)]
                    kit.store.run_on(connection, jobs.emit(job, note, None), now=kit.now)
                if (writer + n) % 5 == 0:
                    connection.rollback()
                else:
                    connection.commit()
                    kept += notes
        return kept

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, writer) for writer in range(WRITERS)]
        together.wait()

        def all_done() -> bool:
            for reader in readers:
                reader.read()
            return all(each.done() for each in writing)

        wait_until(all_done, "all have written", 100)
    expected = sorted(note for each in writing for note in each.result())
    for reader in (*readers, late):
        reader.read()

        assert sorted(event.type for event in reader.events) == expected
        _check_order(reader.events)


def test_events_of_another_process_are_read_once(tmp_path: Path) -> None:
    path = str(tmp_path / "penstock.db")
    kit = Kit(SqliteStore(path))
    held = [kit.held(each) for each in (kit.running() for _ in range(3))]
    reader = Reader(kit, limit=5)
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_emit_notes, args=(path, held, name, 100)) for name in ("a", "b")]

    for process in others:
        process.start()
    _emit_notes(kit.store, held, "here", 100)
    wait_until(lambda: reader.read() is not None and not any(each.is_alive() for each in others), "they ended", 60)
    for process in others:
        process.join()
    reader.read()

    assert [process.exitcode for process in others] == [0, 0]
    assert sorted(event.type for event in reader.events) == sorted(
        f"note.{name}.{n}" for name in ("a", "b", "here") for n in range(100)
    )
    _check_order(reader.events)
    kit.store.close()


def _emit_notes(place: Any, held: list[Held], name: str, times: int) -> None:
    store = SqliteStore(place) if isinstance(place, str) else place
    for n in range(times):
        store.run(jobs.emit(held[n % len(held)], f"note.{name}.{n}", None))
    if isinstance(place, str):
        store.close()


def _check_order(events: list[Event]) -> None:
    """Within each job the numbers rise, and no event came twice."""
    last: dict[str | None, int] = {}
    for event in events:
        assert event.seq > last.get(event.job_id, 0)
        last[event.job_id] = event.seq


def _rows_touched(kit: Kit, cursor: str) -> int:
    """How many rows of events the database looks at to answer a read."""
    found: list[int] = []

    def explain(statement: Any) -> list[tuple[Any, ...]]:
        text, values = kit.store._statement(kit.now)(statement)
        with psycopg.connect(kit.store.url, autocommit=True) as connection:
            connection.execute(f"ANALYZE {kit.store.schema}.event")
            plan = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).fetchone()
            assert plan is not None
            found.append(_scanned(plan[0][0]["Plan"]))
            return connection.execute(text, values).fetchall()

    _drive(feed.read(cursor), explain)
    return sum(found)


def _scanned(node: dict[str, Any]) -> int:
    own = 0
    if node.get("Relation Name") == "event":
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(own) + sum(_scanned(child) for child in node.get("Plans", []))


def _drive(plan: Any, execute: Callable[[Any], list[tuple[Any, ...]]]) -> Any:
    steps = plan.steps()
    statement = next(steps)
    while True:
        try:
            statement = steps.send(execute(statement))
        except StopIteration as end:
            return end.value


def _info(kit: Kit) -> WorkerInfo:
    return WorkerInfo(id=kit.new_id(), name="worker", host="here", pid=1, lanes=())


def _server(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["postgres_kit"]).replace("-", "_")
