"""`penstock db`: a store is set up, checked, backed up and moved from the command line."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest

from penstock.domain.errors import Conflict, InvalidInput, NotFound, StoreError
from penstock.domain.maintenance import Level
from penstock.domain.states import Status
from penstock.maintenance.integrity import check_store
from penstock.storage import migrations
from penstock.storage.commands import admin
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.backup import back_up
from penstock.storage.sqlite.store import SqliteStore
from tests.cli.commands import Command
from tests.services import PostgresServer
from tests.storage.kit import Kit
from tests.storage.tables import change, query

_numbers = itertools.count()


@pytest.fixture(scope="session")
def database(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def schema(database: str) -> Iterator[str]:
    """The name of a schema that is not there yet."""
    name = f"db_{next(_numbers)}"
    yield name
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    store.open()
    yield store
    store.close()


@pytest.fixture
def shell(tmp_path: Path) -> Command:
    return Command(tmp_path, PENSTOCK_STORE="sqlite:///jobs.db")


# --- migrate and sql


def test_a_file_is_set_up_once(shell: Command) -> None:
    assert json.loads(shell("db", "migrate", "--json")[0]) == {"applied": [1], "version": 1}
    assert json.loads(shell("db", "migrate", "--json")[0]) == {"applied": [], "version": 1}
    out, err = shell("db", "migrate")

    assert out == ""
    assert "jobs.db is at version 1." in err


def test_a_schema_is_set_up_once(shell: Command, database: str, schema: str) -> None:
    url = f"{database}?schema={schema}"

    assert "Applied 0001 ground." in shell("db", "migrate", "--store", url)[1]
    assert json.loads(shell("db", "migrate", "--store", url, "--json")[0])["applied"] == []
    PostgresStore(database, schema=schema).open()


def test_the_sql_that_is_printed_sets_a_store_up(shell: Command, database: str, schema: str, tmp_path: Path) -> None:
    out, err = shell("db", "sql", "--dialect", "postgres", "--schema", schema)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(out.encode())
    PostgresStore(database, schema=schema).open()
    assert err == ""

    file = apsw.Connection(str(tmp_path / "jobs.db"))
    file.execute(shell("db", "sql", "--store", "sqlite:///other.db")[0])
    file.close()
    shell("db", "check")
    assert not (tmp_path / "other.db").exists()


def test_an_unknown_dialect_is_refused(shell: Command) -> None:
    assert "no dialect 'oracle'" in shell("db", "sql", "--dialect", "oracle", code=2)[1]


# --- check


def test_a_sound_store_passes(shell: Command, file: SqliteStore, database: str, schema: str) -> None:
    Kit(file).job_in(Status.SUCCEEDED)
    PostgresStore(database, schema=schema).migrate()

    for flags in ((), ("--store", f"{database}?schema={schema}")):
        found = json.loads(shell("db", "check", "--json", *flags)[0])["findings"]
        assert [each["check"] for each in found] == [
            "store.schema", "store.indexes", "store.integrity", "store.soundness",
        ]  # fmt: skip
        assert {each["level"] for each in found} == {"ok"}


def test_a_store_that_is_not_there_fails_and_is_not_made(shell: Command, database: str, tmp_path: Path) -> None:
    out, _ = shell("db", "check", code=1)
    assert "There is no file" in out
    assert list(tmp_path.iterdir()) == []

    out, _ = shell("db", "check", "--store", f"{database}?schema=nothing_here", code=1)
    assert "is not set up" in out
    assert "-> Run `penstock db migrate`." in out


def test_rows_that_do_not_fit_together_are_found(file: SqliteStore, database: str, schema: str) -> None:
    target = PostgresStore(database, schema=schema)
    target.migrate()
    for store in (file, target):
        kit = Kit(store)
        lost, kept, ahead = (kit.job_in(Status.SUCCEEDED) for _ in range(3))
        kit.run(admin.fold())
        change(store, f"DELETE FROM {{s}}job_detail WHERE id = '{lost}'")
        change(store, f"UPDATE {{s}}attempt SET fence = 7 WHERE job_id = '{kept}'")
        facts = f"'{ahead}', 'load', 9, 0, 'running', 0, 1"
        change(
            store,
            f"INSERT INTO {{s}}phase (job_id, name, fence, position, status, progress, started_at) VALUES ({facts})",
        )
        change(store, "UPDATE {s}tally SET n = n + 1 WHERE status = {succeeded}")
        change(store, f"INSERT INTO {{s}}job_tag (tag, id, priority) VALUES ('x', '{kit.new_id()}', 0)")

        found = [each.message for each in check_store(store) if each.level is Level.ERROR]

        for sentence, row in (
            ("Every job has its details.", lost),
            ("No attempt and no phase is on record under a fence that was never given.", kept),
            ("No attempt and no phase is on record under a fence that was never given.", ahead),
            ("The counts by definition and status are those of the rows.", "status 5"),
            ("tags, attempts, phases", ""),
        ):
            assert any(sentence in message and row in message for message in found), sentence
        assert len(found) == 4
        store.close()


def test_every_rule_is_one_that_can_be_broken(file: SqliteStore) -> None:
    """Those that no other test breaks."""
    kit = Kit(file)
    kit.define("keyed", key_concurrency=1)
    running = kit.running("keyed", concurrency_key="k")
    blocked = kit.create("keyed", concurrency_key="k")
    values = f"'{running.job_id}', 1, 1, 5, 1, 'x'"
    change(file, f"INSERT INTO attempt (job_id, fence, number, status, ended_at, cause) VALUES ({values})")
    change(file, "UPDATE control SET key_concurrency = 2 WHERE key = 'keyed'")
    change(file, "INSERT INTO delivery_try (delivery, number, at, duration) VALUES (9, 1, 1, 1)")
    kit.create("other")
    change(file, "DELETE FROM definition WHERE key = 'other'")

    rules = {each.rule: each.rows for each in file.run(admin.check_integrity())}

    ((ended,),) = [rows for rule, rows in rules.items() if rule.startswith("An attempt that still runs has no ending")]
    assert ended == running.job_id
    ((held_back,),) = [rows for rule, rows in rules.items() if rule.startswith("Nothing is blocked while")]
    assert held_back == blocked
    assert rules["Every try of a webhook belongs to a delivery that is there."] == ("9",)
    assert len(rules["Every job belongs to a definition that is known."]) == 1


def test_missing_and_changed_indexes_are_found(file: SqliteStore, database: str, schema: str) -> None:
    change(file, "DROP INDEX job_due")
    change(file, "DROP INDEX tick_age")
    change(file, "CREATE INDEX tick_age ON tick (instant)")
    found = {each.message: each for each in check_store(file) if each.level is not Level.OK}

    assert found["The index 'job_due' is missing."].level is Level.ERROR
    assert "CREATE INDEX job_due ON job (due_at, id) WHERE status = 0;" in found["The index 'job_due' is missing."].hint
    assert found["The index 'tick_age' is not as penstock created it."].level is Level.WARNING

    target = PostgresStore(database, schema=schema)
    target.migrate()
    change(target, "DROP INDEX {s}job_due")
    (missing,) = [each for each in check_store(target) if each.level is Level.ERROR]
    assert missing.message == "The index 'job_due' is missing."
    change(target, missing.hint.removeprefix("Run: "))
    assert {each.level for each in check_store(target)} == {Level.OK}


def test_a_damaged_file_is_found(file: SqliteStore, shell: Command) -> None:
    Kit(file).job_in(Status.SUCCEEDED)
    file.close()
    connection = apsw.Connection(file.path)
    ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'job_detail'")
    ((size,),) = connection.execute("PRAGMA page_size")
    connection.close()
    with open(file.path, "r+b") as damaged:
        damaged.seek((int(root) - 1) * int(size))
        damaged.write(b"\xff" * int(size))

    out, _ = shell("db", "check", code=1)

    assert "damaged" in out
    assert "estore a backup" in out


# --- backup


def test_a_backup_is_the_store_as_it_was(shell: Command, file: SqliteStore, tmp_path: Path) -> None:
    job_id = Kit(file).job_in(Status.SUCCEEDED)

    told = json.loads(shell("db", "backup", "copy.db", "--json")[0])
    late = Kit(file).create("late")

    copy = SqliteStore(str(tmp_path / "copy.db"))
    assert told == {"file": "copy.db", "bytes": (tmp_path / "copy.db").stat().st_size}
    assert Kit(copy).status(job_id) is Status.SUCCEEDED
    assert copy.run(admin.get([late])) == []
    assert {each.level for each in check_store(copy)} == {Level.OK}
    copy.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(".part")) == []


def test_a_backup_made_while_others_write_is_whole(file: SqliteStore, tmp_path: Path) -> None:
    kit = Kit(file)
    kit.define()
    written: list[str] = [kit.create() for _ in range(200)]
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            written.append(kit.create())

    writer = threading.Thread(target=write)
    writer.start()
    before = len(written)
    try:
        back_up(file.path, tmp_path / "copy.db", lambda done, pages: None)
    finally:
        over.set()
        writer.join()

    copy = SqliteStore(str(tmp_path / "copy.db"))
    held = {job_id for (job_id,) in query(copy, "SELECT id FROM job")}
    assert {each.level for each in check_store(copy)} == {Level.OK}
    assert set(written[:before]) <= held <= set(written)
    copy.close()


def test_no_backup_is_written_over_a_file(shell: Command, file: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")

    assert "is there already" in shell("db", "backup", "copy.db", code=4)[1]
    assert (tmp_path / "copy.db").read_text() == "precious"
    with pytest.raises(Conflict):
        back_up(file.path, file.path)


def test_what_cannot_be_backed_up_says_why(tmp_path: Path, file: SqliteStore) -> None:
    with pytest.raises(NotFound):
        back_up(str(tmp_path / "none.db"), tmp_path / "copy.db")
    with pytest.raises(InvalidInput, match="in memory"):
        back_up(":memory:", tmp_path / "copy.db")
    with pytest.raises(StoreError):
        back_up(file.path, tmp_path / "no" / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_postgresql_is_backed_up_by_its_own_program(shell: Command, postgres: PostgresServer) -> None:
    url = f"postgresql://postgres:pa%40ss@127.0.0.1:{postgres.port}/postgres?schema=my"

    _, err = shell("db", "backup", "copy.dump", "--store", url, code=2)

    command = (
        f"""pg_dump --format=custom '--schema="my"' --file=copy.dump postgresql://postgres@127.0.0.1:{postgres.port}"""
    )
    assert command in err
    assert "pa%40ss" not in err


# --- move


def test_a_store_is_moved(shell: Command, file: SqliteStore, database: str, schema: str) -> None:
    job_id = Kit(file).job_in(Status.FAILED)
    change(file, "UPDATE worker SET lease_until = 1")
    url = f"{database}?schema={schema}"

    told = json.loads(shell("db", "move", url, "--json")[0])["tables"]

    assert [each["table"] for each in told] == migrations.tables("sqlite")[1:]
    assert Kit(PostgresStore(database, schema=schema)).status(job_id) is Status.FAILED
    _, err = shell("db", "move", url, code=4)
    assert "is not empty" in err


def test_a_store_with_a_live_worker_is_not_moved(shell: Command, file: SqliteStore, database: str, schema: str) -> None:
    Kit(file).running()

    assert "Workers live on" in shell("db", "move", f"{database}?schema={schema}", code=4)[1]
