"""PGQueuer on asyncpg and uvloop: one connection for a caller, a pool of 32 for 32 of them."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Sequence
from functools import cache
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries

from bench.programs import counting
from bench.programs.speaking import CALLERS, Job

BATCH = 500


def prepare(fresh: bool) -> None:
    queries = _queries()
    if fresh:
        _run(queries.install())


def single(jobs: Sequence[Job]) -> None:
    _run(_single(_queries(), jobs))


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    queries = _pooled()

    async def all_callers() -> None:
        await asyncio.gather(*(_single(queries, group) for group in groups))

    _run(all_callers())


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    queries = _queries()

    async def all_batches() -> None:
        for batch in batches:
            payloads = [json.dumps(params).encode() for _, params in batch]
            await queries.enqueue([name for name, _ in batch], payloads, [0] * len(batch))

    _run(all_batches())


def left() -> int:
    found: int = _run(_connection().fetchval("SELECT count(*) FROM pgqueuer"))
    return found


def work() -> None:
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    uvloop.run(_work())


async def _work() -> None:
    pool = await asyncpg.create_pool(counting.ADDRESS, min_size=2, max_size=4)
    queuer = PgQueuer.from_asyncpg_pool(pool)
    count = counting.Counter()

    async def nothing(job: Any) -> None:
        json.loads(job.payload)
        count()

    async def stamp(job: Any) -> None:
        counting.stamp(json.loads(job.payload)["sent"])

    for name in counting.NOTHINGS:
        queuer.entrypoint(name)(nothing)
    for name in counting.STAMPS:
        queuer.entrypoint(name)(stamp)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
    await queuer.run(batch_size=BATCH)


async def _single(queries: Queries, jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        await queries.enqueue(name, json.dumps(params).encode())


@cache
def _loop() -> Any:
    return uvloop.new_event_loop()


@cache
def _connection() -> Any:
    return _run(asyncpg.connect(counting.ADDRESS))


@cache
def _queries() -> Queries:
    return Queries.from_asyncpg_connection(_connection())


@cache
def _pooled() -> Queries:
    async def made() -> Any:
        return await asyncpg.create_pool(counting.ADDRESS, min_size=CALLERS, max_size=CALLERS)

    return Queries.from_asyncpg_pool(_run(made()))


def _run(task: Any) -> Any:
    return _loop().run_until_complete(task)
