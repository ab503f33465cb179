"""`/v1/tokens`: who may call."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from penstock.domain.access import Role, Token
from penstock.domain.job_json import iso, listed, spliced
from penstock.http.authentication import Call
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import access as shapes

router: APIRouter = APIRouter(route_class=Route)


@endpoint(router, "POST", "/v1/tokens", role=Role.SUPER_ADMIN, answer=shapes.TokenMade, status=201)
async def create_token(call: Call, asked: shapes.TokenAsked) -> Response:
    """Make a token; its text is in this answer and nowhere else. With the first one the server is closed to others."""
    made = await call.app.acreate_token(asked.name, asked.role, expires_in=asked.expires_in, by=call.by)
    call.site.door.forget()
    return json_text(spliced({**_facts(made.token), "token": made.text}, {}), 201)


@endpoint(router, "GET", "/v1/tokens", role=Role.SUPER_ADMIN, answer=shapes.TokenList)
async def list_tokens(call: Call) -> Response:
    """All tokens, without their texts."""
    return json_text(listed("tokens", [spliced(_facts(each), {}) for each in await call.app.atokens()]))


@endpoint(
    router, "DELETE", "/v1/tokens/{tokenId}", role=Role.SUPER_ADMIN, answer=None, status=204, refusals=("not_found",)
)
async def revoke_token(call: Call, tokenId: str) -> Response:
    """Let a token and its sessions open nothing any more, within a second on every server."""
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
