"""The ASGI application: all routes over one penstock application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from penstock.app import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.errors import PenstockError
from penstock.http.dashboard import Pages
from penstock.http.errors import answer_fault, answer_refusal
from penstock.http.fast_path import FastPath
from penstock.http.middleware import Guard
from penstock.http.openapi.document import completed
from penstock.http.routes import (
    audit,
    definitions,
    events,
    figures,
    health,
    jobs,
    pages,
    schedules,
    session,
    system,
    tokens,
    webhooks,
    workers,
)
from penstock.http.server_state import Site, Trigger
from penstock.http.validation import answer_validation

_ROUTERS = (
    jobs.router,
    events.router,
    definitions.router,
    system.router,
    schedules.router,
    workers.router,
    figures.router,
    audit.router,
    tokens.router,
    session.router,
    webhooks.router,
    health.for_all,
    health.router,
    pages.router,
)
_DESCRIPTION = """Durable background jobs over HTTP. Every error has the same shape, with a stable code.
Times are ISO 8601 in UTC. Whatever is created or changed here is committed when the answer comes."""


class Application(FastAPI):
    """The framework's application behind our guard."""

    guard: Guard
    openapi_schema: dict[str, Any] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.guard(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The document, which is worked out once."""
        if self.openapi_schema is None:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema

    async def unguarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What the guard has let through."""
        await super().__call__(scope, receive, send)


def create(
    app: Penstock, settings: WebSettings | None = None, *, trigger: Trigger | None = None, trusted: str | None = None,
    setup_code: str | None = None,
) -> Application:  # fmt: skip
    """The API of an application as an ASGI application, to be served or to be mounted in another one.

    `trigger` does one dispatch cycle, where there is an engine that can. `trusted` names the one caller of an
    application that is never served: whoever can call it has the store already, and may do everything.
    `setup_code` is what callers of this host show to make the first token; without it, the command line makes it.
    """
    settings = settings or WebSettings()
    site = Site(app, settings, trigger, trusted, setup_code)
    middleware: list[Middleware] = []
    if settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.origins),
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "If-Match", "Last-Event-ID", "X-Request-Id"],
                expose_headers=["ETag", "Location", "Retry-After", "X-Request-Id"],
            )
        )
    web = Application(
        title="penstock",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        middleware=middleware,
        redirect_slashes=False,
        exception_handlers={
            PenstockError: answer_refusal,
            HTTPException: answer_refusal,
            RequestValidationError: answer_validation,
            Exception: answer_fault,
        },
    )
    web.state.site = site
    # What other origins may do is for the framework to say.
    web.guard = Guard(web.unguarded if settings.origins else FastPath(web.unguarded, web), settings, site.bodies)
    for router in _ROUTERS:
        web.include_router(router)
    # Not a route: a path that the API knows keeps its 405 for a wrong method.
    web.router.default = Pages(web.router.default)
    return web
