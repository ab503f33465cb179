"""`penstock doctor`: each finding is brought about by breaking the thing, and goes when it is mended."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from penstock.domain.errors import StoreError
from penstock.domain.instant import DAY, HOUR
from penstock.domain.maintenance import Finding, Level
from penstock.domain.schedule.schedule import Kind, Schedule, Tick
from penstock.domain.worker import Duty, WorkerInfo
from penstock.maintenance.doctor import examine
from penstock.maintenance.doctor.host import Host, Limits
from penstock.storage.commands import admin, control, jobs, schedules
from penstock.storage.postgres.store import PostgresStore
from penstock.storage.sqlite.store import SqliteStore
from tests import services
from tests.cli.commands import Command
from tests.services import PgBouncer, PostgresServer
from tests.storage.kit import Kit
from tests.storage.tables import change, query
from tests.waiting import wait_until

_numbers = itertools.count()
GOOD = Host(user=lambda: 1000, file_limit=lambda: 65_536, free=lambda folder: 10**12, file_system=lambda folder: "ext4")


@pytest.fixture(scope="session")
def database(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def server(database: str) -> Iterator[PostgresStore]:
    """A store on PostgreSQL with which nothing is wrong."""
    store = PostgresStore(database, schema=f"doctor_{next(_numbers)}")
    store.migrate()
    yield store
    store.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {store.schema} CASCADE".encode())


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    store.open()
    yield store
    store.close()


@pytest.fixture(params=["file", "server"])
def store(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def wrong(store: Any, host: Host = GOOD, limits: Limits | None = None) -> list[Finding]:
    """What is not well; every finding says what to do."""
    found = [each for each in examine(store, host=host, limits=limits) if each.level is not Level.OK]
    assert all(each.hint for each in found)
    return found


def only(found: list[Finding]) -> tuple[str, Level, str]:
    (one,) = found
    return one.check, one.level, one.message


# --- nothing wrong, and the command


def test_nothing_is_wrong_with_a_good_store(store: Any) -> None:
    assert wrong(store) == []
    checks = {each.check for each in examine(store, host=GOOD)}
    assert {"store.schema", "store.indexes", "clock.skew", "workers", "jobs.unserved", "rows.unreadable"} <= checks


def test_looking_changes_nothing(file: SqliteStore) -> None:
    before = Path(file.path).stat().st_mtime_ns, query(file, "SELECT count(*) FROM sqlite_schema")

    examine(file, host=GOOD)

    assert (Path(file.path).stat().st_mtime_ns, query(file, "SELECT count(*) FROM sqlite_schema")) == before


def test_the_exit_code_tells_errors_and_strictly_warnings_too(tmp_path: Path, file: SqliteStore) -> None:
    shell = Command(tmp_path, PENSTOCK_STORE="sqlite:///jobs.db")
    file.close()
    (out, err) = shell("doctor", "--json")
    levels = {each["check"]: each["level"] for each in json.loads(out)["findings"]}
    assert levels["store.schema"] == "ok"
    assert err == ""

    Kit(file).create()
    change(file, "UPDATE job SET created_at = 1")
    assert "jobs.unserved" in shell("doctor", "--quiet")[0]
    shell("doctor", "--strict", code=1)
    change(file, "DROP INDEX job_due")
    out, _ = shell("doctor", "--quiet", code=1)
    assert "The index 'job_due' is missing." in out
    assert "-> " in out
    assert "store.schema" not in out


# --- the store


def test_a_store_that_is_not_there(tmp_path: Path, database: str) -> None:
    check, level, message = only(wrong(SqliteStore(str(tmp_path / "none.db"))))
    assert (check, level) == ("store.reachable", Level.ERROR)
    assert "There is no file" in message
    assert list(tmp_path.iterdir()) == []

    check, level, message = only(wrong(PostgresStore("postgresql://127.0.0.1:1/nothing")))
    assert (check, level) == ("store.reachable", Level.ERROR)

    check, level, message = only(wrong(PostgresStore(database, schema="nowhere")))
    assert (check, level) == ("store.schema", Level.ERROR)
    assert "is not set up, this penstock needs version 1" in message


def test_a_store_of_another_version(store: Any) -> None:
    change(store, "UPDATE {s}migration SET checksum = 'other'")
    assert "checksums differ" in only(wrong(store))[2]

    change(store, "UPDATE {s}migration SET version = 99")
    assert "has schema version 99" in only(wrong(store))[2]

    change(store, "DELETE FROM {s}migration")
    assert only(wrong(store))[0] == "store.schema"


def test_a_file_of_another_program(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "foreign.db"))
    connection.execute("PRAGMA application_id = 7; CREATE TABLE x (y)")
    connection.close()
    (tmp_path / "foreign.db").chmod(0o600)

    assert "file of another program" in only(wrong(SqliteStore(str(tmp_path / "foreign.db"))))[2]


def test_a_missing_index(store: Any) -> None:
    change(store, "DROP INDEX {s}job_ready")

    assert only(wrong(store)) == ("store.indexes", Level.ERROR, "The index 'job_ready' is missing.")


def test_an_index_that_is_not_valid(server: PostgresStore) -> None:
    Kit(server).create()
    Kit(server).create()
    with psycopg.connect(server.url, autocommit=True) as connection, pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(f"CREATE UNIQUE INDEX CONCURRENTLY broken ON {server.schema}.job (priority)".encode())

    found = [each for each in wrong(server) if each.check == "store.indexes"]

    assert only(found)[2] == "The index 'broken' is not valid, so queries do not use it."


def test_clocks_that_differ(store: Any) -> None:
    ahead = Host(
        now=lambda: time.time() + 90, user=GOOD.user, file_limit=GOOD.file_limit, free=GOOD.free,
        file_system=GOOD.file_system,
    )  # fmt: skip

    check, level, message = only(wrong(store, ahead))

    assert (check, level) == ("clock.skew", Level.ERROR)
    assert "is 90.0 s from the store's" in message or "is 89.9 s from" in message


# --- the host


def test_root(file: SqliteStore) -> None:
    host = Host(user=lambda: 0, file_limit=GOOD.file_limit, free=GOOD.free, file_system=GOOD.file_system)

    assert only(wrong(file, host))[:2] == ("host.user", Level.WARNING)


def test_too_few_files(file: SqliteStore) -> None:
    host = Host(GOOD.now, GOOD.user, lambda: 256, GOOD.free, GOOD.file_system, slots=4)

    (found,) = wrong(file, host)

    assert (found.check, found.level) == ("host.files", Level.WARNING)
    assert "may open 256 files; a worker with 4 slots needs 384" in found.message
    assert "ulimit -n 384" in found.hint


def test_little_room_and_none(file: SqliteStore) -> None:
    def with_room(free: int) -> list[Finding]:
        return wrong(file, Host(GOOD.now, GOOD.user, GOOD.file_limit, lambda folder: free, GOOD.file_system))

    assert {(each.check, each.level) for each in with_room(500_000_000)} == {
        ("host.space", Level.WARNING), ("store.space", Level.WARNING),
    }  # fmt: skip
    assert {each.level for each in with_room(50_000_000)} == {Level.ERROR}


def test_a_network_file_system(file: SqliteStore) -> None:
    host = Host(GOOD.now, GOOD.user, GOOD.file_limit, GOOD.free, lambda folder: "nfs4")

    assert only(wrong(file, host))[:2] == ("store.file_system", Level.ERROR)


def test_the_host_is_asked_by_default() -> None:
    host = Host()

    assert host.free(Path("/")) > 0
    assert host.user() >= 0
    assert host.slots >= 2
    assert abs(host.now() - time.time()) < 60


def test_files_that_other_users_have_access_to(file: SqliteStore) -> None:
    Path(file.path).chmod(0o640)
    Path(f"{file.path}-wal").chmod(0o604)

    check, level, message = only(wrong(file))

    assert (check, level) == ("store.access", Level.WARNING)
    assert f"{file.path} (0640), {file.path}-wal (0604):" in message


def test_a_log_that_cannot_be_emptied(file: SqliteStore) -> None:
    Kit(file).create()

    check, level, message = only(
        [each for each in wrong(file, limits=Limits(log_size=10)) if each.check == "store.log"]
    )

    assert (check, level) == ("store.log", Level.WARNING)
    assert "-wal has" in message


# --- PostgreSQL


class LenientPgBouncer(PgBouncer):
    """One that takes our start-up settings and throws them away."""

    def _configuration(self) -> str:
        return super()._configuration() + "ignore_startup_parameters = options\n"


def test_a_pooler_that_was_not_told_of(server: PostgresStore, pgbouncer: PgBouncer) -> None:
    behind = PostgresStore(pgbouncer.through(server.url), schema=server.schema)

    (found,) = wrong(behind)

    assert (found.check, found.level) == ("postgres.pooler", Level.ERROR)
    assert "?pooler=true" in found.hint


def test_notify_that_does_not_come_through(server: PostgresStore, pgbouncer: PgBouncer) -> None:
    bouncer = LenientPgBouncer(pgbouncer.server).start()
    try:
        behind = PostgresStore(bouncer.through(server.url), schema=server.schema)
        (found,) = wrong(behind)
        behind.close()

        told = PostgresStore(bouncer.through(server.url), schema=server.schema, pooler=True)
        assert wrong(told) == []
        told.close()
    finally:
        bouncer.remove()

    assert (found.check, found.level) == ("postgres.listen", Level.WARNING)
    assert "?pooler=true" in found.hint


def test_a_store_behind_a_pooler_that_was_not_told_of_says_what_is_wrong(
    server: PostgresStore, pgbouncer: PgBouncer
) -> None:
    bouncer = LenientPgBouncer(pgbouncer.server).start()
    # Two that share a session of the server, and name what they prepare alike.
    stores = [PostgresStore(bouncer.through(server.url), schema=server.schema) for _ in range(2)]
    try:
        with pytest.raises(StoreError, match="mixes up prepared statements") as told:
            [each.run(admin.clock()) for each in stores * 5]
    finally:
        for each in stores:
            each.close()
        bouncer.remove()

    assert "?pooler=true" in str(told.value.hint)


def test_a_table_without_autovacuum(server: PostgresStore) -> None:
    change(server, "ALTER TABLE {s}job SET (autovacuum_enabled = false)")

    (found,) = wrong(server)

    assert found.message == "Autovacuum is switched off for the table 'job'."
    change(server, found.hint.removeprefix("Run: "))
    assert wrong(server) == []


def test_dead_rows(server: PostgresStore) -> None:
    change(server, "ALTER TABLE {s}bucket SET (autovacuum_enabled = false)")
    with psycopg.connect(server.url, autocommit=True) as connection:
        name = f"{server.schema}.bucket"
        connection.execute(f"INSERT INTO {name} SELECT n::text, 1, 1 FROM generate_series(1, 500) AS n".encode())
        connection.execute(f"DELETE FROM {name}".encode())
    limits = Limits(dead_rows=100)

    def bloated() -> list[Finding]:
        return [each for each in wrong(server, limits=limits) if each.check == "postgres.bloat"]

    found = wait_until(bloated, "the dead are counted")

    assert only(found)[1] is Level.WARNING
    assert "The table 'bucket' has 500 dead rows and 0 live ones; last vacuumed: never" in only(found)[2]


def test_an_old_transaction(server: PostgresStore) -> None:
    with psycopg.connect(server.url, application_name="forgetful") as connection:
        connection.execute("SELECT 1")
        pid = connection.info.backend_pid

        found = wrong(server, limits=Limits(transaction=0.0))

    mine = [each for each in found if f"Process {pid} (forgetful, idle in transaction)" in each.message]
    assert [each.check for each in mine] == ["postgres.old_transactions"]
    assert f"pg_terminate_backend({pid})" in mine[0].hint


def test_a_server_without_autovacuum_and_with_a_forgotten_prepared_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"autovacuum": "off", "track_counts": "off", "max_prepared_transactions": "5"}
    monkeypatch.setattr(services, "POSTGRES_SETTINGS", services.POSTGRES_SETTINGS | settings)
    private = PostgresServer(18).start()
    try:
        store = PostgresStore(private.url(), schema="penstock")
        store.migrate()
        with psycopg.connect(private.url(), autocommit=True) as connection:
            connection.execute("BEGIN; CREATE TABLE x (y int); PREPARE TRANSACTION 'forgotten'")

        found = wrong(store, limits=Limits(transaction=0.0))
        store.close()
    finally:
        private.remove()

    messages = {each.message.partition(" has waited")[0]: each.check for each in found}
    assert messages["autovacuum is off: tables grow without end."] == "postgres.autovacuum"
    assert messages["track_counts is off: tables grow without end."] == "postgres.autovacuum"
    assert messages["The prepared transaction 'forgotten'"] == "postgres.old_transactions"


# --- the work


def worker(store: Any, lease: int, **facts: Any) -> str:
    info = WorkerInfo(Kit(store).new_id(), "w", "here", 7, **{"lanes": (), **facts})
    store.run(jobs.register_worker(info, lease))
    return info.id


def test_a_dead_worker_whose_jobs_nobody_frees(store: Any) -> None:
    worker(store, 1)

    check, level, message = only(wrong(store))

    assert (check, level) == ("workers.dead", Level.ERROR)
    assert "w (process 7 on here)" in message


def test_workers_that_were_lost_of_late(store: Any) -> None:
    worker(store, 1)
    wait_until(lambda: store.run(jobs.reclaim(0, 0.5)).workers, "its lease has ended")

    assert only(wrong(store))[:2] == ("workers.lost", Level.WARNING)
    assert wrong(store, limits=Limits(lost=0.0)) == []


def test_a_duty_that_does_not_succeed(store: Any) -> None:
    name = worker(store, 60_000_000)
    bad = [Duty("housekeep", 7200.0, 5, "ValueError: broken"), Duty("promote", 0.1, 0)]
    store.run(jobs.heartbeat(name, 60_000_000, duties=bad))

    check, level, message = only(wrong(store))

    assert (check, level) == ("workers.duties", Level.WARNING)
    assert "'housekeep' of worker w has not succeeded for 120 min: ValueError: broken" in message


def test_jobs_that_nobody_can_run(store: Any) -> None:
    kit = Kit(store)
    kit.now = store.run(admin.clock())
    lane = kit.define("report", version=3)
    kit.create("report")

    check, level, message = only(wrong(store))

    assert (check, level) == ("jobs.unserved", Level.WARNING)
    assert "report version 3 (1)" in message
    worker(store, 60_000_000, lanes=(lane,))
    assert wrong(store) == []


def test_definitions_that_no_code_has_declared_for_long(store: Any) -> None:
    kit = Kit(store)
    for key in ("report", "retired", "removed", "new"):
        kit.define(key)
    change(store, "UPDATE {s}definition SET declared_at = 1 WHERE key <> 'new'")
    store.run(control.retire_definition("retired", by="me"))
    store.run(control.remove_definition("removed", by="me"))

    check, level, message = only(wrong(store))

    assert (check, level) == ("definitions.undeclared", Level.WARNING)
    assert "report (since 1970-01-01)" in message
    assert "retired" not in message
    kit.define("report")
    assert wrong(store) == []


def test_definitions_and_schedules_that_cannot_be_read(store: Any) -> None:
    kit = Kit(store)
    kit.define("report")
    store.run(schedules.save(Schedule("nightly", "report", Kind.CRON, "0 3 * * *"), by="me"))
    change(store, "UPDATE {s}definition SET body = '{'")
    change(store, "UPDATE {s}schedule SET body = '[]'")

    found = wrong(store)

    assert {(each.check, each.level) for each in found} == {("rows.unreadable", Level.ERROR)}
    assert ["The definition report version 1" in found[0].message, "The schedule nightly" in found[1].message] == [
        True, True,
    ]  # fmt: skip


def test_a_schedule_that_a_wrong_clock_has_silenced_is_named_and_set_back_by_a_command(
    store: Any, tmp_path: Path
) -> None:
    kit = Kit(store)
    kit.now = time.time_ns() // 1000 + 3650 * DAY
    kit.define()
    kit.run(schedules.save(Schedule("hourly", "work", Kind.INTERVAL, "1h", next_run_at=kit.now), by="ann"))
    kit.run(schedules.tick(Tick("hourly", 1, kit.now, kit.now + HOUR), None, "allow"))
    named = [each for each in wrong(store) if each.check == "clock.marks"]
    assert [("schedule" in each.message, "hourly at 20" in each.message) for each in named] == [(True, True)]
    url = store.url if store.dialect == "postgres" else f"sqlite:///{store.path}"
    typed = Command(tmp_path, PENSTOCK_STORE=url, PENSTOCK_SCHEMA=getattr(store, "schema", "penstock"))

    shown, note = typed("db", "set-back", code=1)
    assert ("hourly" in shown, "Nothing was changed" in note) == (True, True)
    assert [each for each in wrong(store) if each.check == "clock.marks"] == named
    changed, _ = typed("db", "set-back", "--yes")

    assert changed == shown
    assert not [each for each in wrong(store) if each.check == "clock.marks"]
    (entry,) = store.run(admin.audit(action="clock.set_back"))
    assert entry.target == "schedule hourly"
