"""`/v1/tokens` and `/v1/session`: tokens, and the sessions that browsers begin with them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.access import Actor, Role, Token
from penstock.domain.errors import Unauthenticated
from penstock.domain.job_json import iso, listed, spliced
from penstock.http.authentication import Call, Caller, cookie_name
from penstock.http.request_origin import address_of
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import tokens as shapes
from penstock.runtime.release import version

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "POST", "/v1/tokens", role=Role.SUPER_ADMIN, answer=shapes.CreatedToken, status=201)
async def create_token(call: Call, body: shapes.TokenRequest) -> Response:
    """Create a token; only this answer contains its text. After the first one, the server requires tokens."""
    made = await call.app.acreate_token(body.name, body.role, expires_in=body.expires_in, by=call.by)
    call.server.token_policy.invalidate()
    return json_text(spliced({**_facts(made.token), "token": made.text}, {}), 201)


@endpoint(router, "GET", "/v1/tokens", role=Role.SUPER_ADMIN, answer=shapes.TokenList)
async def list_tokens(call: Call) -> Response:
    """List all tokens, without their texts."""
    return json_text(listed("tokens", [spliced(_facts(each), {}) for each in await call.app.atokens()]))


@endpoint(
    router, "DELETE", "/v1/tokens/{tokenId}", role=Role.SUPER_ADMIN, answer=None, status=204, errors=("not_found",)
)
async def revoke_token(call: Call, tokenId: str) -> Response:
    """Revoke a token and its sessions; every server refuses them within a second."""
    await call.app.arevoke_token(tokenId, by=call.by)
    return Response(status_code=204)


def _facts(token: Token) -> dict[str, Any]:
    return {
        "tokenId": token.id,
        "name": token.name,
        "role": token.role,
        "createdAt": iso(token.created_at),
        "createdBy": token.created_by,
        "expiresAt": iso(token.expires_at),
        "revokedAt": iso(token.revoked_at),
        "lastUsedAt": iso(token.last_used_at),
    }


@endpoint(router, "POST", "/v1/session", role=None, answer=shapes.Session, status=201)
async def begin_session(request: Request, call: Call, body: shapes.SessionRequest) -> Response:
    """Begin a session with a token; the answer sets the session cookie."""
    policy, address = call.server.token_policy, address_of(request)
    hours = call.server.settings.session_hours
    try:
        token = await call.app.aauthenticate(body.token)
        who = Actor(f"token:{token.name}", request.state.request_id)
        text, token = await call.app.aopen_session(body.token, hours * 3600, by=who)
    except Unauthenticated as error:
        raise policy.wrong_tokens.count(address) or error from None
    answer = await _response(call, token.role, who, 201)
    _set_cookie(request, answer, text, round(hours * 3600))
    return answer


@endpoint(router, "GET", "/v1/session", role=None, answer=shapes.Session)
async def get_session(call: Call) -> Response:
    """Return the caller's name and role, and whether the server requires a token."""
    return await _response(call, call.role, call.by)


@endpoint(router, "DELETE", "/v1/session", role=None, answer=None, status=204)
async def end_session(request: Request, call: Call) -> Response:
    """End the session of the cookie; an ended session is not an error."""
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


async def _response(call: Caller, role: Role | None, name: str, status: int = 200) -> Response:
    closed = await call.server.token_policy.requires_token()
    # Callers through a proxy or from other hosts do not learn whether there is a setup code.
    code = call.is_local and call.server.token_policy.setup_code is not None
    facts = {"role": role, "name": str(name), "closed": closed, "setupCode": code, "version": version()}
    return json_text(spliced(facts, {}), status)
