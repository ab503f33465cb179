"""`/v1/stats`, `/v1/errors` and `/v1/alerts`: how it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from penstock.core import stats as figures
from penstock.core.access import Role
from penstock.core.alerts import Alert, StoredAlert
from penstock.core.shape import iso, listed, spliced
from penstock.core.transitions import Status
from penstock.web.callers import Call
from penstock.web.paging import seq_of
from penstock.web.routing import Route, endpoint, json_text
from penstock.web.shapes import figures as shapes
from penstock.web.shapes.base import Moment, PageLimit, Truth

router = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/stats", role=Role.VIEWER, answer=shapes.Stats)
async def get_stats(
    call: Call,
    since: Annotated[
        Moment | None, Query(description="An hour ago by default, 90 days at most; beyond a day, `minutes` are hours.")
    ] = None,
) -> Response:
    """How many jobs stand where, and what happened since a time."""
    found = await call.app.astats(since=since)
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
    return json_text(spliced(facts, {}))


@endpoint(router, "GET", "/v1/errors", role=Role.VIEWER, answer=shapes.ErrorList)
async def list_errors(
    call: Call,
    since: Annotated[Moment | None, Query(description="A day ago by default.")] = None,
    limit: Annotated[PageLimit, Query()] = 50,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """Failures, those that look alike together; `/v1/jobs?fingerprint=` lists the jobs of one."""
    found = await call.app.aerrors(since=since, limit=limit, cursor=cursor)
    texts = [_error_text(each) for each in found.errors]
    return json_text(listed("errors", texts, nextCursor=found.cursor, capped=found.capped))


@endpoint(router, "GET", "/v1/alerts", role=Role.VIEWER, answer=shapes.AlertList)
async def list_alerts(call: Call) -> Response:
    """What somebody should look at now."""
    return json_text(listed("alerts", [spliced(_alert_facts(each), {}) for each in await call.app.aalerts()]))


@endpoint(router, "GET", "/v1/alerts/history", role=Role.VIEWER, answer=shapes.AlertHistory)
async def list_past_alerts(
    call: Call,
    cleared: Annotated[
        Truth | None, Query(description="Only those that were cleared, or only those that stand.")
    ] = None,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """The alerts that were raised, the newest first."""
    found = await call.app.aalert_history(cleared=cleared, limit=limit, before=seq_of(cursor, "alerts"))
    following = str(found[-1].seq) if len(found) == limit else None
    return json_text(listed("alerts", [_past_alert_text(each) for each in found], nextCursor=following))


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
        "definitionKey": found.definition,
        "counts": _counted(found.counts),
        "flow": _flow_facts(found.flow),
        "oldestDueAt": iso(found.oldest_due_at),
        "durations": _duration_facts(found.durations),
        "waits": _duration_facts(found.waits),
        "failedLastDay": found.failed_last_day,
    }


def _error_text(found: figures.ErrorGroup) -> str:
    facts = {
        "fingerprint": found.fingerprint,
        "definitionKey": found.definition,
        "type": found.error_type,
        "message": found.error,
        "jobs": found.jobs,
        "attempts": found.attempts,
        "firstAt": iso(found.first_at),
        "lastAt": iso(found.last_at),
        "jobId": found.job_id,
    }
    return spliced(facts, {})


def _alert_facts(found: Alert) -> dict[str, Any]:
    return {
        "id": found.id, "kind": found.kind, "subject": found.subject, "message": found.message,
        "severity": found.severity, "since": iso(found.since),
    }  # fmt: skip


def _past_alert_text(found: StoredAlert) -> str:
    told = {"seq": found.seq, "raisedAt": iso(found.raised_at), "clearedAt": iso(found.cleared_at)}
    return spliced({**_alert_facts(found.alert), **told}, {})
