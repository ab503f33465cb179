"""Behind PgBouncer in transaction mode everything works, only that nobody is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from penstock import IdempotencyConflict, Penstock, Status
from penstock.domain.outcome import Failure
from tests.definitions import shapes
from tests.operations.hand import Hand
from tests.services import PgBouncer, PostgresServer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def app(pgbouncer: PgBouncer, database: str) -> Iterator[Penstock]:
    app = Penstock(f"{pgbouncer.through(database)}?pooler=true", migrate=True)
    yield app
    app.close()


def test_the_whole_way_of_a_job_works(app: Penstock) -> None:
    work = app.job("work", concurrency_key="to", rate_limit="1000/s")(shapes.plain)
    good = work.options(tags=["x"], idempotency_key="k", unique=True).enqueue("good")
    bad, late = work.enqueue("bad"), work.options(delay=60).enqueue("late")

    hand = Hand(app)
    claimed = {each.job_id: each for each in hand.claim()}
    for job_id in claimed:
        assert app.jobs.read(job_id).status is Status.RUNNING
    cancelled = late.cancel()
    with pytest.raises(IdempotencyConflict):
        work.options(idempotency_key="k").enqueue("other")

    assert claimed.keys() == {good.id, bad.id}
    assert cancelled is Status.CANCELLED
    assert len(app.jobs.list(tag="x").jobs) == 1


def test_jobs_are_settled_and_waited_for(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    good = work.enqueue("good")
    Hand(app).succeed(good.id, '"done"')
    bad = work.enqueue("bad")
    Hand(app).fail(bad.id, Failure("ValueError", "broken", "Traceback", "f"))

    assert good.result(timeout=5) == "done"
    assert bad.wait(timeout=5).status is Status.FAILED


async def test_event_loops_and_threads_share_the_pooler(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    await asyncio.gather(*(work.aenqueue(f"async-{number}") for number in range(60)))
    with ThreadPoolExecutor(4) as pool:
        await asyncio.to_thread(lambda: list(pool.map(lambda n: work.enqueue(f"sync-{n}"), range(60))))

    assert len([job async for job in app.jobs.aiterate()]) == 120
    await app.aclose()


async def test_nobody_is_woken_and_that_does_no_harm(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    work.enqueue("a")

    assert not await app.queue.receive(0.3)
    assert [each.params for each in Hand(app).claim()] == ['{"to":"a"}']
    await app.queue.aclose()


def test_a_callers_transaction_works_through_the_pooler(app: Penstock, pgbouncer: PgBouncer, database: str) -> None:
    work = app.job("work")(shapes.plain)

    with psycopg.connect(pgbouncer.through(database), prepare_threshold=None) as connection:
        kept = work.options(connection=connection, unique=True).enqueue("kept")
        connection.commit()
        work.options(connection=connection).enqueue("undone")
        connection.rollback()

    assert [job.id for job in app.jobs.list().jobs] == [kept.id]
