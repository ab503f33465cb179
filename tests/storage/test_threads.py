"""One application serves all threads and event loops of a process."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from penstock import JobHandle, Penstock
from tests.applications import NewApp
from tests.definitions import shapes

THREADS = 8
EACH = 50


def test_threads_that_enqueue_at_once_lose_nothing(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    together = threading.Barrier(THREADS)

    def enqueue(number: int) -> list[JobHandle[str]]:
        together.wait()
        return [work.enqueue(f"{number}-{each}") for each in range(EACH)]

    with ThreadPoolExecutor(THREADS) as pool:
        handles = [handle for made in pool.map(enqueue, range(THREADS)) for handle in made]

    expected = {f'{{"to":"{number}-{each}"}}' for number in range(THREADS) for each in range(EACH)}
    stored = {job.id: job.params_text for job in app.jobs.iterate()}
    assert stored.keys() == {handle.id for handle in handles}
    assert sorted(stored.values()) == sorted(expected)


def test_threads_that_come_first_at_once_share_one_store(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    together = threading.Barrier(THREADS)

    def first(number: int) -> object:
        together.wait()
        work.enqueue(str(number))
        return app.store

    with ThreadPoolExecutor(THREADS) as pool:
        stores = set(pool.map(first, range(THREADS)))

    assert len(stores) == 1
    assert len(app.jobs.list().jobs) == THREADS


def test_threads_that_ask_for_one_idempotency_key_get_one_job(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    together = threading.Barrier(THREADS)

    def enqueue(_: int) -> JobHandle[str]:
        together.wait()
        return work.options(idempotency_key="k", unique=True).enqueue("a")

    with ThreadPoolExecutor(THREADS) as pool:
        handles = list(pool.map(enqueue, range(THREADS)))

    assert len({handle.id for handle in handles}) == 1
    assert [handle.created for handle in handles].count(True) == 1
    assert len(app.jobs.list().jobs) == 1


def test_event_loops_of_several_threads_share_an_application(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    async def enqueue(number: int) -> None:
        await asyncio.gather(*(work.aenqueue(f"{number}-{each}") for each in range(20)))
        await app.jobs.aread((await work.aenqueue("last")).id)
        if app.store.dialect == "postgres":
            await app.store.aclose()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: asyncio.run(enqueue(number)), range(4)))

    assert len(list(app.jobs.iterate())) == 4 * 21


def test_sync_calls_and_an_event_loop_may_be_mixed(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)

    async def both() -> None:
        await asyncio.gather(
            *(work.aenqueue(f"async-{each}") for each in range(25)),
            *(asyncio.to_thread(work.enqueue, f"sync-{each}") for each in range(25)),
        )
        await app.aclose()

    asyncio.run(both())

    assert len(list(app.jobs.iterate())) == 50
