"""What only the PostgreSQL store has: connections that break, deadlines, deadlocks, poolers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.errors import StoreError, StoreUnavailable
from penstock.domain.job import Held
from penstock.domain.plan import Statement, Steps, writes
from penstock.domain.states import Status
from penstock.storage.commands import control, jobs
from penstock.storage.postgres.connections import PooledConnection
from penstock.storage.postgres.store import PostgresStore
from tests.services import PgBouncer, PostgresServer
from tests.storage import schemas
from tests.storage.concurrency import Arena, begin, wait_until_blocked
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query, statuses
from tests.waiting import wait_until

Opener = Callable[..., Kit]


@pytest.fixture
def open_kit(postgres_18_database: str) -> Iterator[Opener]:
    """Opens stores on one empty schema, with options."""
    schema = schemas.lend(postgres_18_database)
    opened: list[PostgresStore] = []

    def open_one(url: str = schema.url, **options: Any) -> Kit:
        store = PostgresStore(url, **{"schema": schema.name, "pool_size": 2, **options})
        opened.append(store)
        return Kit(store)

    yield open_one
    for store in opened:
        store.close()
    schemas.give_back(schema)


@pytest.fixture
def kit(open_kit: Opener) -> Kit:
    kit = open_kit()
    kit.define()
    return kit


@contextmanager
def held(kit: Kit, job_id: str) -> Iterator[None]:
    """Somebody else holds a job's row."""
    with psycopg.connect(kit.store.url) as connection:
        connection.execute(f"SELECT 1 FROM {kit.store.schema}.job WHERE id = %s FOR UPDATE", (job_id,))
        yield


def break_connections(kit: Kit) -> int:
    """End every session of penstock in the database; how many there were."""
    with psycopg.connect(kit.store.url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'penstock'"
        ).fetchall()
    return len(ended)


# Deadlines


def test_a_statement_that_takes_too_long_is_given_up_and_nothing_is_written(open_kit: Opener) -> None:
    kit = open_kit(statement_seconds=0.3)
    claimed = kit.running()

    with held(kit, claimed.job_id):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="deadline"):
            kit.settle(claimed)
        assert 0.3 <= time.monotonic() - began < 10

    assert kit.status(claimed.job_id) is Status.RUNNING
    assert kit.settle(claimed).applied == [claimed.job_id]


# Broken connections


def test_verbs_that_may_be_repeated_do_not_notice_that_the_connection_broke(kit: Kit) -> None:
    claimed = kit.running()

    assert break_connections(kit) > 0
    assert kit.status(claimed.job_id) is Status.RUNNING
    assert break_connections(kit) > 0
    assert kit.settle(claimed).applied == [claimed.job_id]
    assert break_connections(kit) > 0

    job_id = kit.create(unique="one", idempotency_key="k", tags=("a",))
    assert kit.events(job_id) == ["job.enqueued"]
    check_soundness(kit.store)


def test_a_claim_whose_connection_broke_is_not_repeated_blindly_but_works_the_next_time(kit: Kit) -> None:
    job_id = kit.create()
    worker = kit.worker()
    assert break_connections(kit) > 0

    try:
        taken = kit.claim(worker)
    except StoreUnavailable:
        kit.run(jobs.release_unheld(worker, []))
        taken = kit.claim(worker)

    assert [each.job_id for each in taken] == [job_id]
    assert kit.settle(taken[0]).applied == [job_id]


def test_a_transaction_that_is_broken_off_in_the_middle_leaves_nothing(kit: Kit) -> None:
    claimed = kit.running(concurrency_key="k")
    with psycopg.connect(kit.store.url) as connection:
        connection.execute(f"SELECT 1 FROM {kit.store.schema}.job WHERE id = %s FOR UPDATE", (claimed.job_id,))
        rival = begin(lambda: kit.settle(claimed))
        wait_until_blocked(kit.store.url, rival)
        # The first try dies here, while it waits; the next one finds the row free.
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        assert ended == [(True,)]

    assert rival.result(timeout=20).applied == [claimed.job_id]
    assert kit.events(claimed.job_id).count("job.succeeded") == 1
    check_soundness(kit.store)


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_work_goes_on_after_a_restart_of_the_server(kit: Kit, postgres_18: PostgresServer, mode: Any) -> None:
    claimed = kit.running()

    postgres_18.restart(mode)

    assert kit.settle(claimed).applied == [claimed.job_id]
    assert kit.status(kit.create()) is Status.QUEUED


@pytest.mark.crash
def test_a_server_that_is_away_is_named_and_nothing_is_acknowledged(
    open_kit: Opener, postgres_18: PostgresServer
) -> None:
    kit = open_kit()
    kit.define()
    kit.store._pool().timeout = 1.0
    postgres_18.stop("fast")
    try:
        with pytest.raises(StoreUnavailable, match="PostgreSQL"):
            kit.create()
    finally:
        postgres_18.start()

    kit.store._pool().timeout = 20.0
    assert query(kit.store, "SELECT count(*) FROM {s}job") == [(0,)]
    assert kit.status(kit.create()) is Status.QUEUED


def test_a_plan_gets_a_session_that_has_carried_it_out_before(kit: Kit) -> None:
    pool = kit.store._pool()
    with PooledConnection(pool, "claim") as first, PooledConnection(pool, "settle") as second:
        assert first is not second

    for plan, usual in (("claim", first), ("settle", second), ("claim", first), ("settle", second)):
        with PooledConnection(pool, plan) as found:
            assert found is usual
    with PooledConnection(pool, "claim"), PooledConnection(pool, "claim") as found:
        assert found is second
    with PooledConnection(pool, "claim") as found:
        assert found is first, "of those who know it, the one that was used last"


def test_a_new_plan_gets_the_session_that_knows_the_fewest(kit: Kit) -> None:
    pool = kit.store._pool()
    with PooledConnection(pool, "claim") as first, PooledConnection(pool, "settle") as second:
        pass
    with PooledConnection(pool, "settle"), PooledConnection(pool, "tidy") as found:
        assert found is first

    with PooledConnection(pool, "promote") as found:
        assert found is second
    with PooledConnection(pool, "tidy") as found:
        assert found is first


def test_a_change_is_planned_once_in_a_session(kit: Kit) -> None:
    """At its first run, and not once more when it is prepared."""
    claimed = kit.running()
    worker = kit.held(claimed).worker

    kit.run(jobs.settle(worker, [kit.ending(claimed)]))

    with PooledConnection(kit.store._pool(), "settle") as connection:
        prepared = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%%ended AS (%%'"
        assert len(connection.execute(prepared).fetchall()) == 1


def test_a_session_that_takes_no_writes_is_not_used_again(kit: Kit) -> None:
    pool = kit.store._pool()
    with PooledConnection(pool, "create") as first:
        first.execute("SET default_transaction_read_only = on")

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), PooledConnection(pool, "create") as again:
        again.execute(f"DELETE FROM {kit.store.schema}.job".encode())

    assert again is first
    assert first.closed
    assert kit.create()


# The database asks to run it again


def _hold_two(first: str, second: str, meet: threading.Barrier) -> Any:
    """A verb that holds two jobs one after the other; the first time it meets its rival in between."""
    tries: list[int] = []

    @writes
    def hold_two() -> Steps[int]:
        tries.append(1)
        yield Statement("hold_jobs", columns={"id": [first]})
        if len(tries) == 1:
            meet.wait(timeout=10)
        yield Statement("hold_jobs", columns={"id": [second]})
        return len(tries)

    return hold_two()


def test_the_victim_of_a_deadlock_starts_again_and_both_succeed(kit: Kit) -> None:
    one, other = kit.create(), kit.create()
    meet = threading.Barrier(2)
    before = _deadlocks(kit)

    with Arena(2) as arena:
        tries = arena.together(
            lambda: kit.run(_hold_two(one, other, meet)), lambda: kit.run(_hold_two(other, one, meet))
        )

    assert sorted(tries) == [1, 2]
    assert _deadlocks(kit) > before


def _deadlocks(kit: Kit) -> int:
    with psycopg.connect(kit.store.url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_clear_snapshot(), pg_stat_force_next_flush()")
        found = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_serialization_failure_starts_the_plan_again(open_kit: Opener, kit: Kit, isolation: str) -> None:
    """Somebody has set another isolation level for the whole database, and two change one job at once."""
    options = quote(f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}")
    strict = open_kit(url=f"{kit.store.url}?options={options}")
    strict._lanes = kit._lanes
    claimed = kit.running()

    with psycopg.connect(kit.store.url) as connection:
        kit.store.run_on(connection, control.cancel([claimed.job_id]), now=kit.now)
        rival = begin(lambda: strict.settle(claimed))
        wait_until_blocked(kit.store.url, rival)
        connection.commit()

    assert rival.result(timeout=20).applied == [claimed.job_id]
    assert kit.status(claimed.job_id) is Status.CANCELLED


# A server that takes no writes


def test_a_server_that_has_become_read_only_is_unavailable_until_it_takes_writes_again(
    open_kit: Opener, postgres_18: PostgresServer
) -> None:
    kit = open_kit()
    job_id = kit.create()
    _set_on_server(postgres_18, "on")
    try:
        _wait_for_setting(kit, "on")
        kit.store._pool().timeout = 1.0
        with pytest.raises(StoreUnavailable):
            kit.create()
    finally:
        _set_on_server(postgres_18, "off")
    _wait_for_setting(kit, "off")

    kit.store._pool().timeout = 20.0
    assert kit.status(kit.create()) is Status.QUEUED
    assert kit.status(job_id) is Status.QUEUED


def test_a_connection_to_a_server_that_became_read_only_is_not_used_again(open_kit: Opener) -> None:
    """After a failover old connections lead to the former primary; new ones find the present one."""
    kit = open_kit(pool_size=1)
    kit.define()
    with kit.store._pool().connection() as connection:
        connection.execute("SET default_transaction_read_only = on")

    assert kit.status(kit.create()) is Status.QUEUED


async def test_nor_is_an_async_one(open_kit: Opener) -> None:
    kit = open_kit(pool_size=1)
    kit.define()
    async with (await kit.store._async_pool()).connection() as connection:
        await connection.execute("SET default_transaction_read_only = on")

    (created,) = await kit.store.arun(jobs.create([kit.draft()]), now=kit.now)
    await kit.store.aclose()

    assert created.created


def _set_on_server(server: PostgresServer, value: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        connection.execute("SELECT pg_reload_conf()")


def _wait_for_setting(kit: Kit, value: str) -> None:
    def seen() -> bool:
        with psycopg.connect(kit.store.url) as connection:
            return connection.execute("SHOW default_transaction_read_only").fetchone() == (value,)

    wait_until(seen, f"the server's default_transaction_read_only is {value}")


# Poolers


def test_everything_works_through_a_pooler_in_transaction_mode(open_kit: Opener, pgbouncer: PgBouncer) -> None:
    direct = open_kit()
    kit = open_kit(url=pgbouncer.through(direct.store.url), pooler=True, pool_size=8)
    lane = kit.define(key_concurrency=1, concurrency=50)
    worker = kit.worker()

    def work(name: str) -> int:
        done = 0
        for n in range(8):
            kit.run(
                jobs.create([kit.draft(concurrency_key=f"{name}{n % 2}", tags=("t",), idempotency_key=f"{name}-{n}")])
            )
            for claimed in kit.run(jobs.claim(worker, [lane], 3, limited=[lane])):
                mine = Held(claimed.job_id, claimed.fence, worker)
                kit.run(jobs.save_progress([(mine, 50, "half", None)]))
                kit.run(jobs.save_phase(mine, "run", 0, "completed", result="1"))
                kit.run(jobs.save_logs(mine, [LogLine("info", "line")]))
                kit.run(jobs.emit(mine, "mine", None))
                kit.run(jobs.heartbeat(worker, 15_000_000))
                if n % 4 == 3:
                    kit.run(control.cancel([claimed.job_id]))
                kit.run(jobs.settle(worker, [kit.ending(claimed)]))
                done += 1
        return done

    with Arena(4) as arena:
        results = arena.together(*[lambda name=name: work(name) for name in "abcd"])
    assert all(isinstance(each, int) for each in results), results
    while left := kit.run(jobs.claim(worker, [lane], 50, limited=[lane])):
        kit.run(jobs.settle(worker, [kit.ending(each) for each in left]))

    ended = statuses(direct.store)
    assert sum(ended.values()) == 32
    assert set(ended) <= {5, 7}
    check_soundness(direct.store)


async def test_the_async_way_works_through_a_pooler_too(open_kit: Opener, pgbouncer: PgBouncer) -> None:
    direct = open_kit()
    kit = open_kit(url=pgbouncer.through(direct.store.url), pooler=True)
    kit.define()

    for _ in range(8):
        (created,) = await kit.store.arun(jobs.create([kit.draft()]), now=kit.now)
        assert created.created
    worker = kit.worker()
    taken = await kit.store.arun(jobs.claim(worker, list(kit._lanes.values()), 8), now=kit.now)
    report = await kit.store.arun(jobs.settle(worker, [kit.ending(each) for each in taken]), now=kit.now)
    await kit.store.aclose()

    assert len(report.applied) == 8


# Errors


def test_an_error_of_the_database_is_one_of_ours(kit: Kit) -> None:
    with pytest.raises(StoreError):
        kit.create(priority=99)


def test_no_password_is_ever_shown() -> None:
    store = PostgresStore("postgresql://anna:secret@127.0.0.1:1/jobs?connect_timeout=1")

    assert "secret" not in store.place
    assert "jobs" in store.place
