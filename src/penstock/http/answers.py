"""Answers of routes that commands ask on a store, too: JSON text, made without the web framework."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.app import Penstock
from penstock.domain import stats as figures
from penstock.domain.alerts import Alert
from penstock.domain.definition import Pause
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.job_json import iso, listed, spliced
from penstock.domain.release import version
from penstock.domain.states import Status
from penstock.domain.worker import WorkerRow
from penstock.http.job_output import Shaper
from penstock.storage.commands import admin

_MOST_COUNTED = 10_000
PARAMS = "params."
"""With what the names of query parameters begin that search by the parameters of jobs."""


async def job_page(
    app: Penstock, shaper: Shaper, which: Mapping[str, Any], sort: str, limit: int, cursor: str | None, *, count: bool
) -> str:
    """One page of jobs that filters select."""
    shaper.refuse_secrets(which.get("params") or ())
    page = await app.ajobs(limit=limit, sort=sort, cursor=cursor, **which)
    await shaper.learn(page.jobs)
    facts: dict[str, Any] = {"nextCursor": page.next_cursor, "searched": page.searched}
    if count and cursor is None and page.next_cursor is None and sort.removeprefix("-") != "finishedAt":
        # All of them are there.
        facts |= {"count": len(page.jobs), "countCapped": False}
    elif count:
        counted = await app.acount_jobs(cap=_MOST_COUNTED, **which)
        facts |= {"count": max(counted.value, len(page.jobs)), "countCapped": counted.capped}
    else:
        facts |= {"count": None, "countCapped": None}
    return listed("jobs", [shaper.job(each) for each in page.jobs], **facts)


def searched_params(query: Mapping[str, str]) -> dict[str, str] | None:
    """The parameters that a query searches by: params.orderId=7."""
    found = {name.removeprefix(PARAMS): value for name, value in query.items() if name.startswith(PARAMS)}
    return found or None


async def system(app: Penstock) -> str:
    """What holds for all definitions."""
    pause, (config, _), now = await asyncio.gather(
        app.asystem_pause(), app.aworker_config(), app.store.arun(admin.clock())
    )
    facts = {
        "pause": pause_facts(pause), "workersEnabled": config.enabled, "store": app.store.dialect,
        "now": iso(to_datetime(now)), "version": version(),
    }  # fmt: skip
    return spliced(facts, {})


async def stats(app: Penstock, since: datetime | None = None) -> str:
    """How many jobs have each status, and what happened since a time."""
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
    """What needs attention now."""
    return listed("alerts", [spliced(alert_facts(each), {}) for each in await app.aalerts()])


async def workers(app: Penstock) -> str:
    """The workers that the store knows."""
    workers, definitions = await asyncio.gather(app.aworkers(), app.adefinitions_known())
    lanes = {row.lane: (row.definition.key, row.definition.version) for row in definitions}
    return listed("workers", [_worker_text(each, lanes) for each in workers])


def alert_facts(found: Alert) -> dict[str, Any]:
    return {
        "id": found.id, "kind": found.kind, "subject": found.subject, "message": found.message,
        "severity": found.severity, "since": iso(found.since),
    }  # fmt: skip


def pause_facts(pause: Pause | None) -> dict[str, Any] | None:
    """A pause, ready for JSON."""
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
