"""`/healthz`, `/readyz` and `/metrics`: for those who watch servers."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT
from starlette.responses import Response

from penstock.core.access import Role
from penstock.core.errors import PenstockError
from penstock.core.shape import spliced
from penstock.stores import ports
from penstock.web.callers import Call
from penstock.web.metrics import exposition
from penstock.web.refusals import Refusal
from penstock.web.routing import Route, endpoint, json_text
from penstock.web.shapes import health as shapes

router = APIRouter(route_class=Route)
_PATIENCE = 5.0
_MANY = 1_000_000
_ALWAYS = 2**62


@endpoint(router, "GET", "/healthz", role=None, answer=shapes.Alive)
async def healthz() -> Response:
    """Whether the process answers at all."""
    return json_text(spliced({"status": "ok"}, {}))


@endpoint(router, "GET", "/readyz", role=None, answer=shapes.Ready)
async def readyz(call: Call) -> Response:
    """Whether the store takes what is written and gives jobs to those who ask, and if not, why."""
    try:
        async with asyncio.timeout(_PATIENCE):
            # It writes a row of its own, so that a store that can only be read is not ready.
            await call.app.atake_allowance("readyz", _MANY, 1)
            lanes = [each.lane for each in await call.app.adefinitions_known()]
            await call.app.store.arun(ports.jobs.claimable(lanes, _ALWAYS))
    except TimeoutError:
        raise _not_ready(f"The store has not answered for {_PATIENCE:g} s.") from None
    except PenstockError as error:
        raise _not_ready(error.message) from None
    return json_text(spliced({"status": "ready"}, {}))


@endpoint(
    router, "GET", "/metrics", role=Role.VIEWER, answer=None,
    also={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)  # fmt: skip
async def metrics(call: Call) -> Response:
    """Figures in the text format of Prometheus."""
    counts, workers, alerts, totals = await asyncio.gather(
        call.app.acounts(), call.app.aworkers(), call.app.aalerts(), call.app.atotals()
    )
    return Response(exposition(counts, workers, alerts, totals), media_type=TEXT)


def _not_ready(why: str) -> Refusal:
    return Refusal("unavailable", why, hint="The server goes on trying.", headers={"Retry-After": "1"})
