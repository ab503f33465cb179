"""Huey on SQLite with every commit flushed; it has no call for many."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from huey import SqliteHuey

from bench.programs import counting
from bench.programs.speaking import Job, in_threads

huey = SqliteHuey(filename=counting.ADDRESS, fsync=True, results=False, timeout=60)


def nothing(text: str = "") -> None:
    counting.count()


def stamp(sent: int) -> None:
    counting.stamp(sent)


_tasks: dict[str, Any] = {name: huey.task(name=name)(nothing) for name in counting.NOTHINGS}
_tasks |= {name: huey.task(name=name)(stamp) for name in counting.STAMPS}


def prepare(fresh: bool) -> None:
    huey.pending_count()


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _tasks[name](**params)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    for batch in batches:
        single(batch)


def left() -> int:
    return int(huey.pending_count())


def work() -> None:
    logging.getLogger("huey").setLevel(logging.ERROR)
    huey.create_consumer(workers=1, periodic=False, initial_delay=0.01, backoff=1.0, max_delay=0.01).run()
