"""`/docs`: the API's own description as a page without script, from this server alone."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.openapi.page import POLICY, page
from penstock.http.routing import Route, endpoint

router: APIRouter = APIRouter(route_class=Route)


@endpoint(
    router, "GET", "/docs", role=None, answer=None,
    also={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)  # fmt: skip
async def show_docs(request: Request) -> Response:
    """This document, for people."""
    text = page(request.app.openapi(), request.scope.get("root_path", ""))
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": POLICY})
