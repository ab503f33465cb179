"""Jobs that are created in the caller's own PostgreSQL transaction, in every way to have one."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import apsw
import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from penstock import Conflict, IdempotencyConflict, InvalidInput, NotFound, Penstock, Status
from penstock.domain.ids import id_time_ms
from penstock.storage.commands import jobs
from tests.definitions import shapes
from tests.operations.callers import ASYNC_WAYS, WAYS, AsyncWay, Way, alchemy_url
from tests.operations.hand import Hand

ORDERS = "CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY)"

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
every_async_way = pytest.mark.parametrize("way", ASYNC_WAYS, ids=lambda way: way.__name__)


@every_way
def test_a_job_is_there_if_the_transaction_commits(postgres_app: Penstock, app_database: str, way: Way) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with way(app_database) as caller:
        handle = work.options(connection=caller.connection, tags=["x"], priority=3).enqueue("a")
        before = [job.id for job in postgres_app.jobs.list().jobs]
        caller.commit()

    assert (handle.created, handle.status, before) == (True, Status.QUEUED, [])
    assert (handle.refresh().params, handle.job.tags, handle.job.priority) == ({"to": "a"}, ("x",), 3)


@every_way
def test_a_job_is_not_there_if_the_transaction_is_rolled_back(
    postgres_app: Penstock, app_database: str, way: Way
) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with way(app_database) as caller:
        caller.execute("SELECT 1")
        handle = work.options(connection=caller.connection).enqueue("a")
        caller.rollback()

    with pytest.raises(NotFound):
        handle.refresh()
    assert work.enqueue("b").refresh().definition_key == "work"


@every_way
def test_a_job_lives_and_dies_with_its_savepoint(postgres_app: Penstock, app_database: str, way: Way) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with way(app_database) as caller:
        kept = work.options(connection=caller.connection, unique=True).enqueue("kept")
        caller.execute("SAVEPOINT one")
        undone = work.options(connection=caller.connection, unique=True).enqueue("undone")
        caller.execute("ROLLBACK TO SAVEPOINT one")
        again = work.options(connection=caller.connection, unique=True).enqueue("undone")
        caller.commit()

    assert again.created
    assert {job.id for job in postgres_app.jobs.list().jobs} == {kept.id, again.id}
    assert undone.id != again.id


@every_way
def test_keys_hold_inside_the_transaction_and_are_free_after_a_rollback(
    postgres_app: Penstock, app_database: str, way: Way
) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with way(app_database) as caller:
        keyed = work.options(connection=caller.connection, idempotency_key="k")
        first, again = keyed.enqueue("a"), keyed.enqueue("a")
        with pytest.raises(IdempotencyConflict) as raised:
            keyed.enqueue("other")
        unique = work.options(connection=caller.connection, unique="u")
        one, same = unique.enqueue("x"), unique.enqueue("y")
        caller.rollback()
    anew = work.options(idempotency_key="k", unique="u").enqueue("something else")

    assert (first.created, again.created, first.id == again.id) == (True, False, True)
    assert raised.value.job_id == first.id
    assert (one.created, same.created, one.id == same.id) == (True, False, True)
    assert (anew.created, [job.id for job in postgres_app.jobs.list().jobs]) == (True, [anew.id])


@every_way
def test_a_caller_that_catches_an_error_may_go_on_and_keeps_nothing_of_what_failed(
    postgres_app: Penstock, app_database: str, way: Way
) -> None:
    work = postgres_app.job("work")(shapes.plain)
    holder = work.options(idempotency_key="taken").enqueue("a")

    with way(app_database) as caller:
        orders = [work.options(idempotency_key=key).order("b") for key in ("fresh", "taken")]
        with pytest.raises(IdempotencyConflict):
            postgres_app.enqueue_many(orders, connection=caller.connection)
        kept = work.options(connection=caller.connection).enqueue("c")
        caller.commit()
    fresh = work.options(idempotency_key="fresh").enqueue("anything")

    assert fresh.created
    assert {job.id for job in postgres_app.jobs.list().jobs} == {holder.id, kept.id, fresh.id}


@every_way
def test_a_batch_is_created_in_the_transaction_that_its_orders_name(
    postgres_app: Penstock, app_database: str, way: Way
) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with way(app_database) as caller:
        here = work.options(connection=caller.connection)
        postgres_app.enqueue_many([here.order("a"), work.order("b"), here.order("c")])
        caller.rollback()

    assert postgres_app.jobs.list().jobs == []


@every_way
async def test_workers_hear_of_it_when_the_caller_commits_and_not_before(
    postgres_app: Penstock, app_database: str, way: Way
) -> None:
    work = postgres_app.job("work")(shapes.plain)
    work.enqueue("first")
    bell = postgres_app.store.doorbell()
    while await bell.wait(0.5):
        pass

    with way(app_database) as caller:
        work.options(connection=caller.connection).enqueue("a")
        before = await bell.wait(0.3)
        caller.commit()
        after = await bell.wait(10)
    with way(app_database) as caller:
        work.options(connection=caller.connection).enqueue("b")
        caller.rollback()
        undone = await bell.wait(0.3)

    assert (before, after, undone) == (False, True, False)
    await bell.aclose()
    await postgres_app.aclose()


@every_async_way
async def test_async_transactions_commit_roll_back_and_have_savepoints(
    postgres_app: Penstock, app_database: str, way: AsyncWay
) -> None:
    work = postgres_app.job("work")(shapes.plain)

    async with way(app_database) as caller:
        here = work.options(connection=caller.connection)
        kept = await here.aenqueue("kept")
        await caller.execute("SAVEPOINT one")
        undone = await here.aenqueue("undone")
        await caller.execute("ROLLBACK TO SAVEPOINT one")
        before = (await postgres_app.jobs.alist()).jobs
        await caller.commit()
        rolled_back = await here.aenqueue("rolled back")
        await caller.rollback()

    assert before == []
    assert [job.id for job in (await postgres_app.jobs.alist()).jobs] == [kept.id]
    assert len({kept.id, undone.id, rolled_back.id}) == 3
    await postgres_app.aclose()


@every_async_way
async def test_async_keys_hold_inside_the_transaction(postgres_app: Penstock, app_database: str, way: AsyncWay) -> None:
    work = postgres_app.job("work")(shapes.plain)
    await work.options(idempotency_key="taken").aenqueue("a")

    async with way(app_database) as caller:
        keyed = work.options(connection=caller.connection, idempotency_key="k", unique=True)
        first, again = await keyed.aenqueue("a"), await keyed.aenqueue("a")
        orders = [work.options(idempotency_key=key).order("b") for key in ("fresh", "taken")]
        with pytest.raises(IdempotencyConflict):
            await postgres_app.aenqueue_many(orders, connection=caller.connection)
        await caller.commit()
    fresh = await work.options(idempotency_key="fresh").aenqueue("anything")

    assert (first.created, again.created, first.id == again.id) == (True, False, True)
    assert fresh.created
    assert len((await postgres_app.jobs.alist()).jobs) == 3
    await postgres_app.aclose()


@every_async_way
async def test_workers_hear_of_an_async_commit(postgres_app: Penstock, app_database: str, way: AsyncWay) -> None:
    work = postgres_app.job("work")(shapes.plain)
    await work.aenqueue("first")
    bell = postgres_app.store.doorbell()
    while await bell.wait(0.5):
        pass

    async with way(app_database) as caller:
        await work.options(connection=caller.connection).aenqueue("a")
        before = await bell.wait(0.3)
        await caller.commit()
        after = await bell.wait(10)

    assert (before, after) == (False, True)
    await bell.aclose()
    await postgres_app.aclose()


def test_what_the_caller_wrote_and_the_job_are_seen_together(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    work.enqueue("first").cancel()
    hand = Hand(postgres_app)
    with psycopg.connect(app_database) as connection:
        connection.execute(ORDERS)
        connection.execute("INSERT INTO orders VALUES (7)")
        handle = work.options(connection=connection).enqueue("a")
        early = hand.claim()

    claimed = hand.claim()

    assert early == []
    assert [each.job_id for each in claimed] == [handle.id]


def test_by_name_and_by_context_manager(postgres_app: Penstock, app_database: str) -> None:
    postgres_app.job("work")(shapes.plain)

    with psycopg.connect(app_database) as connection, connection.transaction():
        handle = postgres_app.enqueue("work", {"to": "a"}, connection=connection)

    assert handle.refresh().status is Status.QUEUED


def test_the_first_job_of_a_definition_may_be_created_in_a_transaction(
    postgres_app: Penstock, app_database: str
) -> None:
    first = postgres_app.job("first")(shapes.plain)
    with psycopg.connect(app_database) as connection:
        first.options(connection=connection).enqueue("a")
        second = postgres_app.job("second")(shapes.plain)
        second.options(connection=connection).enqueue("b")
        connection.rollback()

    assert second.enqueue("c").refresh().definition_key == "second"
    assert first.enqueue("d").refresh().definition_key == "first"


def test_a_snapshot_older_than_the_definition_says_to_begin_anew(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    postgres_app.jobs.list()

    with psycopg.connect(app_database) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        with pytest.raises(Conflict, match="began before definition 'work' was registered") as raised:
            work.options(connection=connection).enqueue("a")
        connection.rollback()
        handle = work.options(connection=connection).enqueue("a")

    assert "begin again" in raised.value.hint
    assert handle.refresh().status is Status.QUEUED


def test_errors_of_the_database_come_as_the_drivers_own(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    work.enqueue("first")

    with psycopg.connect(app_database) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            work.options(connection=connection).enqueue("a")
        connection.rollback()


def test_a_serialization_failure_reaches_the_caller(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    keyed = work.options(idempotency_key="k")
    work.enqueue("first")

    with psycopg.connect(app_database) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        winner = keyed.enqueue("a")
        with pytest.raises(psycopg.errors.SerializationFailure):
            work.options(connection=connection, idempotency_key="k").enqueue("a")
        connection.rollback()
        again = work.options(connection=connection, idempotency_key="k").enqueue("a")

    assert again.id == winner.id


@pytest.mark.parametrize("isolation", ["AUTOCOMMIT", "psycopg"])
def test_a_connection_without_a_transaction_is_refused(
    postgres_app: Penstock, app_database: str, isolation: str
) -> None:
    work = postgres_app.job("work")(shapes.plain)
    engine = create_engine(alchemy_url(app_database), isolation_level="AUTOCOMMIT")
    if isolation == "psycopg":
        with psycopg.connect(app_database, autocommit=True) as connection, pytest.raises(InvalidInput) as raised:
            work.options(connection=connection).enqueue("a")
    else:
        with engine.connect() as alchemy, pytest.raises(InvalidInput) as raised:
            work.options(connection=alchemy).enqueue("a")

    engine.dispose()
    assert "in autocommit mode, and no transaction is open" in raised.value.message
    assert raised.value.hint == "Begin one, or leave `connection` out."
    assert postgres_app.jobs.list().jobs == []


async def test_the_wrong_colour_of_connection_is_refused(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    for way in ASYNC_WAYS:
        async with way(app_database) as caller:
            with pytest.raises(InvalidInput, match=r"enqueue\(\) got an async connection.*aenqueue"):
                work.options(connection=caller.connection).enqueue("a")
    for sync_way in WAYS:
        with sync_way(app_database) as caller:
            with pytest.raises(InvalidInput, match=r"aenqueue\(\) got a sync connection.*enqueue"):
                await work.options(connection=caller.connection).aenqueue("a")
            caller.rollback()

    assert (await postgres_app.jobs.alist()).jobs == []
    await postgres_app.aclose()


@pytest.mark.parametrize("colour", ["enqueue", "aenqueue"])
async def test_connections_of_other_drivers_are_refused(postgres_app: Penstock, app_database: str, colour: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    foreign = await asyncpg.connect(app_database)
    engine = create_engine("sqlite://")
    others: list[tuple[Any, str]] = [
        (foreign, "asyncpg.connection.Connection"),
        (sqlite3.connect(":memory:"), "sqlite3.Connection"),
        (apsw.Connection(":memory:"), "apsw.Connection"),
        (engine, "sqlalchemy.engine.base.Engine"),
        (app_database, "builtins.str"),
        (object(), "builtins.object"),
    ]

    for connection, kind in others:
        with pytest.raises(InvalidInput, match=f"of the type {kind}") as raised:
            await _call(work.options(connection=connection), colour)
        assert "psycopg 3" in raised.value.hint

    await foreign.close()
    others[1][0].close()
    assert postgres_app.jobs.list().jobs == []
    await postgres_app.aclose()


async def test_sqlalchemy_on_another_driver_is_refused(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    engine = create_engine("sqlite://")
    async_engine = create_async_engine(app_database.replace("postgresql://", "postgresql+asyncpg://"))

    with engine.connect() as connection, pytest.raises(InvalidInput, match="of the driver 'pysqlite'"):
        work.options(connection=connection).enqueue("a")
    with Session(engine) as session, pytest.raises(InvalidInput, match="of the driver 'pysqlite'"):
        work.options(connection=session).enqueue("a")
    async with async_engine.connect() as other:
        with pytest.raises(InvalidInput, match="of the driver 'asyncpg'"):
            await work.options(connection=other).aenqueue("a")

    engine.dispose()
    await async_engine.dispose()
    await postgres_app.aclose()


def test_orders_for_different_connections_are_refused(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with psycopg.connect(app_database) as one, psycopg.connect(app_database) as two:
        orders = [work.options(connection=each).order("a") for each in (one, two)]
        with pytest.raises(InvalidInput, match="different connections"):
            postgres_app.enqueue_many(orders)
        with pytest.raises(InvalidInput, match="different connections"):
            postgres_app.enqueue_many(orders[:1], connection=two)


def test_a_connection_to_another_database_says_what_is_missing(postgres_app: Penstock, postgres: Any) -> None:
    work = postgres_app.job("work")(shapes.plain)

    with psycopg.connect(postgres.url()) as connection, pytest.raises(psycopg.errors.UndefinedTable, match="job"):
        work.options(connection=connection).enqueue("a")


def test_ids_made_in_a_transaction_tell_the_time_of_the_call(postgres_app: Penstock, app_database: str) -> None:
    work = postgres_app.job("work")(shapes.plain)
    with psycopg.connect(app_database) as connection:
        handle = work.options(connection=connection).enqueue("a")

    assert abs(id_time_ms(handle.id) / 1000 - handle.refresh().created_at.timestamp()) < 5


def test_verbs_that_only_read_run_on_a_callers_connection_too(postgres_app: Penstock, app_database: str) -> None:
    postgres_app.job("work")(shapes.plain).options(delay=60).enqueue("a")

    with psycopg.connect(app_database) as connection:
        assert postgres_app.store.run_on(connection, jobs.next_due()) is not None


async def _call(handle: Any, colour: str) -> None:
    if colour == "enqueue":
        await asyncio.to_thread(handle.enqueue, "a")
    else:
        await handle.aenqueue("a")
