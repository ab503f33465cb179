"""Declaration of routes: role, answer and errors, checked and documented in one place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from penstock.domain import payload
from penstock.domain.access import Role
from penstock.domain.errors import MalformedPayload, PenstockError
from penstock.http.authentication import admit
from penstock.http.body_limits import LARGE
from penstock.http.errors import CODES, RequestError, request_error_of
from penstock.http.paths import KeyConvertor, WholeKeyConvertor
from penstock.http.request_origin import check_host
from penstock.http.validation import nearest

F = TypeVar("F", bound=Callable[..., Any])
_EVERYWHERE = ("malformed", "unauthenticated", "forbidden", "misdirected", "invalid_request", "rate_limited",
               "headers_too_large", "target_too_long", "unavailable")  # fmt: skip
_SECURITY: dict[str, Any] = {"security": [{"token": []}, {"session": []}, {}]}
"""A token or a session; neither, while there is no token."""
_WITH_BODY = ("too_large", "unsupported_media_type", "invalid_params", "store_full")

_PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
"""By name: for a model the framework would build a validator for each status of each route, most of the
start-up time.
"""

register_url_convertor("key", KeyConvertor())
register_url_convertor("whole", WholeKeyConvertor())


class StrictRequest(Request):
    """A request whose JSON is validated as strictly as parameters."""

    async def json(self) -> Any:
        return await read_json(self)


class Route(APIRoute):
    """Admits the caller before the request is read, and refuses unknown parameters."""

    asks_caller: ClassVar[bool] = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        extra = self.openapi_extra or {}
        role = None if extra.get("x-role") is None else Role(extra["x-role"])
        takes_body = self.body_field is not None or "requestBody" in extra
        needs_body = takes_body and (self.body_field is None or self.body_field.field_info.is_required())
        single, several = _query_names(self)
        families = frozenset(each["x-begins"] for each in extra.get("parameters", ()) if "x-begins" in each)

        async def checked(request: Request) -> Response:
            if self.asks_caller:
                request.state.caller = await admit(request, role)
            else:
                check_host(request)
            check_query(request, single, several, families)
            if takes_body:
                check_media(request, needs_body)
            return await handle(StrictRequest(request.scope, request.receive))

        return checked


class RouteForAll(Route):
    """A route without authentication: its answer does not need the store, so an outage does not delay it."""

    asks_caller = False


def endpoint(
    router: APIRouter | FastAPI,
    method: str,
    path: str,
    *,
    role: Role | None,
    answer: type[BaseModel] | None,
    status: int = 200,
    also: dict[int | str, dict[str, Any]] | None = None,
    errors: Sequence[str] = (),
    extra: dict[str, Any] | None = None,
) -> Callable[[F], F]:
    """Declare one route; `role` None admits everyone, `also` documents further answers."""
    codes = dict.fromkeys((*_EVERYWHERE, *(_WITH_BODY if method != "GET" else ()), *errors))
    # Codes with the same status share an entry.
    documented: dict[int | str, dict[str, Any]] = {}
    for code in codes:
        number, meaning = CODES[code]
        entry = documented.setdefault(number, {"content": _PROBLEM, "description": ""})
        entry["description"] = f"{entry['description']} `{code}`: {meaning}".strip()
    return router.api_route(
        path,
        methods=[method],
        status_code=status,
        response_model=answer,
        response_class=Response if answer is None else _Json,
        responses={**documented, **(also or {})},
        openapi_extra={"x-role": role, **({} if role is None else _SECURITY), **(extra or {})},
    )


class _Json(JSONResponse):
    """JSON text with few headers, without the framework's generality.

    The document describes bodies of the framework's own JSON class only, so this derives from it.

    """

    media_type = "application/json"

    def __init__(self, text: str | bytes, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status_code
        self.background = None
        self.body = text if isinstance(text, bytes) else text.encode()
        self.raw_headers = [
            (b"content-length", str(len(self.body)).encode()),
            (b"content-type", b"application/json"),
            *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()),
        ]


def json_text(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer of JSON text."""
    return _Json(text, status, headers)


async def read_json(request: Request) -> Any:
    """Return the body as JSON; refuse repeated keys, numbers out of range and invalid UTF-8."""
    body = await request.body()
    return decoded(body) if len(body) < LARGE else await asyncio.to_thread(decoded, body)


def decoded(body: bytes) -> Any:
    """Return the value of a body, as `read_json` does."""
    if not body:
        raise RequestError("malformed", "The body is empty.", hint="Send a JSON object.")
    try:
        return payload.decode(body, "the body", most=max(len(body), payload.MAX_BYTES))
    except MalformedPayload as error:
        raise RequestError("malformed", error.message, hint=error.hint) from None
    except PenstockError as error:
        raise request_error_of(error) from None


def _query_names(route: APIRoute) -> tuple[frozenset[str], frozenset[str]]:
    """Return the query parameters that a route takes once, and those that may be repeated."""
    single: set[str] = set()
    several: set[str] = set()
    for each in route.dependant.query_params:
        origin = str(each.field_info.annotation)
        (several if "list[" in origin else single).add(each.alias)
    return frozenset(single), frozenset(several)


def check_query(
    request: Request,
    single: frozenset[str] = frozenset(),
    several: frozenset[str] = frozenset(),
    families: frozenset[str] = frozenset(),
) -> None:
    """Refuse query parameters that are unknown or repeated; of `families` the prefixes are known."""
    if not request.scope["query_string"]:
        return
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        in_family = any(name.startswith(each) and name != each for each in families)
        if name not in single and name not in several and not in_family:
            known = ", ".join(sorted(single | several | {f"{each}…" for each in families})) or "none"
            near = nearest(name, single | several)
            meant = "" if near is None else f"Did you mean {near!r}? "
            raise _wrong_query(name, "is unknown here", f"{meant}Known: {known}.")
        if name in seen and name not in several:
            raise _wrong_query(name, "is given more than once", "Give it once.")
        if "\x00" in value or "\ufffd" in value:
            raise _wrong_query(name, "contains a NUL or is not UTF-8", "Send UTF-8.")
        seen.add(name)


def _wrong_query(name: str, problem: str, hint: str) -> RequestError:
    return RequestError(
        "invalid_request", f"The query parameter {name[:80]!r} {problem}.", hint=hint, details={"query": name[:80]}
    )


def check_media(request: Request, needs_body: bool) -> None:
    """Accept only uncompressed JSON in UTF-8, which also refuses the forms of foreign pages."""
    headers = request.headers
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(
            "unsupported_media_type", "Compressed bodies are not accepted.", hint="Send it uncompressed."
        )
    has_body = needs_body or headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if not has_body:
        return
    media, _, rest = headers.get("content-type", "").partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise RequestError(
            "unsupported_media_type",
            f"The body is {(media or 'of no type')[:80]!r}, not application/json.",
            hint="Send the header Content-Type: application/json.",
        )
