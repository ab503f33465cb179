"""Migrations: fresh equals migrated, many at once do no harm, and what does not fit is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import sql

from penstock.domain.errors import SchemaError, StoreError
from penstock.domain.job_list import JobFilter
from penstock.domain.states import Status
from penstock.storage import migrations
from penstock.storage.commands import admin, jobs
from penstock.storage.migrations import Migration
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests.crash.processes import Place, open_and_create, started
from tests.storage.kit import Kit
from tests.storage.tables import change, dump, query

EXTRA = {
    "sqlite": "CREATE TABLE extra (n INTEGER) STRICT; ALTER TABLE job ADD COLUMN extra TEXT; "
    "CREATE INDEX job_extra ON job (extra) WHERE extra IS NOT NULL;",
    "postgres": "CREATE TABLE {schema}.extra (n integer); ALTER TABLE {schema}.job ADD COLUMN extra text; "
    "CREATE INDEX job_extra ON {schema}.job (extra) WHERE extra IS NOT NULL;",
}


class Places:
    """Stores of one kind that do not exist yet."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.kind = kind
        self._folder = folder
        self._url = url
        self._n = 0
        self._stack = ExitStack()

    def new(self, schema: str | None = None) -> Any:
        self._n += 1
        if self.kind == "sqlite":
            return self.again(SqliteStore(str(self._folder / f"{self._n}.db")))
        return self.again(PostgresStore(self._url, schema=schema or f"migrated_{self._n}", migrate=True))

    def again(self, store: Any) -> Any:
        """Another store object on the same place."""
        other: Any
        if self.kind == "sqlite":
            other = SqliteStore(store.path)
        else:
            other = PostgresStore(self._url, schema=store.schema, migrate=True)
            self._stack.callback(self._drop, store.schema)
        self._stack.callback(other.close)
        return other

    def close(self) -> None:
        self._stack.close()

    def _drop(self, schema: str) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    url = request.getfixturevalue("postgres_18_database") if request.param == "postgres" else ""
    found = Places(request.param, tmp_path, url)
    yield found
    found.close()


@pytest.fixture
def next_release(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make this code one that has a migration more."""
    original = migrations.all_of

    def come(text: dict[str, str] = EXTRA) -> None:
        monkeypatch.setattr(migrations, "all_of", lambda of: (*original(of), Migration(2, "extra", text[of], text[of])))

    return come


def test_a_migrated_database_equals_a_fresh_one(places: Places, next_release: Any) -> None:
    old = places.new()
    old.open()
    job_id = Kit(old).create()
    old.close()
    next_release()
    fresh = places.new()
    fresh.open()

    migrated = places.again(old)
    migrated.open()

    assert _shape(migrated) == _shape(fresh)
    assert query(migrated, "SELECT version, name FROM {s}migration ORDER BY 1") == [(1, "ground"), (2, "extra")]
    assert Kit(migrated).status(job_id) is Status.QUEUED


def test_a_database_that_is_up_to_date_is_left_alone(places: Places) -> None:
    store = places.new()
    store.open()
    Kit(store).create()
    store.close()
    before = dump(store)

    places.again(store).open()

    assert dump(store) == before


def test_twenty_processes_that_open_a_new_database_at_once_do_no_harm(places: Places, tmp_path: Path) -> None:
    store = places.new()

    with ExitStack() as stack:
        processes = [stack.enter_context(started(open_and_create, Place.of(store), tmp_path / "go")) for _ in range(20)]
        (tmp_path / "go").touch()
        for process in processes:
            process.join(timeout=60)
        assert [process.exitcode for process in processes] == [0] * 20

    assert query(store, "SELECT version FROM {s}migration") == [(1,)]
    assert query(store, "SELECT count(*) FROM {s}job") == [(20,)]


def test_a_migration_that_fails_leaves_everything_as_it_was(places: Places, next_release: Any) -> None:
    store = places.new()
    store.open()
    job_id = Kit(store).create()
    store.close()
    before, shape = dump(store), _shape(store)

    next_release({of: f"{text} CREATE TABLE nonsense (;" for of, text in EXTRA.items()})
    with pytest.raises((StoreError, apsw.Error)):
        places.again(store).open()

    assert (dump(store), _shape(store)) == (before, shape)
    assert job_id in str(before["job"])


def test_a_newer_database_is_refused(places: Places, next_release: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    next_release()
    store = places.new()
    store.open()
    store.close()
    monkeypatch.undo()

    with pytest.raises(SchemaError, match=r"schema version 2, this penstock knows 1.*newer penstock"):
        places.again(store).open()


def test_a_migration_that_was_edited_is_noticed(places: Places) -> None:
    store = places.new()
    store.open()
    store.close()
    change(store, "UPDATE {s}migration SET checksum = 'other'")

    with pytest.raises(SchemaError, match="checksums differ"):
        places.again(store).open()


def test_the_script_gives_what_is_applied(places: Places) -> None:
    applied = places.new()
    applied.open()
    by_hand = places.new()
    if places.kind == "sqlite":
        connection = apsw.Connection(by_hand.path)
        connection.execute(migrations.script("sqlite"))
        connection.close()
    else:
        with psycopg.connect(by_hand.url, autocommit=True) as session:
            session.execute(migrations.script("postgres", by_hand.schema).encode())
        by_hand = PostgresStore(by_hand.url, schema=by_hand.schema)

    by_hand.open()

    assert _shape(by_hand) == _shape(applied)
    assert Kit(by_hand).status(Kit(by_hand).create()) is Status.QUEUED
    by_hand.close()


# SQLite


@pytest.mark.parametrize("table", ["job", "log", "setting", "migration"])
def test_a_sqlite_file_of_another_program_is_refused_and_left_alone(tmp_path: Path, table: str) -> None:
    path = tmp_path / "theirs.db"
    _foreign_file(path, f"CREATE TABLE {table} (theirs TEXT)")
    before = path.read_bytes()

    with pytest.raises(SchemaError, match=table):
        SqliteStore(str(path)).open()

    assert path.read_bytes() == before


def test_a_sqlite_file_with_the_mark_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    _foreign_file(path, "CREATE TABLE notes (theirs TEXT); PRAGMA application_id = 4711")
    before = path.read_bytes()

    with pytest.raises(SchemaError, match="another program"):
        SqliteStore(str(path)).open()

    assert path.read_bytes() == before


def test_a_sqlite_file_may_be_shared_with_tables_of_other_names(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    _foreign_file(path, "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (7)")
    store = SqliteStore(str(path))
    store.open()

    assert Kit(store).status(Kit(store).create()) is Status.QUEUED

    assert query(store, "SELECT id FROM orders") == [(7,)]
    store.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(b"Dear Anna,\n" * 500)

    with pytest.raises(StoreError, match="no database of ours"):
        SqliteStore(str(path)).open()

    assert path.read_bytes() == b"Dear Anna,\n" * 500


def _foreign_file(path: Path, text: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(text)
    connection.close()


# PostgreSQL


@pytest.mark.parametrize(
    "schema",
    [
        'Say "hi"',
        "100%",
        "%s %(now)s",
        "{now}",
        "{schema}.x",
        "with space",
        "ünï-水",
        "UPPER",
        "a.b",
        "back\\slash",
        "x" * 63,
    ],
)
def test_schemas_may_have_odd_names(postgres_18_database: str, tmp_path: Path, schema: str) -> None:
    places = Places("postgres", tmp_path, postgres_18_database)
    store = places.new(schema=schema)
    store.open()
    kit = Kit(store)

    claimed = kit.running(tags=("a",), unique="u", idempotency_key="k", concurrency_key="c")
    kit.settle(claimed, result="1")

    assert kit.status(claimed.job_id) is Status.SUCCEEDED
    assert [job.id for job in kit.run(admin.page(JobFilter())).jobs] == [claimed.job_id]
    with psycopg.connect(store.url) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchall()
    assert found == [(1,)]
    places.close()


@pytest.mark.parametrize("schema", ["", "x" * 64, "a\x00b", "ü" * 32])
def test_names_that_postgresql_would_not_take_as_they_are_are_refused(postgres_18_database: str, schema: str) -> None:
    with pytest.raises(SchemaError, match="cannot be a schema's name"):
        PostgresStore(postgres_18_database, schema=schema)


def test_two_schemas_in_one_database_do_not_disturb_each_other(postgres_18_database: str, tmp_path: Path) -> None:
    places = Places("postgres", tmp_path, postgres_18_database)
    one, other = Kit(places.new()), Kit(places.new())
    one.store.open()
    other.store.open()

    first = one.create(unique="u", idempotency_key="k")
    second = other.create(unique="u", idempotency_key="k")
    assert [each.job_id for each in other.claim()] == [second]
    before = dump(one.store)
    other.store.close()
    with psycopg.connect(postgres_18_database) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(other.store.schema)))

    assert dump(one.store) == before
    assert [each.job_id for each in one.claim()] == [first]
    places.close()


def test_a_schema_that_is_not_set_up_is_named_with_what_to_do(postgres_18_database: str) -> None:
    store = PostgresStore(postgres_18_database, schema="nothing_here")

    with pytest.raises(SchemaError, match=r"nothing_here.*is not set up.*migrate=True"):
        store.open()
    with pytest.raises(SchemaError, match=r"nothing_here.*migrate=True"):
        Kit(store).create()

    store.close()


def test_a_schema_that_is_too_old_is_named_with_what_to_do(
    postgres_18_database: str, tmp_path: Path, next_release: Any
) -> None:
    places = Places("postgres", tmp_path, postgres_18_database)
    store = places.new()
    store.open()
    store.close()
    next_release()

    with pytest.raises(SchemaError, match=r"is at version 1, this penstock needs version 2.*migrate=True"):
        PostgresStore(store.url, schema=store.schema).open()
    places.close()


def test_a_migration_waits_for_nobody_who_only_uses_another_schema(postgres_18_database: str, tmp_path: Path) -> None:
    places = Places("postgres", tmp_path, postgres_18_database)
    busy = places.new()
    busy.open()
    kit = Kit(busy)
    kit.define()
    with psycopg.connect(postgres_18_database) as connection:
        busy.run_on(connection, jobs.create([kit.draft()]))
        places.new().open()
        connection.rollback()
    places.close()


def _shape(store: Any) -> list[Any]:
    """What there is in a store beside its rows."""
    if store.dialect == "sqlite":
        found = query(store, "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2")
        return [(kind, name, re.sub(r"\s+", " ", text or "")) for kind, name, text in found]
    schema = store.schema
    facts = [
        f"SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        f"WHERE table_schema = '{schema}' ORDER BY 1, ordinal_position",
        f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY 1",
        f"SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
        f"WHERE connamespace = '{schema}'::regnamespace ORDER BY 1, 2",
    ]
    return [str(row).replace(schema, "SCHEMA") for text in facts for row in query(store, text)]
