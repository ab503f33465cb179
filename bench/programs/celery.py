"""Celery on Redis, without results: the list of a queue, emptied by one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import Celery
from redis import Redis

from bench.programs import counting
from bench.programs.speaking import CALLERS, Job, in_threads

app = Celery("bench", broker=f"redis+socket://{counting.ADDRESS}")
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=100,
    worker_disable_rate_limits=True,
    worker_enable_remote_control=False,
    broker_pool_limit=CALLERS,
    broker_connection_retry_on_startup=True,
)


def nothing(text: str = "") -> None:
    counting.count()


def stamp(sent: int) -> None:
    counting.stamp(sent)


_tasks: dict[str, Any] = {name: app.task(name=name)(nothing) for name in counting.NOTHINGS}
_tasks |= {name: app.task(name=name)(stamp) for name in counting.STAMPS}


def prepare(fresh: bool) -> None:
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=3)


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _tasks[name].apply_async(kwargs=params)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    """There is no call for many; one producer is kept for all of them."""
    with app.producer_pool.acquire(block=True) as producer:
        for batch in batches:
            for name, params in batch:
                _tasks[name].apply_async(kwargs=params, producer=producer)


def left() -> int:
    with Redis(unix_socket_path=counting.ADDRESS) as client:
        return int(client.llen("celery")) + int(client.hlen("unacked"))


def work() -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    app.worker_main(["worker", "--pool", "solo", *quiet])
