"""Shapes of tokens and sessions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, RequestModel, ResponseModel

RoleName = Literal["viewer", "creator", "admin", "super_admin"]


class TokenRequest(RequestModel):
    """A token to create."""

    name: str = Field(min_length=1, max_length=500)
    role: RoleName
    expires_in: float | None = Field(None, gt=0, le=100 * 365 * 86_400, description="Seconds.")


class Token(ResponseModel):
    """A token without its text."""

    token_id: str
    name: str
    role: RoleName
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None = Field(description="To the minute.")


class CreatedToken(Token):
    """A new token with its text, which cannot be read again."""

    token: str


class TokenList(ResponseModel):
    """All tokens, including expired and revoked ones, the oldest first."""

    tokens: list[Token]


class SessionRequest(RequestModel):
    """The token to begin a session with."""

    token: str


class Session(ResponseModel):
    """The caller as the server identified it."""

    role: RoleName | None = Field(description="null: an anonymous caller.")
    name: str
    closed: bool = Field(description="Whether the server requires a token.")
    setup_code: bool = Field(description="Whether X-Penstock-Setup-Code with the server's code grants super_admin.")
    version: str = Field(description="The version of penstock.")
