"""`/v1/audit`: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.admin import AuditEntry
from penstock.domain.job_json import iso, listed, spliced
from penstock.http.authentication import Call
from penstock.http.paging import seq_of
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import figures as shapes
from penstock.http.schemas.base import PageLimit

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/audit", role=Role.VIEWER, answer=shapes.AuditList)
async def list_audit(
    call: Call,
    actor: Annotated[str | None, Query()] = None,
    action: Annotated[str | None, Query(description="Such as `definition.pause`.")] = None,
    target: Annotated[str | None, Query()] = None,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """What was changed by whom, the newest first."""
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
