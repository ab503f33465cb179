"""`python -m bench lists`: how long lists, counts and figures take with a million ended jobs behind them."""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import httpx2

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.definition import Definition
from penstock.domain.instant import DAY, HOUR, to_datetime
from penstock.domain.states import LIVE, PENDING, Status
from penstock.http.application import create
from penstock.storage.commands import admin
from tests.storage.large_store import Filling, Kind
from tests.storage.tables import query

JOBS = 1_000_000
MOST = 100.0
"""Milliseconds that a request may take."""
DEFINITIONS = 20
SECONDS_APART = 1.0
"""A million jobs in eleven and a half days: more than a third of them are stale."""
TRIES = 5
SORTS = tuple(sign + field for field in ("createdAt", "finishedAt", "priority") for sign in ("-", ""))
STATUSES = (
    "scheduled", "queued", "running", "cancelling", "review_needed", "succeeded", "failed", "cancelled", "stale",
)  # fmt: skip
_WEEK = 7 * DAY
# How many of them have not ended, by status.
_LIVE = {
    Status.QUEUED: 5000, Status.SCHEDULED: 3000, Status.RUNNING: 400, Status.CANCELLING: 20, Status.REVIEW_NEEDED: 300,
}  # fmt: skip

Query = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Taken:
    """One request and what it took, in milliseconds."""

    what: str
    path: str
    took: float


def run(url: str, scale: float) -> str:
    """One table for each store."""
    count = max(1000, round(JOBS * scale))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        texts = []
        for address in (f"sqlite:///{folder}/jobs.db", url):
            app = Penstock(address, migrate=True)
            fill(app.store, count)
            texts.append(table(app.store.dialect, count, measured(app)))
            app.close()
    return "\n\n".join(texts)


def fill(store: Any, count: int) -> None:
    """Ended jobs of twenty definitions, and a few thousand that have not ended."""
    known = store.run(admin.register([Definition(f"job{n}") for n in range(DEFINITIONS)]))
    filling = Filling(store, [known[f"job{n}", 1] for n in range(DEFINITIONS)], count, SECONDS_APART)
    ended = f"({filling.created} + 50000 + {filling.took})"
    stale = f"{ended} + {_WEEK} <= {filling.now}"
    retired = f"({stale})" if store.dialect == "postgres" else f"CASE WHEN {stale} THEN 1 ELSE 0 END"
    kind = Kind(
        # Every second job is of the first definition; the last one has had none for days.
        position=f"CASE WHEN n < {count // 50} THEN {DEFINITIONS - 1} WHEN n % 2 = 0 THEN 0 "
        f"ELSE 1 + n / 2 % {DEFINITIONS - 2} END",
        job={
            "priority": "CASE WHEN n % 10 = 0 THEN n / 10 % 21 ELSE 10 END",
            "stale_at": f"{ended} + {_WEEK}",
            "retire_at": f"{ended} + CASE WHEN {stale} THEN 2 ELSE 1 END * {_WEEK}",
            "retired": retired,
        },
        detail={
            "reference_type": "CASE WHEN n % 1000 = 3 THEN 'invoice' ELSE 'order' END",
            "reference_id": "CAST(n % 50000 AS text)",
            "schedule": "CASE WHEN n % 20 = 0 THEN 'hourly' || n / 20 % 50 WHEN n % 20 = 1 THEN 'minutely' END",
            "parent": f"CASE WHEN n % 1000 = 5 THEN {filling.id('0')} END",
            "tags": """CASE WHEN n % 3 = 0 THEN '["often"]' END""",
        },
        tags={"often": "n % 3 = 0", "seldom": "n % 5000 = 0", "old": f"n < {count // 20}"},
    )
    filling.add_ended(kind)
    # The others came in between, one in a minute, so that they are not all at the end of every list.
    many = {status: max(1, round(n * min(1, count / JOBS))) for status, n in _LIVE.items()}
    others = Filling(store, filling.lanes, count + sum(many.values()), 60, filling.now)
    first = count
    for status, n in many.items():
        others.add(kind, _standing(others, status), first, first + n)
        first += n


def _standing(filling: Filling, status: Status) -> dict[str, str]:
    now = filling.now
    held = status in LIVE
    claims = "0" if status in PENDING else "1"
    worker = filling.id("0") if held else "NULL"
    facts = {
        "fence": claims, "status": str(status.code), "attempt": claims,
        "priority": "n % 21", "max_attempts": "3", "rank": f"{now} - (n % 21) * 1000000000000000",
        "due_at": f"{now + (HOUR if status is Status.SCHEDULED else 0)}", "created_at": filling.created,
        "updated_at": str(now),
        "queued_at": str(now), "started_at": str(now) if held else "NULL", "worker": worker,
        "cancel_at": str(now) if status is Status.CANCELLING else "NULL",
    }  # fmt: skip
    return {name: text for name, text in facts.items() if text != "NULL"}


def measured(app: Penstock) -> list[Taken]:
    """Every request, slowest first."""
    with asyncio.Runner() as runner:
        ask = _Asked(app, runner)
        taken = [*_lists(app, ask), *_counts(app, ask), *_figures(app, ask)]
        ask.close()
        runner.run(app.aclose())
    return sorted(taken, key=lambda each: -each.took)


class _Asked:
    """Asks a server in this process, and takes the time."""

    def __init__(self, app: Penstock, runner: asyncio.Runner) -> None:
        transport = httpx2.ASGITransport(create(app, WebSettings()), client=("127.0.0.1", 5))
        self._http = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7367")
        self._runner = runner

    def close(self) -> None:
        self._runner.run(self._http.aclose())

    def answer(self, path: str) -> httpx2.Response:
        found = self._runner.run(self._http.get(path))
        assert found.status_code == 200, f"{path}: {found.text[:300]}"
        return found

    def time(self, what: str, path: str) -> Taken:
        took = []
        for _ in range(TRIES):
            begin = time.perf_counter()
            self.answer(path)
            took.append((time.perf_counter() - begin) * 1000)
        return Taken(what, path, statistics.median(took))


def _filters(app: Penstock) -> dict[str, Query]:
    text = "SELECT min(created_at), max(created_at) FROM {s}job WHERE status IN {ended}"
    ((oldest, newest),) = query(app.store, text)
    parent = str(query(app.store, "SELECT parent FROM {s}job_detail WHERE parent IS NOT NULL LIMIT 1")[0][0])
    middle = (oldest + newest) // 2
    ids = [str(row[0]) for row in query(app.store, "SELECT id FROM {s}job ORDER BY id DESC LIMIT 100")]
    one: dict[str, Query] = {
        "all": (),
        **{f"status {each}": (("status", each),) for each in STATUSES},
        "status failed, cancelled": (("status", "failed"), ("status", "cancelled")),
        "status queued, running, failed": (("status", "queued"), ("status", "running"), ("status", "failed")),
        "definition, often": (("definitionKey", "job0"),),
        "definition, one in 40": (("definitionKey", "job7"),),
        "definition, long ago": (("definitionKey", f"job{DEFINITIONS - 1}"),),
        "reference": (("referenceType", "order"), ("referenceId", "17")),
        "reference type, all": (("referenceType", "order"),),
        "reference type, one in 1,000": (("referenceType", "invoice"),),
        "tag, every third": (("tag", "often"),),
        "tag, one in 5,000": (("tag", "seldom"),),
        "tag, long ago": (("tag", "old"),),
        "schedule, one in 1,000": (("scheduleId", "hourly7"),),
        "schedule, one in 20": (("scheduleId", "minutely"),),
        "created in the last hour": (("createdFrom", _moment(newest - HOUR)),),
        "created before the last hour": (("createdTo", _moment(newest - HOUR)),),
        "created in one hour long ago": (("createdFrom", _moment(middle)), ("createdTo", _moment(middle + HOUR))),
        "created before long ago": (("createdTo", _moment(oldest + HOUR)),),
        "fingerprint": (("fingerprint", "f7"),),
        "parent": (("parentId", parent),),
        "100 ids": tuple(("jobId", each) for each in ids),
    }
    pairs = itertools.product(
        ("status queued", "status succeeded", "status failed", "status stale"),
        (
            "definition, often", "definition, one in 40", "definition, long ago", "tag, every third",
            "tag, one in 5,000", "tag, long ago", "schedule, one in 20", "created in the last hour",
            "created in one hour long ago", "reference type, all", "fingerprint",
        ),
    )  # fmt: skip
    both: dict[str, Query] = {f"{first}; {second}": (*one[first], *one[second]) for first, second in pairs}
    more = (("definition, one in 40", "tag, every third"), ("definition, long ago", "tag, every third"))
    return one | both | {f"{first}; {second}": (*one[first], *one[second]) for first, second in more}


def _lists(app: Penstock, ask: _Asked) -> Iterator[Taken]:
    for (name, which), sort in itertools.product(_filters(app).items(), SORTS):
        paired = ";" in name
        if paired and not sort.startswith("-"):
            continue
        path = f"/v1/jobs?{urlencode([*which, ('sort', sort)])}"
        yield ask.time(f"{name}, by {sort}", path)
        if not paired and (deep := _deep(ask, which, sort)):
            yield replace(ask.time(f"{name}, by {sort}, deep", f"{path}&cursor={deep}"), path=path)


def _deep(ask: _Asked, which: Query, sort: str) -> str | None:
    """A cursor some pages on; nobody reads a thousand pages, but a place far behind must cost no more."""
    cursor = None
    for _ in range(2):
        page = f"/v1/jobs?{urlencode([*which, ('sort', sort), ('limit', '500')])}"
        following = ask.answer(page + (f"&cursor={cursor}" if cursor else "")).json()["nextCursor"]
        if following is None:
            break
        cursor = following
    return cursor


def _counts(app: Penstock, ask: _Asked) -> Iterator[Taken]:
    for name, which in _filters(app).items():
        yield ask.time(f"{name}, counted", f"/v1/jobs?{urlencode([*which, ('limit', '1'), ('count', 'true')])}")


def _figures(app: Penstock, ask: _Asked) -> Iterator[Taken]:
    day_ago = _moment(time.time_ns() // 1000 - DAY + HOUR)
    month_ago = _moment(time.time_ns() // 1000 - 30 * DAY)
    text = "SELECT id FROM {s}job WHERE status = {succeeded} ORDER BY id LIMIT 1"
    ids = [str(row[0]) for row in query(app.store, text)]
    for path in (
        "/v1/stats", f"/v1/stats?{urlencode([('since', day_ago)])}", f"/v1/stats?{urlencode([('since', month_ago)])}",
        "/v1/definitions", "/v1/definitions/job0", "/v1/errors", f"/v1/errors?{urlencode([('since', month_ago)])}",
        "/v1/alerts", "/v1/alerts/history", "/v1/workers", "/v1/schedules", "/v1/events?limit=100",
        f"/v1/jobs/{ids[0]}", f"/v1/jobs/{ids[0]}/events", f"/v1/jobs/{ids[0]}/attempts", f"/v1/jobs/{ids[0]}/logs",
        f"/v1/jobs/{ids[0]}/why", "/metrics",
    ):  # fmt: skip
        yield ask.time(path.partition("?")[0].replace(ids[0], "{jobId}") + (" since" if "since" in path else ""), path)


def table(dialect: str, count: int, taken: list[Taken]) -> str:
    """The figures as Markdown: what is over the limit, the slowest ones, and those that are no lists."""
    over = [each for each in taken if each.took >= MOST]
    lists = [each for each in taken if each.path.startswith("/v1/jobs?")]
    figures = sorted((each for each in taken if each not in lists), key=lambda each: each.what)
    half = statistics.median(each.took for each in lists)
    lines = [
        f"{dialect}, {count:,} ended jobs: {len(taken)} requests, medians of {TRIES} in milliseconds. "
        f"{len(over)} took {MOST:.0f} ms or more; half of the lists and counts took {half:.1f} ms or less.",
        "",
        f"| {dialect} | ms |",
        "| --- | ---: |",
        *(f"| {each.what} | {each.took:.1f} |" for each in lists[: max(15, len(over))]),
        *(f"| `{each.what}` | {each.took:.1f} |" for each in figures),
    ]
    if os.environ.get("PENSTOCK_BENCH_ALL"):
        lines += ["", *(f"{each.took:8.1f}  {each.what}" for each in taken)]
    return "\n".join(lines)


def _moment(instant: int) -> str:
    return to_datetime(instant).isoformat().replace("+00:00", "Z")
