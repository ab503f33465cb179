"""penstock: inline jobs, created through the sync calls, run by `penstock worker`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.programs import counting
from bench.programs.speaking import Job, in_threads
from penstock import Penstock
from penstock.domain.states import Status

app = Penstock(counting.ADDRESS or "sqlite://", migrate=True)
_count = counting.Counter()


async def nothing(text: str = "") -> None:
    _count()


async def stamp(sent: int) -> None:
    counting.stamp(sent)


_handles: dict[str, Any] = {name: app.job(name, isolation="inline")(nothing) for name in counting.NOTHINGS}
_handles |= {name: app.job(name, isolation="inline")(stamp) for name in counting.STAMPS}


def prepare(fresh: bool) -> None:
    app.definitions.register()


def single(jobs: Sequence[Job]) -> None:
    for name, params in jobs:
        _handles[name].enqueue(**params)


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    in_threads(single, groups)


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    for batch in batches:
        app.enqueue_many([_handles[name].order(**params) for name, params in batch])


def left() -> int:
    return app.jobs.count(status=[each for each in Status if each != Status.SUCCEEDED], cap=1_000_000).value
