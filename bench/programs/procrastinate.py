"""Procrastinate on psycopg: sync calls for creating, an async worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from bench.programs import counting
from bench.programs.speaking import CALLERS, Job, in_threads

CONCURRENCY = 30

_producing = SyncPsycopgConnector(conninfo=counting.ADDRESS, min_size=CALLERS, max_size=CALLERS)
app = App(connector=_producing)


async def nothing(text: str = "") -> None:
    counting.count()


async def stamp(sent: int) -> None:
    counting.stamp(sent)


_tasks: dict[str, Any] = {name: app.task(name=name)(nothing) for name in counting.NOTHINGS}
_tasks |= {name: app.task(name=name)(stamp) for name in counting.STAMPS}


def prepare(fresh: bool) -> None:
    app.open()
    if fresh:
        app.schema_manager.apply_schema()


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _tasks[name].defer(**params)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    for batch in batches:
        _tasks[batch[0][0]].batch_defer(*(params for _, params in batch))


def left() -> int:
    query = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status <> 'succeeded'"
    return int(_producing.execute_query_one(query)["jobs"])


def work() -> None:
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    asyncio.run(_work())


async def _work() -> None:
    connector = PsycopgConnector(conninfo=counting.ADDRESS, min_size=4, max_size=CONCURRENCY)
    with app.replace_connector(connector) as working:
        async with working.open_async():
            await working.run_worker_async(concurrency=CONCURRENCY, listen_notify=True)
