"""`/v1/system`: what holds for all definitions at once."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.http import answers
from penstock.http.authentication import Call, Caller
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import definitions as shapes

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "GET", "/v1/system", role=Role.VIEWER, answer=shapes.System)
async def get_system(call: Call) -> Response:
    """Whether the whole system is paused, and whether workers take jobs."""
    return await _told(call)


@endpoint(router, "POST", "/v1/system/pause", role=Role.ADMIN, answer=shapes.System)
async def pause_system(call: Call, asked: shapes.PauseAsked) -> Response:
    """Start no job of any definition until all is resumed, or until a time."""
    await call.app.apause_all(asked.reason, until=asked.until, by=call.by)
    return await _told(call)


@endpoint(router, "POST", "/v1/system/resume", role=Role.ADMIN, answer=shapes.System)
async def resume_system(call: Call) -> Response:
    """End the pause of the whole system; definitions that are paused by themselves stay so."""
    await call.app.aresume_all(by=call.by)
    return await _told(call)


async def _told(call: Caller) -> Response:
    return json_text(await answers.system(call.app))
