"""A shorter path to the routes that create jobs: past the framework, through the same checks and handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.domain.access import Role
from penstock.domain.errors import PenstockError
from penstock.http.authentication import Caller, admit
from penstock.http.body_limits import BATCH
from penstock.http.errors import answer_error
from penstock.http.paths import route_path
from penstock.http.routes.jobs import start_batch, start_job
from penstock.http.routing import check_media, check_query

if TYPE_CHECKING:
    from fastapi import FastAPI

_Handler = Callable[[Request, Caller], Awaitable[Response]]


class FastPath:
    """Handles creation of jobs without the framework, which costs more than the commit."""

    def __init__(self, slow: ASGIApp, web: FastAPI) -> None:
        self._slow = slow
        self._web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handler(scope)
        if handler is None:
            await self._slow(scope, receive, send)
            return
        scope["app"] = self._web
        request = _Request(scope, receive)
        try:
            caller = await admit(request, Role.CREATOR)
            check_query(request)
            check_media(request, needs_body=True)
            response = await handler(request, caller)
        except (PenstockError, HTTPException) as error:
            response = await answer_error(request, error)
        await response(scope, receive, send)

    def _handler(self, scope: Scope) -> _Handler | None:
        return _HANDLERS.get(route_path(scope)) if scope["method"] == "POST" else None


_HANDLERS: dict[str, _Handler] = {"/v1/jobs": start_job, BATCH: start_batch}


class _Request(Request):
    """A request with headers indexed once and a plain loop to read the body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._headers = _Headers(scope)

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            parts: list[bytes] = []
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                more = message.get("more_body", False)
            self._body = b"".join(parts)
        return self._body


class _Headers(Headers):
    """Headers by name; the first value if one was sent several times."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._first = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(self._list)}

    def get(self, key: str, default: Any = None) -> Any:
        return self._first.get(key, default)

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def __contains__(self, key: Any) -> bool:
        return key in self._first
