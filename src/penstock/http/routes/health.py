"""`/healthz`, `/readyz` and `/metrics`: liveness, readiness and metrics of a server."""

from __future__ import annotations

import asyncio
import logging
import math
import time

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.app import Penstock
from penstock.domain.access import Role
from penstock.domain.errors import PenstockError
from penstock.domain.job_json import spliced
from penstock.http.authentication import Call
from penstock.http.errors import RequestError
from penstock.http.headers import OPEN_METRICS, wants_open_metrics
from penstock.http.routing import Route, RouteForAll, endpoint, json_text
from penstock.http.schemas import monitoring as shapes
from penstock.storage import ports

_FRESH = 2.0
"""Seconds for which an answer of the store is cached."""
_PATIENCE = 5.0
_MANY = 1_000_000
_ALWAYS = 2**62
_log = logging.getLogger("penstock.http")


class Readiness:
    """Tells whether the store is ready; callers at the same moment share one check."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._known: tuple[float, str | None] = (-math.inf, None)
        self._looking: asyncio.Task[str | None] | None = None

    async def problem(self) -> str | None:
        """Return why the store is not ready; None if it is."""
        looked_at, problem = self._known
        if time.monotonic() - looked_at < _FRESH:
            return problem
        looking = self._looking
        if looking is None or looking.done() or looking.get_loop() is not asyncio.get_running_loop():
            looking = self._looking = asyncio.create_task(self._look())
        # A caller that disconnects does not end the check that others wait for.
        return await asyncio.shield(looking)

    async def _look(self) -> str | None:
        _, before = self._known
        problem = await self._found()
        self._known = time.monotonic(), problem
        if problem is not None and problem != before:
            _log.warning("The store is not ready: %s", problem)
        return problem

    async def _found(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                # The check writes a row, so a read-only store is not ready.
                await self._app.tokens.atake_allowance("readyz", _MANY, 1)
                lanes = [each.lane for each in await self._app.definitions.alist()]
                await self._app.store.arun(ports.jobs.claimable(lanes, _ALWAYS))
        except TimeoutError:
            return f"The store has not answered for {_PATIENCE:g} s."
        except PenstockError as error:
            return error.message
        return None


router: APIRouter = APIRouter(route_class=Route)
for_all: APIRouter = APIRouter(route_class=RouteForAll)


@endpoint(for_all, "GET", "/healthz", role=None, answer=shapes.Alive)
async def healthz() -> Response:
    """Report that the process and its event loop run; the store is not asked."""
    return json_text(spliced({"status": "ok"}, {}))


@endpoint(router, "GET", "/readyz", role=None, answer=shapes.Ready)
async def readyz(call: Call) -> Response:
    """Report whether the store accepts writes and claims; with a token the answer says why not."""
    problem = await call.server.readiness.problem()
    if problem is not None:
        # The problem may name hosts and databases.
        known = call.role is not None
        raise RequestError(
            "unavailable",
            problem if known else "The store is not ready.",
            hint="The server keeps trying."
            if known
            else "With a token this answer says why; so does the server's log.",
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
    """Return metrics in the text format of Prometheus, or of OpenMetrics if asked for."""
    # Imported on first use: a server without scrapes starts without the library.
    from penstock.http import metrics as exposing

    counts, workers, alerts, totals = await asyncio.gather(
        call.app.monitoring.acounts(),
        call.app.workers.alist(),
        call.app.monitoring.aalerts(),
        call.app.monitoring.atotals(),
    )
    is_open = wants_open_metrics(request.headers.getlist("accept"))
    text = exposing.exposition(counts, workers, alerts, totals, is_open=is_open)
    return Response(text, media_type=exposing.OPEN_TEXT if is_open else exposing.TEXT)
