"""Races on PostgreSQL in which one really waits for the other, and plans that must not change what a statement does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND
from penstock.domain.plan import Plan, Steps
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, jobs
from penstock.storage.postgres.store import PostgresStore
from tests.storage import schemas
from tests.storage.concurrency import begin, wait_until_blocked
from tests.storage.conftest import open_store
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query

T = TypeVar("T")


@pytest.fixture
def postgres_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store("postgres-18", request, tmp_path):
        yield Kit(store)
        check_soundness(store)


def running(kit: Kit) -> int:
    return int(query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL")[0][0])


@pytest.mark.parametrize(
    "settings",
    [
        ("enable_hashjoin=off", "enable_mergejoin=off"),
        ("enable_hashjoin=off", "enable_mergejoin=off", "enable_material=off", "enable_memoize=off"),
        ("enable_nestloop=off",),
        ("enable_indexscan=off", "enable_bitmapscan=off", "enable_indexonlyscan=off"),
        ("plan_cache_mode=force_generic_plan", "enable_hashjoin=off", "enable_mergejoin=off", "enable_sort=off"),
    ],
    ids=["nested-loop", "bare-nested-loop", "no-nested-loop", "no-index", "generic"],
)
def test_no_plan_makes_a_statement_take_more_than_its_limit(postgres_18_database: str, settings: Any) -> None:
    schema = schemas.lend(postgres_18_database)
    options = quote(" ".join(f"-c {setting}" for setting in settings))
    store = PostgresStore(f"{schema.url}?options={options}", schema=schema.name)
    kit = Kit(store)
    lanes = [kit.define(name) for name in ("a", "b", "c")]
    keyed = kit.define("keyed", key_concurrency=2)
    for name in ("a", "b", "c"):
        kit.run(jobs.create([kit.draft(name) for _ in range(20)]))
    kit.run(jobs.create([kit.draft("keyed", concurrency_key="k", delay=SECOND) for _ in range(20)]))
    kit.run(jobs.create([kit.draft("keyed", concurrency_key="k") for _ in range(20)]))
    with psycopg.connect(schema.url) as connection:
        connection.execute(f'ANALYZE "{schema.name}".job')
    worker = kit.worker()

    taken = [len(kit.claim(worker, lanes=lanes, limit=limit)) for limit in (1, 2, 7, 1, 1, 1)]
    assert taken == [1, 2, 7, 1, 1, 1]
    assert running(kit) == sum(taken)
    admitted = "SELECT count(*) FROM {s}job WHERE limit_key IS NOT NULL AND status = {queued} AND NOT blocked"
    assert query(kit.store, admitted) == [(2,)]
    kit.advance(2)
    assert len(kit.run(jobs.promote(3))) == 3
    (first, _) = kit.claim(worker, lanes=[keyed], limit=2)
    kit.settle(first)
    assert query(kit.store, admitted) == [(1,)]
    check_soundness(store)

    store.close()
    schemas.give_back(schema)


def test_a_settle_waits_for_a_cancel_that_is_not_committed(postgres_kit: Kit) -> None:
    claimed = postgres_kit.running()
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        store.run_on(connection, control.cancel([claimed.job_id]), now=postgres_kit.now)
        rival = begin(lambda: postgres_kit.settle(claimed))
        wait_until_blocked(store.url, rival)
        connection.commit()

    assert rival.result(timeout=20).applied == [claimed.job_id]
    assert postgres_kit.status(claimed.job_id) is Status.CANCELLED


def test_a_settle_that_waited_for_the_reclaim_of_its_job_is_refused(postgres_kit: Kit) -> None:
    claimed = postgres_kit.running()
    postgres_kit.advance(60)
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        assert store.run_on(connection, jobs.reclaim(0, 0.5), now=postgres_kit.now).lost == [claimed.job_id]
        rival = begin(lambda: postgres_kit.settle(claimed))
        wait_until_blocked(store.url, rival)
        connection.commit()

    assert rival.result(timeout=20).applied == []
    assert postgres_kit.status(claimed.job_id) is Status.SCHEDULED


def test_a_claim_that_waited_for_the_reclaim_of_its_worker_gets_nothing(postgres_kit: Kit) -> None:
    postgres_kit.create()
    worker = postgres_kit.worker(lease=15 * SECOND)
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        late = store.run_on(connection, jobs.reclaim(0, 0.5), now=postgres_kit.now + 60 * SECOND)
        assert late.workers == [worker]
        rival = begin(lambda: postgres_kit.claim(worker))
        wait_until_blocked(store.url, rival)
        connection.commit()

    with pytest.raises(LeaseLost):
        rival.result(timeout=20)
    assert running(postgres_kit) == 0


def test_claims_do_not_wait_for_jobs_that_another_one_is_claiming(postgres_kit: Kit) -> None:
    first, second = postgres_kit.create(), postgres_kit.create()
    worker, other = postgres_kit.worker(), postgres_kit.worker()
    lanes = sorted(postgres_kit._lanes.values())
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        (taken,) = store.run_on(connection, jobs.claim(worker, lanes, 1), now=postgres_kit.now)

        assert taken.job_id == first
        assert [each.job_id for each in postgres_kit.claim(other)] == [second]
        connection.rollback()

    assert [each.job_id for each in postgres_kit.claim(worker)] == [first]


def test_claims_do_not_wait_for_a_limited_definition_that_another_one_holds(postgres_kit: Kit) -> None:
    limited = postgres_kit.define("limited", concurrency=5)
    free = postgres_kit.define("free")
    postgres_kit.run(jobs.create([postgres_kit.draft(name) for name in ("limited", "limited", "free")]))
    worker, other = postgres_kit.worker(), postgres_kit.worker()
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        plan = jobs.claim(worker, [limited], 1, limited=[limited])
        assert len(store.run_on(connection, plan, now=postgres_kit.now)) == 1

        got = postgres_kit.run(jobs.claim(other, [limited, free], 10, limited=[limited]))
        assert [each.lane for each in got] == [free]
        connection.commit()

    assert len(postgres_kit.run(jobs.claim(other, [limited, free], 10, limited=[limited]))) == 1


def test_a_job_that_comes_during_a_claim_does_not_start_with_the_token_of_another_key(postgres_kit: Kit) -> None:
    lane = postgres_kit.define(rate_limit=RateLimit(1, period=60, per_key=True))
    first = postgres_kit.create(concurrency_key="a")
    worker = postgres_kit.worker()
    plan = jobs.claim(worker, [lane], 1, limited=[lane])
    assert [each.job_id for each in postgres_kit.run(plan)] == [first]
    with_token = postgres_kit.create(concurrency_key="b")

    urgent = postgres_kit.draft(concurrency_key="a", priority=20)
    claimed = postgres_kit.run(just_before("claim", plan, lambda: postgres_kit.run(jobs.create([urgent]))))

    assert [each.job_id for each in claimed] == [with_token]
    assert postgres_kit.status(urgent.id) is Status.QUEUED
    assert postgres_kit.run(plan) == []


def just_before(name: str, plan: Plan[T], act: Callable[[], object]) -> Plan[T]:
    """The plan, and what another one does in the midst of its transaction, before the statement of that name."""

    def steps() -> Steps[T]:
        inner = plan.steps()
        statement = next(inner)
        while True:
            if statement.name == name:
                act()
            try:
                statement = inner.send((yield statement))
            except StopIteration as end:
                return end.value

    return Plan(plan.name, steps, plan.writes, plan.repeatable)


def test_a_job_is_admitted_once_a_settlement_that_frees_its_key_is_committed(postgres_kit: Kit) -> None:
    postgres_kit.define(key_concurrency=1)
    claimed = postgres_kit.running(concurrency_key="anna")
    store: Any = postgres_kit.store
    with psycopg.connect(store.url) as connection:
        store.run_on(
            connection,
            jobs.settle(postgres_kit.held(claimed).worker, [postgres_kit.ending(claimed)]),
            now=postgres_kit.now,
        )
        second = postgres_kit.create(concurrency_key="anna")
        assert postgres_kit.job(second).blocked
        connection.commit()

    postgres_kit.run(jobs.promote())

    assert [each.job_id for each in postgres_kit.claim()] == [second]


def test_what_is_written_down_is_deleted_although_another_one_holds_it_for_a_moment(postgres_kit: Kit) -> None:
    postgres_kit.define(stale_after=1, delete_after=1)
    job_id = postgres_kit.job_in(Status.SUCCEEDED)
    for _ in range(2):
        postgres_kit.advance(1)
        postgres_kit.run(admin.retire(delete=False))
    store: Any = postgres_kit.store
    (remains,) = postgres_kit.run(admin.take_for_archive())
    with psycopg.connect(store.url) as connection:
        connection.execute(f'SELECT 1 FROM "{store.schema}".job WHERE id = %s FOR UPDATE', [job_id])
        rival = begin(lambda: postgres_kit.run(admin.delete_archived({job_id: remains.mark})))
        wait_until_blocked(store.url, rival)
        connection.commit()

    assert rival.result(timeout=20) == [job_id]
