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
    """What one dispatch cycle did."""

    @property
    def processed(self) -> int: ...

    @property
    def errors(self) -> int: ...


Trigger = Callable[[], Awaitable[DispatchPass]]


class ServerState:
    """The application that a server speaks for, with everything its routes need."""

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
        """Who makes all requests, where they come from this very process; such a caller may do everything."""
        self.settings = settings
        self.trigger = trigger
        self.token_policy: TokenPolicy = TokenPolicy(app, settings, setup_code)
        self.bodies: BodiesInFlight = BodiesInFlight(settings)
        self.job_creator: JobCreator = JobCreator(app, settings)
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
            self.openapi_schema = openapi.completed(super().openapi())
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
    # What other origins may do is for the framework to say.
    web.guard = Guard(web.unguarded if settings.origins else FastPath(web.unguarded, web), settings, server.bodies)
    for router in _ROUTERS:
        web.include_router(router)
    # Not a route: a path that the API knows keeps its 405 for a wrong method.
    web.router.default = Dashboard(web.router.default)
    return web
