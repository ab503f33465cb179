"""The ASGI application: all routes over one penstock application, and the state that they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from penstock.app import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.errors import PenstockError
from penstock.http import openapi
from penstock.http.authentication import TokenPolicy
from penstock.http.body_limits import BodiesInFlight
from penstock.http.dashboard import Dashboard
from penstock.http.errors import answer_error, answer_unexpected
from penstock.http.fast_path import FastPath
from penstock.http.job_creation import JobCreator
from penstock.http.job_output import JobOutput
from penstock.http.middleware import Guard
from penstock.http.routes import (
    definitions,
    events,
    health,
    jobs,
    monitoring,
    schedules,
    tokens,
    webhooks,
    workers,
)
from penstock.http.routes.health import Readiness
from penstock.http.streaming.event_pages import EventPages
from penstock.http.streaming.hub import Hub
from penstock.http.validation import answer_validation


class DispatchPass(Protocol):
    """The result of one dispatch cycle."""

    @property
    def processed(self) -> int: ...

    @property
    def errors(self) -> int: ...


Trigger = Callable[[], Awaitable[DispatchPass]]


class ServerState:
    """State that the routes of one server share."""

    def __init__(
        self,
        app: Penstock,
        settings: WebSettings,
        trigger: Trigger | None,
        trusted: str | None = None,
        setup_code: str | None = None,
    ) -> None:
        self.app = app
        self.trusted = trusted
        """The actor of all requests when they come from this process; such a caller may do everything."""
        self.settings = settings
        self.trigger = trigger
        self.token_policy: TokenPolicy = TokenPolicy(app, settings, setup_code)
        self.bodies: BodiesInFlight = BodiesInFlight(settings)
        self.job_creator: JobCreator = JobCreator(app.session, settings)
        self.readiness: Readiness = Readiness(app)
        self.job_output: JobOutput = JobOutput(app, settings.secrets)
        self.streams: Hub = Hub(app, EventPages(app, self.job_output), settings)


_ROUTERS = (
    jobs.router,
    events.router,
    definitions.router,
    schedules.router,
    workers.router,
    monitoring.router,
    tokens.router,
    webhooks.router,
    health.for_all,
    health.router,
    openapi.router,
)
_DESCRIPTION = """Durable background jobs over HTTP. Every error has the same shape, with a stable code.
Times are ISO 8601 in UTC. A change is committed before its answer is sent."""


class Application(FastAPI):
    """The FastAPI application wrapped by the guard."""

    guard: Guard
    openapi_schema: dict[str, Any] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.guard(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the document, which is generated once."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.completed(super().openapi())
        return self.openapi_schema

    async def unguarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request that the guard has admitted."""
        await super().__call__(scope, receive, send)


def create(
    app: Penstock, settings: WebSettings | None = None, *, trigger: Trigger | None = None, trusted: str | None = None,
    setup_code: str | None = None,
) -> Application:  # fmt: skip
    """Make the HTTP API of an application as an ASGI application, to be served or mounted in another one.

    `trigger` runs one dispatch cycle, if there is an engine. `trusted` names the only caller of an application that is
    never served: it has access to the store already, and may do everything. Callers on this host send `setup_code` to
    create the first token; without it, only the command line can create it.

    """
    settings = settings or WebSettings()
    server = ServerState(app, settings, trigger, trusted, setup_code)
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
            PenstockError: answer_error,
            HTTPException: answer_error,
            RequestValidationError: answer_validation,
            Exception: answer_unexpected,
        },
    )
    web.state.server = server
    # With other origins allowed, the framework handles CORS for every route.
    web.guard = Guard(web.unguarded if settings.origins else FastPath(web.unguarded, web), settings, server.bodies)
    for router in _ROUTERS:
        web.include_router(router)
    # As the default, not a route: a known path keeps its 405 for a wrong method.
    web.router.default = Dashboard(web.router.default)
    return web
