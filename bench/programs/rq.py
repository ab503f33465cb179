"""RQ on Redis: the worker that runs jobs in its own process, for it is the faster one."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from rq import Queue, SimpleWorker

from bench.programs import counting
from bench.programs.speaking import Job, in_threads

_client = Redis(unix_socket_path=counting.ADDRESS)
_queue = Queue(connection=_client)


def nothing(text: str = "") -> None:
    counting.count()


def stamp(sent: int) -> None:
    counting.stamp(sent)


# RQ finds functions by their path.
globals().update(dict.fromkeys(counting.NOTHINGS, nothing))


def prepare(fresh: bool) -> None:
    _client.ping()


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _queue.enqueue(f"{__name__}.{name}", kwargs=params, result_ttl=0)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    for batch in batches:
        _queue.enqueue_many(
            [Queue.prepare_data(f"{__name__}.{name}", kwargs=params, result_ttl=0) for name, params in batch]
        )


def left() -> int:
    return int(_queue.count) + int(_queue.started_job_registry.count)


def work() -> None:
    SimpleWorker([_queue], connection=_client).work(logging_level="ERROR")
