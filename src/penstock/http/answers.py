"""Answers as JSON text, made without the web framework, and pages of lists, for routes and the command line."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from penstock.app import Penstock
from penstock.domain import stats as figures
from penstock.domain.alerts import Alert
from penstock.domain.definition import Pause
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.job_json import iso, listed, spliced
from penstock.domain.states import Status
from penstock.domain.worker import WorkerRow
from penstock.http.job_output import JobOutput
from penstock.runtime.release import version
from penstock.storage.commands import admin

_MOST_COUNTED = 10_000
PARAMS = "params."
"""Prefix of query parameters that search by the parameters of jobs."""


async def job_page(
    app: Penstock,
    job_output: JobOutput,
    which: Mapping[str, Any],
    sort: str,
    limit: int,
    cursor: str | None,
    *,
    count: bool,
) -> str:
    """Return one page of the jobs that filters select."""
    job_output.refuse_secrets(which.get("params") or ())
    page = await app.ajobs(limit=limit, sort=sort, cursor=cursor, **which)
    await job_output.learn(page.jobs)
    facts: dict[str, Any] = {"nextCursor": page.next_cursor, "searched": page.searched}
    if count and cursor is None and page.next_cursor is None and sort.removeprefix("-") != "finishedAt":
        # The page holds all of them.
        facts |= {"count": len(page.jobs), "countCapped": False}
    elif count:
        counted = await app.acount_jobs(cap=_MOST_COUNTED, **which)
        facts |= {"count": max(counted.value, len(page.jobs)), "countCapped": counted.capped}
    else:
        facts |= {"count": None, "countCapped": None}
    return listed("jobs", [job_output.job(each) for each in page.jobs], **facts)


def searched_params(query: Mapping[str, str]) -> dict[str, str] | None:
    """Return the job parameters that a query searches by: params.orderId=7."""
    found = {name.removeprefix(PARAMS): value for name, value in query.items() if name.startswith(PARAMS)}
    return found or None


async def system(app: Penstock) -> str:
    """Return the state that holds for all definitions."""
    pause, (config, _), now = await asyncio.gather(
        app.asystem_pause(), app.aworker_config(), app.store.arun(admin.clock())
    )
    facts = {
        "pause": pause_facts(pause), "workersEnabled": config.enabled, "store": app.store.dialect,
        "now": iso(to_datetime(now)), "version": version(),
    }  # fmt: skip
    return spliced(facts, {})


async def stats(app: Penstock, since: datetime | None = None) -> str:
    """Return the number of jobs per status, and the figures since a time."""
    found = await app.astats(since=since)
    facts = {
        "at": iso(found.at),
        "since": iso(found.since),
        "counts": _counted(found.counts),
        "flow": _flow_facts(found.flow),
        "depth": found.depth,
        "throughput": found.throughput,
        "durations": _duration_facts(found.durations),
        "waits": _duration_facts(found.waits),
        "step": found.step,
        "definitions": [_definition_facts(each) for each in found.definitions],
        "minutes": [{"minute": iso(each.minute), "flow": _flow_facts(each.flow)} for each in found.minutes],
    }
    return spliced(facts, {})


async def alerts(app: Penstock) -> str:
    """Return the active alerts."""
    return listed("alerts", [spliced(alert_facts(each), {}) for each in await app.aalerts()])


async def workers(app: Penstock) -> str:
    """Return the workers that the store knows."""
    workers, definitions = await asyncio.gather(app.aworkers(), app.adefinitions_known())
    lanes = {row.lane: (row.definition.key, row.definition.version) for row in definitions}
    return listed("workers", [_worker_text(each, lanes) for each in workers])


def alert_facts(found: Alert) -> dict[str, Any]:
    return {
        "id": found.id, "kind": found.kind, "subject": found.subject, "message": found.message,
        "severity": found.severity, "since": iso(found.since),
    }  # fmt: skip


def pause_facts(pause: Pause | None) -> dict[str, Any] | None:
    """Return a pause as JSON fields."""
    if pause is None:
        return None
    return {
        "reason": pause.reason,
        "by": pause.by,
        "at": iso(to_datetime(pause.at)),
        "until": iso(maybe_datetime(pause.until)),
    }


def _counted(counts: Mapping[Status, int]) -> dict[str, int]:
    return {status: counts[status] for status in Status if counts.get(status)}


def _flow_facts(flow: figures.Flow) -> dict[str, int]:
    return {
        "queued": flow.queued, "started": flow.started, "succeeded": flow.succeeded, "failed": flow.failed,
        "cancelled": flow.cancelled, "retried": flow.retried, "lost": flow.lost,
    }  # fmt: skip


def _duration_facts(found: figures.Durations | None) -> dict[str, Any] | None:
    return None if found is None else {"average": found.average, "p95": found.p95, "sample": found.sample}


def _definition_facts(found: figures.DefinitionStats) -> dict[str, Any]:
    return {
        "definitionKey": found.definition_key,
        "counts": _counted(found.counts),
        "flow": _flow_facts(found.flow),
        "oldestRunAt": iso(found.oldest_run_at),
        "durations": _duration_facts(found.durations),
        "waits": _duration_facts(found.waits),
        "failedLastDay": found.failed_last_day,
    }


def _worker_text(worker: WorkerRow, lanes: Mapping[int, tuple[str, int]]) -> str:
    loaded = sorted(lanes[lane] for lane in worker.lanes if lane in lanes)
    facts = {
        "workerId": worker.id,
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "slots": worker.slots,
        "codeVersion": worker.code_version,
        "definitions": [{"key": key, "version": version} for key, version in loaded],
        "startedAt": iso(worker.started_at),
        "heartbeatAt": iso(worker.heartbeat_at),
        "leaseExpiresAt": iso(worker.lease_expires_at),
        "live": worker.live,
        "ended": worker.ended,
        "duties": [
            {
                "name": duty.name,
                "lastSuccessAge": duty.last_success_age,
                "errors": duty.errors,
                "lastError": duty.last_error,
            }
            for duty in worker.duties
        ],
    }
    return spliced(facts, {})


T = TypeVar("T")


def page(items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None) -> tuple[Sequence[T], str | None]:
    """Return the items after the cursor's key, and the cursor of the next page; None on the last page."""
    ordered = sorted(items, key=key)
    begin = 0 if cursor is None else bisect_right(ordered, cursor, key=key)
    chosen = ordered[begin : begin + limit]
    return chosen, key(chosen[-1]) if begin + limit < len(ordered) else None


def seq_of(cursor: str | None, what: str) -> int | None:
    """Return the number in a cursor, for lists whose rows are numbered."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput(
            f"{cursor[:80]!r} is not a cursor of the {what}.",
            hint=Hint(
                "Take it from the previous page.",
                cli="Take it from the line below the previous page: --cursor N.",
                http="Take it from `nextCursor`.",
            ),
        )
    return int(cursor)
