"""`/healthz`, `/readyz` and `/metrics`: for those who watch servers."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.job_json import spliced
from penstock.http.authentication import Call
from penstock.http.content_negotiation import OPEN_METRICS, wants_open_metrics
from penstock.http.errors import Refusal
from penstock.http.routing import Route, RouteForAll, endpoint, json_text
from penstock.http.schemas import health as shapes

router: APIRouter = APIRouter(route_class=Route)
for_all: APIRouter = APIRouter(route_class=RouteForAll)


@endpoint(for_all, "GET", "/healthz", role=None, answer=shapes.Alive)
async def healthz() -> Response:
    """Whether the process and its loop live; the store is not asked, so its outage changes nothing here."""
    return json_text(spliced({"status": "ok"}, {}))


@endpoint(router, "GET", "/readyz", role=None, answer=shapes.Ready)
async def readyz(call: Call) -> Response:
    """Whether the store takes what is written and gives jobs to those who ask; with a token it says why not."""
    problem = await call.site.readiness.problem()
    if problem is not None:
        # It may name hosts and databases.
        known = call.role is not None
        raise Refusal(
            "unavailable",
            problem if known else "The store is not ready.",
            hint="The server goes on trying."
            if known
            else "With a token this answer says why, as does the server's log.",
            headers={"Retry-After": "1"},
        )
    return json_text(spliced({"status": "ready"}, {}))


@endpoint(
    router, "GET", "/metrics", role=Role.VIEWER, answer=None,
    also={200: {
        "description": "The metrics; with `Accept: application/openmetrics-text` in that format.",
        "content": {name: {"schema": {"type": "string"}} for name in ("text/plain", OPEN_METRICS)},
    }},
)  # fmt: skip
async def metrics(request: Request, call: Call) -> Response:
    """Figures in the text format of Prometheus, or of OpenMetrics where it is asked for."""
    # A server that nobody scrapes starts without the library behind it.
    from penstock.http import metrics as exposing

    counts, workers, alerts, totals = await asyncio.gather(
        call.app.acounts(), call.app.aworkers(), call.app.aalerts(), call.app.atotals()
    )
    is_open = wants_open_metrics(request.headers.getlist("accept"))
    text = exposing.exposition(counts, workers, alerts, totals, is_open=is_open)
    return Response(text, media_type=exposing.OPEN_TEXT if is_open else exposing.TEXT)
