"""Errors of the HTTP API: one shape, and a stable code for each kind."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from penstock.domain import errors
from penstock.domain.errors import PenstockError, Reader, hint_for

log: logging.Logger = logging.getLogger("penstock.http")

CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request is not well-formed."),
    "unauthenticated": (401, "No valid token was given."),
    "forbidden": (403, "The token's role does not allow this."),
    "not_found": (404, "It does not exist, or no longer exists."),
    "method_not_allowed": (405, "The route does not have this method."),
    "not_acceptable": (406, "The answer is not available in a format that was asked for."),
    "timeout": (408, "The request was not sent in time."),
    "conflict": (409, "Its state does not allow this."),
    "idempotency_conflict": (409, "The idempotency key was used before with other parameters."),
    "feed_gone": (410, "Events after this cursor were deleted."),
    "revision_conflict": (412, "It was changed after it was read."),
    "too_large": (413, "The request is larger than the server accepts."),
    "target_too_long": (414, "Path and query are longer than the server accepts."),
    "unsupported_media_type": (415, "Bodies must be application/json, not compressed."),
    "misdirected": (421, "The server does not have the name that the request was sent to."),
    "invalid_request": (422, "A field or query parameter is wrong or unknown."),
    "invalid_params": (422, "The parameters do not match the definition, or are not valid JSON."),
    "invalid_schedule": (422, "The schedule is not valid."),
    "rate_limited": (429, "Too many requests; the header Retry-After says when to retry."),
    "headers_too_large": (431, "The headers are larger than the server accepts."),
    "internal": (500, "An internal error; the server's log has the request id."),
    "unavailable": (503, "The store does not answer; the request may be repeated."),
    "too_many_streams": (503, "The server has reached its limit of open streams."),
    "store_full": (507, "The disk of the store is full; nothing was written."),
}
"""Every error code with its status and meaning."""

_BY_STATUS = {400: "malformed", 404: "not_found", 405: "method_not_allowed", 406: "not_acceptable", 413: "too_large"}
READER = "penstock-reader"
"""The header by which the command line asks for hints that name commands."""
_LATER = {"Retry-After": "1"}


class RequestError(HTTPException):
    """An error answer; raised wherever a request cannot be served."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(CODES[code][0], message, dict(headers or {}))
        self.code = code
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})

    def answer(self, reader: Reader = "http") -> Response:
        hint = hint_for(reader, self.hint)
        return error_response(self.code, self.detail, hint, self.details, self.headers)


def request_error_of(error: PenstockError) -> RequestError:
    """Convert an error of the library."""
    code = error.code if error.code in CODES else "internal"
    details: dict[str, Any] = {}
    if isinstance(error, errors.InvalidPayload):
        details["path"] = error.path
    if isinstance(error, errors.NotFound):
        details |= {"kind": error.kind, "name": error.name[:200]}
    if isinstance(error, errors.Conflict) and error.job_id is not None:
        details["jobId"] = error.job_id
    headers = _LATER if code == "unavailable" else {"WWW-Authenticate": "Bearer"} if code == "unauthenticated" else None
    return RequestError(code, error.message, hint=error.hint, details=details, headers=headers)


def error_response(
    code: str,
    message: str,
    hint: str = "",
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error in the shape that all errors have."""
    body = {"error": {"code": code, "message": message, "hint": hint, "details": dict(details or {})}}
    # Text from a header may not be encodable as UTF-8.
    text = json.dumps(body, ensure_ascii=False).encode(errors="replace")
    return Response(text, CODES[code][0], dict(headers or {}), "application/json")


def reader_of(request: Request) -> Reader:
    """Return who reads an answer's hints, as the request says: the command line, the Python client, or a program."""
    reader = request.headers.get(READER)
    return "cli" if reader == "cli" else "python" if reader == "python" else "http"


async def answer_error(request: Request, error: Exception) -> Response:
    """Handle expected exceptions."""
    reader = reader_of(request)
    if isinstance(error, RequestError):
        return error.answer(reader)
    if isinstance(error, PenstockError):
        found = request_error_of(error)
        if found.code == "internal":
            log.error("unexpected %s: %s", type(error).__name__, error)
        return found.answer(reader)
    if isinstance(error, HTTPException):
        code = _BY_STATUS.get(error.status_code, "malformed" if error.status_code < 500 else "internal")
        headers = {**(error.headers or {}), "Allow": _allowed(request)} if error.status_code == 405 else error.headers
        return error_response(code, _said(error, request), headers=headers)
    raise error


async def answer_unexpected(request: Request, _: Exception) -> Response:
    """Handle unexpected exceptions; the guard has logged them."""
    return internal_error(request.state.request_id)


def internal_error(request_id: str) -> Response:
    """Return the answer for an internal error."""
    # The text of an error may contain secrets; the log has the traceback.
    return error_response("internal", "Internal error.", f"Its log has the request id {request_id}.")


def _allowed(request: Request) -> str:
    """Return the methods of all routes that match the path of a request."""
    found: set[str] = set()
    for included in request.app.router.routes:
        router = getattr(included, "original_router", None)
        for route in [included] if router is None else router.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                found |= getattr(route, "methods", None) or set()
    return ", ".join(sorted(found))


def _said(error: HTTPException, request: Request) -> str:
    if error.status_code == 404:
        return f"There is no route {request.url.path[:200]!r}."
    if error.status_code == 405:
        return f"{request.url.path[:200]!r} does not have the method {request.method[:20]!r}."
    return str(error.detail)
