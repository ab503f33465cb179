"""Moving: a SQLite file with its history is the same in PostgreSQL, and goes on there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from penstock.domain.errors import Conflict, InvalidInput, SchemaError, StoreError
from penstock.domain.states import Status
from penstock.maintenance.sqlite_to_postgres import MovedTable, move
from penstock.storage import migrations
from penstock.storage.commands import admin, feed, jobs, webhooks
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.conftest import Counts, Figures
from tests.storage import used_store
from tests.storage.deliveries import create_deliveries, endpoint
from tests.storage.kit import Kit
from tests.storage.tables import change, check_soundness, query
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    """A SQLite file to be moved."""
    store = SqliteStore(str(tmp_path / "jobs.db"))
    store.open()
    yield Kit(store)
    store.close()


@pytest.fixture
def target(postgres_18_database: str) -> Iterator[PostgresStore]:
    """A schema that does not exist yet."""
    yield from schema_in(postgres_18_database)


@pytest.fixture(params=("postgres_16_database", "postgres_18_database"))
def any_target(request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    """The same on every PostgreSQL."""
    yield from schema_in(request.getfixturevalue(request.param))


def schema_in(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url, schema="Moved % here")
    yield store
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('DROP SCHEMA IF EXISTS "Moved % here" CASCADE')


def rest(kit: Kit) -> None:
    """No worker lives any more."""
    change(kit.store, "UPDATE worker SET lease_until = 1 WHERE ended IS NULL")


def there(kit: Kit, target: PostgresStore) -> Kit:
    """The same moment at the target."""
    other = Kit(target)
    other.now, other._lanes = kit.now, kit._lanes
    return other


def rows(store: Any, table: str, without: tuple[str, ...] = ()) -> list[str]:
    """The rows of a table in a form that both databases share."""
    text = f"SELECT name FROM pragma_table_info('{table}')"
    if store.dialect == "postgres":
        text = (
            "SELECT column_name FROM information_schema.columns "
            f"WHERE table_schema = '{store.schema}' AND table_name = '{table}'"
        )
    names = sorted({name for (name,) in query(store, text)} - set(without))
    found = query(store, f"SELECT {', '.join(names)} FROM {{s}}{table}")
    return sorted(repr([_shared(each) for each in row]) for row in found)


def _shared(value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(value, default=str, separators=(",", ":"))
    return str(int(value)) if isinstance(value, bool) else str(value)


def assert_equal(kit: Kit, target: PostgresStore) -> None:
    for table in migrations.tables("sqlite")[1:]:
        without = {
            "worker": ("boot", "lease_until"), "event": ("xid", "ended", "begun"),
            "feed_horizon": ("xid",), "webhook_feed": ("cursor",),
        }.get(table, ())  # fmt: skip
        assert rows(target, table, without) == rows(kit.store, table, without), table


def test_everything_is_there_afterwards(kit: Kit, any_target: PostgresStore, counts: Counts, figures: Figures) -> None:
    target = any_target
    used_store.fill_tables(kit, counts(ci=2_000, soak=100_000))
    rest(kit)
    filled = {table for table in used_store.FILLED if query(kit.store, f"SELECT 1 FROM {table} LIMIT 1")}
    assert filled == set(used_store.FILLED)

    began = time.monotonic()
    moved = move(kit.store, target)

    total = sum(each.rows for each in moved)
    figures("db move", rows=total, seconds=round(time.monotonic() - began, 1))
    assert [each.table for each in moved] == migrations.tables("sqlite")[1:]
    assert {each.table: each.rows for each in moved}["job"] == query(kit.store, "SELECT count(*) FROM job")[0][0]
    assert_equal(kit, target)
    target.open()
    check_soundness(target)
    assert target.run(admin.check_integrity()) == []
    new = there(kit, target)
    ids = [job_id for (job_id,) in query(kit.store, "SELECT id FROM job ORDER BY id LIMIT 300")]
    assert new.run(admin.get(ids)) == kit.run(admin.get(ids))


def test_the_feed_is_the_same_from_its_beginning(kit: Kit, target: PostgresStore) -> None:
    used_store.fill_tables(kit, 8_000)
    rest(kit)
    move(kit.store, target)

    assert _all_events(there(kit, target)) == _all_events(kit)


def test_what_is_new_comes_after_what_is_old(kit: Kit, target: PostgresStore) -> None:
    used_store.fill_tables(kit, 20)
    rest(kit)
    change(kit.store, "DELETE FROM event WHERE seq = (SELECT max(seq) FROM event)")
    change(kit.store, "UPDATE sqlite_sequence SET seq = seq + 100 WHERE name = 'audit'")
    before = {name: int(last) for name, last in query(kit.store, "SELECT name, seq FROM sqlite_sequence")}
    move(kit.store, target)
    new = there(kit, target)
    tip = new.run(feed.tip())

    lane = new.define("brand-new")
    job_id = new.create("brand-new")
    new.run(admin.put_setting("x", "{}", by="ann"))

    assert lane > before["definition"]
    (event,) = [each for each in new.run(feed.read(tip)).events if each.job_id == job_id]
    assert event.seq // feed.NUMBERS > before["event"]
    assert query(target, "SELECT max(seq) FROM {s}audit")[0][0] > before["audit"]


def test_an_empty_store_is_moved_too(kit: Kit, target: PostgresStore) -> None:
    move(kit.store, target)

    new = there(kit, target)
    assert new.define() == 1
    assert new.status(new.create()) is Status.QUEUED


def test_webhooks_go_on_where_they_were(kit: Kit, target: PostgresStore) -> None:
    used_store.fill_tables(kit, 40)
    kit.job_in(Status.FAILED, "late-one")
    rest(kit)
    told = query(kit.store, "SELECT event_seq FROM delivery ORDER BY 1")
    move(kit.store, target)
    new = there(kit, target)

    assert create_deliveries(new) == create_deliveries(kit) == 1

    made = query(target, "SELECT event_seq FROM {s}delivery ORDER BY 1")
    assert made == query(kit.store, "SELECT event_seq FROM delivery ORDER BY 1")
    assert len(made) == len(told) + 1
    assert [each.id for each in new.run(webhooks.endpoints())] == ["first"]


def test_webhooks_go_on_in_the_midst_of_a_bundle(kit: Kit, target: PostgresStore) -> None:
    endpoint(kit, events=("job.enqueued",))
    kit.run(webhooks.create_deliveries())
    kit.run(jobs.create([kit.draft() for _ in range(7)]))
    tip = query(kit.store, "SELECT cursor FROM webhook_feed")[0][0]
    halfway = kit.run(feed.read(tip, 3)).cursor
    change(kit.store, f"UPDATE webhook_feed SET cursor = '{halfway}'")
    move(kit.store, target)
    new = there(kit, target)

    assert create_deliveries(new) == create_deliveries(kit) == 4

    made = query(target, "SELECT event_seq, job_id FROM {s}delivery ORDER BY 1")
    assert [(seq, str(job_id)) for seq, job_id in made] == query(
        kit.store, "SELECT event_seq, job_id FROM delivery ORDER BY 1"
    )


def test_a_store_whose_webhooks_have_read_nothing_yet_is_moved(kit: Kit, target: PostgresStore) -> None:
    kit.job_in(Status.FAILED)
    rest(kit)

    move(kit.store, target)

    assert query(target, "SELECT cursor FROM {s}webhook_feed") == [(None,)]


def test_jobs_of_dead_workers_are_freed_at_the_target(kit: Kit, target: PostgresStore) -> None:
    claimed = kit.running()
    rest(kit)
    move(kit.store, target)
    new = there(kit, target)
    new.advance(1)

    freed = new.run(jobs.reclaim(0, 0.5))

    assert (freed.lost or freed.released) == [claimed.job_id]
    check_soundness(target)


def test_a_source_with_a_live_worker_is_refused(kit: Kit, target: PostgresStore) -> None:
    kit.define()
    kit.store.run(_registration(kit))

    with pytest.raises(Conflict, match=r"Workers live on .*: worker \(process 1\)"):
        move(kit.store, target)

    with pytest.raises(SchemaError, match="is not set up"):
        target.open()


def test_a_target_that_is_not_empty_is_refused_and_left_as_it_is(kit: Kit, target: PostgresStore) -> None:
    kit.create()
    target.migrate()
    job_id = Kit(target).create()

    with pytest.raises(Conflict, match="is not empty: there are rows in"):
        move(kit.store, target)

    assert Kit(target).status(job_id) is Status.QUEUED


def test_nothing_else_is_taken_for_source_or_target(kit: Kit, target: PostgresStore, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no SQLite file"):
        move(target, target)
    with pytest.raises(InvalidInput, match="no SQLite file"):
        move(SqliteStore(":memory:"), target)
    with pytest.raises(InvalidInput, match="is not PostgreSQL"):
        move(kit.store, SqliteStore(str(tmp_path / "other.db")))
    with pytest.raises(InvalidInput, match="direct connection"):
        move(kit.store, PostgresStore(target.url, schema=target.schema, pooler=True))


def test_nobody_writes_to_the_file_meanwhile(kit: Kit, target: PostgresStore) -> None:
    kit.create()
    refused = []

    def try_to_write(table: str, _: int) -> None:
        if table == "job":
            hasty = kit.store.reserve(0.05)
            try:
                Kit(hasty).define("late")
            except StoreError as error:
                refused.append(error)
            finally:
                hasty.close()

    move(kit.store, target, try_to_write)

    assert len(refused) == 1


def test_what_somebody_else_writes_to_the_target_is_noticed(kit: Kit, target: PostgresStore) -> None:
    kit.create()

    def write(table: str, _: int) -> None:
        if table == "webhook_feed":
            change(target, "UPDATE {s}job SET priority = 3")

    with pytest.raises(StoreError, match=r"Table 'job' of .* differs from the copied rows"):
        move(kit.store, target, write)

    with pytest.raises(SchemaError, match="repeat it"):
        target.open()


def test_two_moves_into_one_schema_do_not_mix(kit: Kit, target: PostgresStore, tmp_path: Path) -> None:
    kit.create()
    other = SqliteStore(str(tmp_path / "other.db"))
    other.open()
    found: list[str] = []

    def second(table: str, _: int) -> None:
        if table == "job":
            with pytest.raises(Conflict) as caught:
                move(other, target)
            found.append(str(caught.value))

    move(kit.store, target, second)

    assert found == [f"Another move into {target.place} is running. Wait until it is done."]
    other.close()


@pytest.mark.crash
@pytest.mark.parametrize("table", ["control", "job", "event", "webhook_feed"])
def test_a_move_that_is_killed_can_be_repeated(kit: Kit, target: PostgresStore, tmp_path: Path, table: str) -> None:
    used_store.fill_tables(kit, 200)
    rest(kit)
    kit.store.close()
    mark = tmp_path / "reached"
    child = subprocess.Popen(
        [sys.executable, "-c", _STOPPING, kit.store.path, target.url, target.schema, table, str(mark)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        wait_until(lambda: mark.exists() or child.poll() is not None, "the move is in the middle", 30)
    finally:
        child.kill()
    assert child.wait(10) == -signal.SIGKILL

    with pytest.raises(SchemaError, match="under way, or was broken off"):
        target.open()
    with pytest.raises(SchemaError):
        target.migrate()
    _until_released(target)
    moved = move(kit.store, target)

    assert {each.table for each in moved} == set(migrations.tables("sqlite")[1:])
    assert_equal(kit, target)
    with pytest.raises(Conflict, match="is not empty"):
        move(kit.store, target)
    assert_equal(kit, target)


def test_the_checksum_of_a_table_changes_with_any_of_its_values(kit: Kit, target: PostgresStore) -> None:
    kit.create()
    first = _by_name(move(kit.store, target))
    change(target, 'DROP SCHEMA "Moved % here" CASCADE')
    change(kit.store, "UPDATE job_detail SET params = '{ }'")

    second = _by_name(move(kit.store, target))

    assert {name for name in first if first[name].checksum != second[name].checksum} == {"job_detail"}
    assert {name for name in first if first[name].rows != second[name].rows} == set()


def test_a_table_with_other_columns_is_not_moved(kit: Kit, target: PostgresStore) -> None:
    connection = apsw.Connection(kit.store.path)
    connection.execute("ALTER TABLE job ADD COLUMN unknown TEXT")
    connection.close()

    with pytest.raises(StoreError, match="'job' has other columns"):
        move(kit.store, target)


_STOPPING = """
import pathlib, signal, sys
from penstock.maintenance.sqlite_to_postgres import move
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore

path, url, schema, table, mark = sys.argv[1:]

def tell(name, rows):
    if name == table:
        pathlib.Path(mark).touch()
        signal.pause()

move(SqliteStore(path), PostgresStore(url, schema=schema), tell)
"""


def _until_released(target: PostgresStore) -> None:
    """The server notices a client's death when it looks for its next word."""
    text = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    with psycopg.connect(target.url, autocommit=True) as connection:
        wait_until(lambda: connection.execute(text).fetchone() == (0,), "the dead one holds no lock")


def _registration(kit: Kit) -> Any:
    from penstock.domain.worker import WorkerInfo

    return jobs.register_worker(WorkerInfo(kit.new_id(), "worker", "here", 1, lanes=()), 60_000_000)


def _all_events(kit: Kit) -> list[Any]:
    found: list[Any] = []
    cursor, more = kit.run(feed.origin()), True
    while more:
        news = kit.run(feed.read(cursor, 3_000))
        found += news.events
        cursor, more = news.cursor, news.more
    return found


def _by_name(moved: list[MovedTable]) -> dict[str, MovedTable]:
    return {each.table: each for each in moved}
