"""Jobs that are created in the caller's own transaction on the SQLite file, through an apsw connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from sqlalchemy import create_engine

from penstock import IdempotencyConflict, InvalidInput, JobHandle, NotFound, Penstock, Status
from penstock.storage.commands import admin
from tests.definitions import shapes
from tests.operations.hand import Hand


@pytest.fixture
def caller(tmp_path: Path, file_app: Penstock) -> Iterator[apsw.Connection]:
    """A connection of the application's own to the file; the store has been opened before."""
    file_app.jobs.list()
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


def test_a_job_is_there_if_the_transaction_commits(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)

    with caller:
        caller.execute("INSERT INTO orders VALUES (7)")
        handle = work.options(connection=caller, tags=["x"], priority=3).enqueue("a")
        before = file_app.jobs.list().jobs

    assert (handle.created, handle.status, before) == (True, Status.QUEUED, [])
    assert (handle.refresh().params, handle.job.tags, handle.job.priority) == ({"to": "a"}, ("x",), 3)


def test_a_job_is_not_there_if_the_transaction_is_rolled_back(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)

    caller.execute("BEGIN IMMEDIATE")
    handle = work.options(connection=caller).enqueue("a")
    caller.execute("ROLLBACK")

    with pytest.raises(NotFound):
        handle.refresh()
    assert file_app.jobs.list().jobs == []


async def test_the_async_call_takes_the_same_connection(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)

    caller.execute("BEGIN")
    kept = await work.options(connection=caller).aenqueue("a")
    caller.execute("COMMIT")
    caller.execute("BEGIN")
    await work.options(connection=caller).aenqueue("b")
    caller.execute("ROLLBACK")

    assert [job.id for job in (await file_app.jobs.alist()).jobs] == [kept.id]
    await file_app.aclose()


def test_a_job_lives_and_dies_with_its_savepoint(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)

    with caller:
        kept = work.options(connection=caller, unique=True).enqueue("kept")
        caller.execute("SAVEPOINT one")
        undone = work.options(connection=caller, unique=True).enqueue("undone")
        caller.execute("ROLLBACK TO one")
        again = work.options(connection=caller, unique=True).enqueue("undone")
        caller.execute("RELEASE one")

    assert again.created
    assert {job.id for job in file_app.jobs.list().jobs} == {kept.id, again.id}
    assert undone.id != again.id


def test_keys_hold_inside_the_transaction_and_are_free_after_a_rollback(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work = file_app.job("work")(shapes.plain)

    caller.execute("BEGIN")
    keyed = work.options(connection=caller, idempotency_key="k")
    first, again = keyed.enqueue("a"), keyed.enqueue("a")
    with pytest.raises(IdempotencyConflict) as raised:
        keyed.enqueue("other")
    caller.execute("ROLLBACK")
    anew = work.options(idempotency_key="k").enqueue("something else")

    assert (first.created, again.created, first.id == again.id) == (True, False, True)
    assert raised.value.job_id == first.id
    assert [job.id for job in file_app.jobs.list().jobs] == [anew.id]


def test_a_caller_that_catches_an_error_may_go_on_and_keeps_nothing_of_what_failed(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work = file_app.job("work")(shapes.plain)
    holder = work.options(idempotency_key="taken").enqueue("a")

    with caller:
        orders = [work.options(idempotency_key=key).order("b") for key in ("fresh", "taken")]
        with pytest.raises(IdempotencyConflict):
            file_app.enqueue_many(orders, connection=caller)
        kept = work.options(connection=caller).enqueue("c")
    fresh = work.options(idempotency_key="fresh").enqueue("anything")

    assert fresh.created
    assert {job.id for job in file_app.jobs.list().jobs} == {holder.id, kept.id, fresh.id}


def test_the_first_job_of_a_definition_does_not_wait_for_its_own_caller(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work = file_app.job("work")(shapes.plain)
    file_app.job("other")(shapes.login)

    caller.execute("BEGIN IMMEDIATE")
    caller.execute("INSERT INTO orders VALUES (7)")
    handle = work.options(connection=caller).enqueue("a")
    caller.execute("COMMIT")

    assert handle.refresh().definition_key == "work"
    assert [row.definition.key for row in file_app.store.run(admin.definitions())] == ["work"]


def test_a_definition_whose_registration_was_rolled_back_is_registered_again(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work, other = file_app.job("work")(shapes.plain), file_app.job("other")(shapes.login)
    caller.execute("BEGIN")
    work.options(connection=caller).enqueue("a")
    caller.execute("ROLLBACK")
    assert file_app.store.run(admin.definitions()) == []

    stranger = Penstock(file_app.store)
    stranger.job("stranger")(shapes.login).enqueue("takes the first number", 1)
    handles: list[JobHandle[Any]] = [work.enqueue("b"), other.enqueue("c", 1)]

    assert [handle.refresh().definition_key for handle in handles] == ["work", "other"]


def test_the_caller_may_create_again_and_again_without_ever_leaving_its_transactions(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work = file_app.job("work")(shapes.plain)

    for number in range(5):
        with caller:
            work.options(connection=caller).enqueue(str(number))
    caller.execute("BEGIN")
    for number in range(5):
        work.options(connection=caller).enqueue(f"more {number}")
    caller.execute("COMMIT")

    assert len(file_app.jobs.list().jobs) == 10


def test_by_name_works_while_the_caller_holds_the_lock(file_app: Penstock, caller: apsw.Connection) -> None:
    there = Penstock(file_app.store)
    there.job("work")(shapes.plain).enqueue("first")

    caller.execute("BEGIN IMMEDIATE")
    handle = file_app.enqueue("work", {"to": "a"}, connection=caller)
    caller.execute("COMMIT")

    assert handle.refresh().params == {"to": "a"}


def test_the_callers_own_tables_are_not_disturbed(file_app: Penstock, caller: apsw.Connection) -> None:
    for name in ("taken", "ripe", "input"):
        caller.execute(f"CREATE TABLE {name} (mine TEXT); INSERT INTO {name} VALUES ('kept')")
    caller.execute("CREATE TEMP TABLE notes (mine TEXT); INSERT INTO notes VALUES ('kept')")
    work = file_app.job("work")(shapes.plain)

    with caller:
        work.options(connection=caller, idempotency_key="k", tags=["x"], concurrency_key="c").enqueue("a")

    for name in ("taken", "ripe", "input", "notes"):
        assert list(caller.execute(f"SELECT mine FROM {name}")) == [("kept",)]


def test_tracers_and_factories_of_the_caller_do_not_matter(file_app: Penstock, caller: apsw.Connection) -> None:
    seen: list[str] = []

    def trace(cursor: object, sql: str, bindings: object) -> bool:
        seen.append(sql)
        return True

    caller.row_trace = lambda cursor, row: {"row": row}
    caller.exec_trace = trace
    caller.cursor_factory = lambda connection: pytest.fail("a cursor of the caller's own was used")
    work = file_app.job("work")(shapes.plain)

    cursor = apsw.Cursor(caller)
    cursor.execute("BEGIN")
    handle = work.options(connection=caller, idempotency_key="k").enqueue("a")
    cursor.execute("COMMIT")

    assert handle.refresh().status is Status.QUEUED
    assert not any("job_detail" in sql for sql in seen)


async def test_workers_hear_of_it_when_the_caller_commits_and_not_before(
    file_app: Penstock, caller: apsw.Connection
) -> None:
    work = file_app.job("work")(shapes.plain)
    hook_calls: list[int] = []

    def hook() -> bool:
        hook_calls.append(1)
        return False

    caller.set_commit_hook(hook)
    bell = file_app.store.doorbell()
    while await bell.wait(0.1):
        pass

    caller.execute("BEGIN")
    work.options(connection=caller).enqueue("a")
    work.options(connection=caller).enqueue("b")
    before = await bell.wait(0.1)
    caller.execute("COMMIT")
    after = await bell.wait(10)
    caller.execute("INSERT INTO orders VALUES (8)")
    unrelated = await bell.wait(0.1)

    assert (before, after, unrelated) == (False, True, False)
    assert len(hook_calls) == 2
    await bell.aclose()


def test_a_worker_that_hears_the_commit_finds_the_job(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)
    work.enqueue("first").cancel()
    hand = Hand(file_app)

    with caller:
        handle = work.options(connection=caller).enqueue("a")

    assert [each.job_id for each in hand.claim()] == [handle.id]


def test_a_connection_without_a_transaction_is_refused(file_app: Penstock, caller: apsw.Connection) -> None:
    work = file_app.job("work")(shapes.plain)

    with pytest.raises(InvalidInput, match="No transaction is open on the connection") as raised:
        work.options(connection=caller).enqueue("a")

    assert raised.value.hint == "Begin one, or leave `connection` out."
    assert file_app.jobs.list().jobs == []


def test_the_standard_librarys_connection_is_refused_with_the_reason(file_app: Penstock, tmp_path: Path) -> None:
    work = file_app.job("work")(shapes.plain)
    foreign = sqlite3.connect(tmp_path / "other.db")
    engine = create_engine("sqlite://")

    with engine.connect() as alchemy:
        for connection, kind in ((foreign, "sqlite3.Connection"), (alchemy, "sqlalchemy.engine.base.Connection")):
            with pytest.raises(InvalidInput, match=f"{kind} cannot be used.*two copies of SQLite") as raised:
                work.options(connection=connection).enqueue("a")
            assert "apsw.Connection" in raised.value.hint

    foreign.close()
    engine.dispose()
    assert file_app.jobs.list().jobs == []


def test_a_connection_to_another_file_is_refused(file_app: Penstock, tmp_path: Path) -> None:
    work = file_app.job("work")(shapes.plain)
    for name in (str(tmp_path / "other.db"), ":memory:"):
        other = apsw.Connection(name)
        other.execute("BEGIN")

        with pytest.raises(InvalidInput, match=r"The connection is open on .*, but the jobs are kept by SQLite file"):
            work.options(connection=other).enqueue("a")

        other.close()


def test_no_connection_leads_to_a_store_in_memory(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    other = apsw.Connection(":memory:")
    other.execute("BEGIN")

    with pytest.raises(InvalidInput, match="the jobs are kept by SQLite in memory"):
        work.options(connection=other).enqueue("a")

    other.close()


@pytest.mark.parametrize("reach", [lambda path: path.parent / "." / path.name, lambda path: path.parent / "link.db"])
def test_the_same_file_by_another_name_is_the_same_file(
    file_app: Penstock, tmp_path: Path, reach: Callable[[Path], Path]
) -> None:
    work = file_app.job("work")(shapes.plain)
    work.enqueue("first")
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")

    connection = apsw.Connection(str(reach(tmp_path / "jobs.db")))
    with connection:
        handle = work.options(connection=connection).enqueue("a")
    connection.close()

    assert handle.refresh().status is Status.QUEUED


def test_the_database_being_busy_reaches_the_caller_as_its_drivers_error(
    file_app: Penstock, caller: apsw.Connection, tmp_path: Path
) -> None:
    work = file_app.job("work")(shapes.plain)
    work.enqueue("first")
    other: Any = apsw.Connection(str(tmp_path / "jobs.db"))
    other.execute("BEGIN IMMEDIATE")

    caller.execute("BEGIN")
    with pytest.raises(apsw.BusyError):
        work.options(connection=caller).enqueue("a")
    caller.execute("ROLLBACK")
    other.close()

    assert work.enqueue("b").created
