"""`/v1/stats`, `/v1/errors`, `/v1/alerts` and `/v1/audit`: figures, failures, alerts and changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from penstock.domain import stats as figures
from penstock.domain.access import AuditEntry, Role
from penstock.domain.alerts import StoredAlert
from penstock.domain.job_json import iso, listed, spliced
from penstock.http import answers
from penstock.http.answers import seq_of
from penstock.http.authentication import Call
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import monitoring as shapes
from penstock.http.schemas.base import Moment, PageLimit, Truth

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/stats", role=Role.VIEWER, answer=shapes.Stats)
async def get_stats(
    call: Call,
    since: Annotated[
        Moment | None, Query(description="An hour ago by default, 90 days at most; beyond a day, `minutes` are hours.")
    ] = None,
) -> Response:
    """Count jobs by status, and summarise what happened since a time."""
    return json_text(await answers.stats(call.app, since))


@endpoint(router, "GET", "/v1/errors", role=Role.VIEWER, answer=shapes.ErrorList)
async def list_errors(
    call: Call,
    since: Annotated[Moment | None, Query(description="A day ago by default.")] = None,
    limit: Annotated[PageLimit, Query()] = 50,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List failures, grouped by cause; `/v1/jobs?fingerprint=` lists the jobs of one group."""
    found = await call.app.aerrors(since=since, limit=limit, cursor=cursor)
    texts = [_error_text(each) for each in found.errors]
    return json_text(listed("errors", texts, nextCursor=found.next_cursor, capped=found.capped))


@endpoint(router, "GET", "/v1/alerts", role=Role.VIEWER, answer=shapes.AlertList)
async def list_alerts(call: Call) -> Response:
    """List the active alerts."""
    return json_text(await answers.alerts(call.app))


@endpoint(router, "GET", "/v1/alerts/history", role=Role.VIEWER, answer=shapes.AlertHistory)
async def list_past_alerts(
    call: Call,
    cleared: Annotated[Truth | None, Query(description="Only cleared alerts, or only active ones.")] = None,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List the alerts that were raised, the newest first."""
    found = await call.app.aalert_history(cleared=cleared, limit=limit, before=seq_of(cursor, "alerts"))
    following = str(found[-1].seq) if len(found) == limit else None
    return json_text(listed("alerts", [_past_alert_text(each) for each in found], nextCursor=following))


def _error_text(found: figures.ErrorGroup) -> str:
    facts = {
        "fingerprint": found.fingerprint,
        "definitionKey": found.definition_key,
        "type": found.error_type,
        "message": found.error,
        "jobs": found.jobs,
        "attempts": found.attempts,
        "firstAt": iso(found.first_at),
        "lastAt": iso(found.last_at),
        "jobId": found.job_id,
    }
    return spliced(facts, {})


def _past_alert_text(found: StoredAlert) -> str:
    history = {"seq": found.seq, "raisedAt": iso(found.raised_at), "clearedAt": iso(found.cleared_at)}
    return spliced({**answers.alert_facts(found.alert), **history}, {})


@endpoint(router, "GET", "/v1/audit", role=Role.VIEWER, answer=shapes.AuditList)
async def list_audit(
    call: Call,
    actor: Annotated[str | None, Query()] = None,
    action: Annotated[str | None, Query(description="Such as `definition.pause`.")] = None,
    target: Annotated[str | None, Query()] = None,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List changes and their actors, the newest first."""
    entries = await call.app.aaudit(
        limit=limit, before=seq_of(cursor, "audit"), actor=actor or None, action=action or None, target=target or None
    )
    following = str(entries[-1].seq) if len(entries) == limit else None
    return json_text(listed("audit", [_text(each) for each in entries], nextCursor=following))


def _text(entry: AuditEntry) -> str:
    facts = {
        "seq": entry.seq, "at": iso(entry.at), "actor": entry.actor, "action": entry.action, "target": entry.target,
        "requestId": entry.request_id,
    }  # fmt: skip
    return spliced(facts, {"before": entry.before or "null", "after": entry.after or "null"})
