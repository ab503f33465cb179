"""The driver decision: our claim and settle statements, 500 jobs each, through psycopg and through asyncpg.

Both drivers run the same SQL in an event loop. psycopg gets what the store gives it; asyncpg gets native lists,
its own best way, and the placeholders that it knows.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from typing import Any

import asyncpg

from bench.draining import returned
from bench.stores import BATCH, Bench, _exactly
from penstock.domain.plan import Statement
from penstock.storage.commands import jobs, rows
from penstock.storage.commands.limits import ClaimQuotas
from penstock.storage.postgres.store import PostgresStore

_MARK = re.compile(r"%\((\w+)\)s")


def run(url: str, rounds: int, scale: float) -> dict[str, list[float]]:
    """Jobs a second of each driver, round by round."""
    count = round(20_000 * scale) // BATCH * BATCH
    bench = Bench(PostgresStore(url, migrate=True), 1)
    figures: dict[str, list[float]] = {"psycopg": [], "asyncpg": []}
    for _ in range(rounds):
        for name, drain in (("psycopg", _psycopg), ("asyncpg", _asyncpg)):
            bench.batches(bench.drafts(count, "{}"))
            began = time.perf_counter()
            _exactly(asyncio.run(drain(bench, url)), count)
            figures[name].append(count / (time.perf_counter() - began))
    bench.store.close()
    return figures


def table(figures: dict[str, list[float]]) -> str:
    medians = {name: statistics.median(rates) for name, rates in figures.items()}
    lines = [f"{name}: {rate:,.0f} jobs/s claimed and settled" for name, rate in medians.items()]
    return "\n".join([*lines, f"asyncpg / psycopg: {medians['asyncpg'] / medians['psycopg']:.2f}"])


async def _psycopg(bench: Bench, _: str) -> int:
    lanes = [lane for _, lane in bench.lanes]
    done = 0
    while taken := await bench.store.arun(jobs.claim(bench.worker, lanes, BATCH)):
        ended = [returned(*each[:3]) for each in taken]
        done += len((await bench.store.arun(jobs.settle(bench.worker, ended))).applied)
    await bench.store.aclose()
    return done


async def _asyncpg(bench: Bench, url: str) -> int:
    settings = {"jit": "off", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}
    connection = await asyncpg.connect(url, server_settings=settings)
    lane = bench.lanes[0][1]
    values = {"worker": bench.worker, "limit": BATCH, "start": True, "full": BATCH}
    claim = Statement("claim", values, columns=ClaimQuotas([lane], BATCH).columns({}))
    claim_text, claim_names = _native(bench, claim)
    claim_prepared = await connection.prepare(claim_text)
    settle_prepared: Any = None
    settle_names: list[str] = []
    done = 0
    while taken := await claim_prepared.fetch(*_arguments(claim, claim_names)):
        ended = [returned(*row[:3]) for row in taken]
        settle = Statement("settle", {"worker": bench.worker}, columns=rows.settlement_columns(ended))
        if settle_prepared is None:
            settle_text, settle_names = _native(bench, settle)
            settle_prepared = await connection.prepare(settle_text)
        async with connection.transaction():
            done += len(await settle_prepared.fetch(*_arguments(settle, settle_names)))
    await connection.close()
    return done


def _native(bench: Bench, statement: Statement) -> tuple[str, list[str]]:
    """Our text with asyncpg's placeholders, and the names in their order."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found.group(1) not in names:
            names.append(found.group(1))
        return f"${names.index(found.group(1)) + 1}"

    text = bench.store._catalogue[statement.name, (), ""].text
    return _MARK.sub(number, text), names


def _arguments(statement: Statement, names: list[str]) -> list[Any]:
    values = {"now": None, "ageing": 10**15, **statement.values, **(statement.columns or {})}
    return [values[name] for name in names]
