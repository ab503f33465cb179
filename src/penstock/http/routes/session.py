"""`/v1/session`: a browser shows its token once, and is known by a cookie that no script can read."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.actor import Actor
from penstock.domain.errors import Unauthenticated
from penstock.domain.job_json import spliced
from penstock.domain.release import version
from penstock.http.addresses import address_of
from penstock.http.authentication import Call, Caller, cookie_name
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import access as shapes

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "POST", "/v1/session", role=None, answer=shapes.Session, status=201)
async def begin_session(request: Request, call: Call, asked: shapes.SessionAsked) -> Response:
    """Begin a session with a token; the answer sets its cookie."""
    door, address = call.site.door, address_of(request)
    hours = call.site.settings.session_hours
    try:
        token = await call.app.aauthenticate(asked.token)
        who = Actor(f"token:{token.name}", request.state.request_id)
        text, token = await call.app.aopen_session(asked.token, hours * 3600, by=who)
    except Unauthenticated as error:
        raise door.wrong_tokens.count(address) or error from None
    answer = await _told(call, token.role, who, 201)
    _set_cookie(request, answer, text, round(hours * 3600))
    return answer


@endpoint(router, "GET", "/v1/session", role=None, answer=shapes.Session)
async def get_session(call: Call) -> Response:
    """Who the server takes the caller for, and whether it needs a token."""
    return await _told(call, call.role, call.by)


@endpoint(router, "DELETE", "/v1/session", role=None, answer=None, status=204)
async def end_session(request: Request, call: Call) -> Response:
    """End the session of the cookie; one that is over already is no error."""
    text = request.cookies.get(cookie_name(request))
    if text is not None:
        await call.app.aclose_session(text, by=None if call.role is None else call.by)
    answer = Response(status_code=204)
    _set_cookie(request, answer, "", 0)
    return answer


def _set_cookie(request: Request, answer: Response, text: str, seconds: int) -> None:
    answer.set_cookie(
        cookie_name(request), text, max_age=seconds, path="/", secure=request.scope["scheme"] == "https", httponly=True,
        samesite="strict",
    )  # fmt: skip


async def _told(call: Caller, role: Role | None, name: str, status: int = 200) -> Response:
    closed = await call.site.door.is_closed()
    # Nothing is said of it to callers through a proxy or from elsewhere.
    code = call.is_local and call.site.door.setup_code is not None
    facts = {"role": role, "name": str(name), "closed": closed, "setupCode": code, "version": version()}
    return json_text(spliced(facts, {}), status)
