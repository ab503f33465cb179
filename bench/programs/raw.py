"""The raw limit: one bare table, the barest statements."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench.programs.counting import ADDRESS
from bench.programs.speaking import CALLERS, Job
from bench.raw import RawPostgres, RawSqlite, in_threads
from penstock.domain.ids import IdSource

BATCH = 500
_ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
_table: RawPostgres | RawSqlite


def prepare(fresh: bool) -> None:
    """Begin with an empty table."""
    global _table
    if ADDRESS.startswith("postgresql:"):
        _table = RawPostgres(ADDRESS)
    else:
        for end in ("", "-wal", "-shm"):
            Path(ADDRESS + end).unlink(missing_ok=True)
        _table = RawSqlite(ADDRESS)


def single(jobs: Sequence[Job]) -> None:
    _table.single(_ids.many(len(jobs)), _text(jobs))


def concurrent(groups: Sequence[Sequence[Job]]) -> None:
    text = _text(groups[0])
    ids = [_ids.many(len(group)) for group in groups]

    def caller(connection: Any, own: Sequence[str]) -> None:
        for each in own:
            connection.execute(_table.insert, (each, text))

    in_threads([partial(caller, *pair) for pair in zip(_connections(), ids, strict=True)])


def bulk(batches: Sequence[Sequence[Job]]) -> None:
    for batch in batches:
        _table.batch(_ids.many(len(batch)), _text(batch))


def drain(count: int) -> int:
    """Claim and complete all there is, on one connection."""
    done = 0
    while taken := _table.claim_and_complete(BATCH):
        done += taken
    return done


@cache
def _connections() -> list[Any]:
    """One for each caller, open before the clock runs."""
    return [_table._connect() for _ in range(CALLERS)]


def _text(jobs: Sequence[Job]) -> str:
    params = jobs[0][1]
    return '{"text": "' + params["text"] + '"}' if params else "{}"
