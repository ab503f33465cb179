"""Shapes of tokens and sessions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.http.schemas.base import Moment, RequestModel, ResponseModel

RoleName = Literal["viewer", "creator", "admin", "super_admin"]


class TokenRequest(RequestModel):
    """A token to be made."""

    name: str = Field(min_length=1, max_length=500)
    role: RoleName
    expires_in: float | None = Field(None, gt=0, le=100 * 365 * 86_400, description="Seconds.")


class Token(ResponseModel):
    """What may be known of a token; its text is none of it."""

    token_id: str
    name: str
    role: RoleName
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    revoked_at: Moment | None
    last_used_at: Moment | None = Field(description="To the minute.")


class CreatedToken(Token):
    """A token that has just been made, with its text: nobody can read that again."""

    token: str


class TokenList(ResponseModel):
    """All tokens, those included that cannot be used any more, the oldest first."""

    tokens: list[Token]


class SessionRequest(RequestModel):
    """The token to begin a session with."""

    token: str


class Session(ResponseModel):
    """Who the server takes the caller for."""

    role: RoleName | None = Field(description="null: nobody in particular.")
    name: str
    closed: bool = Field(description="Whether there are tokens: then nobody is let in without one.")
    setup_code: bool = Field(description="Whether X-Penstock-Setup-Code with the server's code opens super_admin.")
    version: str = Field(description="Of penstock.")
