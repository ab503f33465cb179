"""The outermost layer: limits on the request line and headers, request ids, and security headers of every answer."""

from __future__ import annotations

import itertools
import logging
import re
import secrets

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.config.server_settings import WebSettings
from penstock.domain.webhook.endpoint import USER_AGENT
from penstock.http.body_limits import BodiesInFlight, RequestBody, declared_length, max_body_bytes, too_large
from penstock.http.errors import RequestError, internal_error
from penstock.http.paths import mark_quoted_slashes, put_below

log: logging.Logger = logging.getLogger("penstock.http")

_Marks = tuple[tuple[bytes, bytes], ...]
MARKS: _Marks = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""Security headers of every answer that does not set them itself."""
_SENDER = USER_AGENT.encode()
_MARKED = frozenset(name for name, _ in MARKS)
_PLAIN = re.compile(rb"[A-Za-z0-9._:-]{1,100}")
_PROCESS = secrets.token_hex(6)
_numbers = itertools.count(1)
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guard:
    """Refuses requests that no route should get, and adds the request id and security headers to every answer."""

    def __init__(self, app: ASGIApp, settings: WebSettings, bodies: BodiesInFlight) -> None:
        self._app = app
        self._settings = settings
        self._bodies = bodies
        self._secure_marks = MARKS
        if settings.hsts_seconds:
            transport = b"strict-transport-security", b"max-age=%d" % settings.hsts_seconds
            self._secure_marks = (*MARKS, transport)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._settings.root_path:
            put_below(scope, self._settings.root_path)
        mark_quoted_slashes(scope)
        request_id = _request_id(scope["headers"])
        scope.setdefault("state", {})["request_id"] = request_id
        marks = self._secure_marks if scope.get("scheme") == "https" else MARKS
        begun = ended = False

        async def send_marked(message: Message) -> None:
            nonlocal begun, ended
            if message["type"] == "http.response.start":
                begun = True
                _mark(message, request_id, marks)
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)

        body = RequestBody(self._bodies, scope, receive, max_body_bytes(scope, self._settings))
        try:
            self._check(scope)
            await self._app(scope, body if scope["method"] in _METHODS_WITH_BODY else receive, send_marked)
        except RequestError as refusal:
            if begun:
                raise
            await refusal.answer()(scope, receive, send_marked)
        except ClientDisconnect:
            # The client has disconnected: there is no one to answer.
            return
        except Exception as error:
            log.exception("request %s failed: %s", request_id, type(error).__name__)
            if not begun:
                await internal_error(request_id)(scope, receive, send_marked)
            elif not ended:
                raise
        finally:
            body.give_back()

    def _check(self, scope: Scope) -> None:
        settings, headers = self._settings, scope["headers"]
        target = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
        if target > settings.max_target:
            raise RequestError(
                "target_too_long", f"Path and query have {target} bytes; {settings.max_target} are accepted."
            )
        size = sum(len(name) + len(value) for name, value in headers)
        if len(headers) > settings.max_headers or size > settings.max_header_bytes:
            raise RequestError(
                "headers_too_large",
                f"{len(headers)} headers with {size} bytes were sent; {settings.max_headers} headers with "
                f"{settings.max_header_bytes} bytes are accepted.",
            )
        if (b"user-agent", _SENDER) in headers:
            raise RequestError(
                "forbidden",
                "This is a webhook of penstock, and a penstock server does not accept webhooks.",
                hint="Its URL points to this server: change the URL.",
            )
        if b"\x00" in (scope.get("raw_path") or b"") or "\x00" in scope["path"] or "\ufffd" in scope["path"]:
            raise RequestError("malformed", "The path contains a NUL or is not UTF-8.")
        if declared_length(headers) > (most := max_body_bytes(scope, self._settings)):
            raise too_large(most)


def new_request_id() -> str:
    """Return an id for a request without one."""
    return f"{_PROCESS}{next(_numbers):x}"


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the caller's id for the request if it is well-formed, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _PLAIN.fullmatch(value):
            return value.decode()
    return new_request_id()


def _mark(message: Message, request_id: str, marks: _Marks) -> None:
    headers: list[tuple[bytes, bytes]] = message.setdefault("headers", [])
    there = {name for name, _ in headers}
    headers.append((b"x-request-id", request_id.encode()))
    headers += marks if there.isdisjoint(_MARKED) else [each for each in marks if each[0] not in there]
