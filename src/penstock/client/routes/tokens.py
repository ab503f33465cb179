"""`/v1/tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import given_only, path_part, refuse_name, seconds
from penstock.domain.access import NewToken, Role, Token
from penstock.domain.errors import NotFound
from penstock.surface import tokens as surface

_PATH = "/v1/tokens"


def create_token(asked: surface.CreateToken) -> Talk[NewToken]:
    refuse_name(asked.by)
    body = given_only(
        {"name": asked.name, "role": str(asked.role), "expiresIn": seconds(asked.expires_in, "expires_in")}
    )
    told = (yield Asked("POST", _PATH, body=body, repeatable=False)).json()
    return NewToken(told["token"], _token(told))


def list_tokens(_: surface.ListTokens) -> Talk[list[Token]]:
    return [_token(each) for each in (yield Asked("GET", _PATH)).json()["tokens"]]


def revoke_token(asked: surface.RevokeToken) -> Talk[Token]:
    refuse_name(asked.by)
    yield Asked("DELETE", f"{_PATH}/{path_part(asked.token_id, 'The id of a token')}")
    for token in (yield from list_tokens(surface.ListTokens())):
        if token.id == asked.token_id:
            return token
    raise NotFound("token", asked.token_id)


def _token(told: Mapping[str, Any]) -> Token:
    return Token(
        id=told["tokenId"],
        name=told["name"],
        role=Role(told["role"]),
        created_at=datetime.fromisoformat(told["createdAt"]),
        created_by=told["createdBy"],
        expires_at=records.moment(told["expiresAt"]),
        revoked_at=records.moment(told["revokedAt"]),
        last_used_at=records.moment(told["lastUsedAt"]),
    )
