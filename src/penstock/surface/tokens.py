"""`app.tokens`: access over the network: tokens, sessions and shared allowances."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.domain.access import NewToken, Role, Token
from penstock.domain.instant import Duration
from penstock.surface.session import PYTHON, Operation, Session

SESSION_SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True)
class CreateToken(Operation[NewToken]):
    call: ClassVar[str] = "tokens.create"
    name: str
    role: Role | str
    expires_in: Duration | None
    by: str


@dataclass(frozen=True, slots=True)
class ListTokens(Operation[list[Token]]):
    call: ClassVar[str] = "tokens.list"


@dataclass(frozen=True, slots=True)
class CountUsableTokens(Operation[int]):
    call: ClassVar[str] = "tokens.count_usable"


@dataclass(frozen=True, slots=True)
class NeedsToken(Operation[bool]):
    call: ClassVar[str] = "tokens.needs_token"


@dataclass(frozen=True, slots=True)
class OpenAccess(Operation[bool]):
    call: ClassVar[str] = "tokens.open_access"
    by: str


@dataclass(frozen=True, slots=True)
class RevokeToken(Operation[Token]):
    call: ClassVar[str] = "tokens.revoke"
    token_id: str = field(repr=False)
    by: str


@dataclass(frozen=True, slots=True)
class Authenticate(Operation[Token]):
    call: ClassVar[str] = "tokens.authenticate"
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenSession(Operation[tuple[str, Token]]):
    call: ClassVar[str] = "tokens.open_session"
    token_text: str = field(repr=False)
    ttl: Duration
    by: str | None


@dataclass(frozen=True, slots=True)
class ReadSessionToken(Operation[Token]):
    call: ClassVar[str] = "tokens.session_token"
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloseSession(Operation[None]):
    call: ClassVar[str] = "tokens.close_session"
    text: str = field(repr=False)
    by: str | None


@dataclass(frozen=True, slots=True)
class TakeAllowance(Operation[float | None]):
    call: ClassVar[str] = "tokens.take_allowance"
    name: str
    count: int
    period: Duration
    n: int


class Tokens:
    """Tokens, sessions and shared allowances; each call has a twin with an `a` in front, for event loops."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, name: str, role: Role | str, *, expires_in: Duration | None = None, by: str = PYTHON) -> NewToken:
        """Make a token; its text is in the answer and nowhere else."""
        return self._session.do(CreateToken(name, role, expires_in, by))

    async def acreate(
        self, name: str, role: Role | str, *, expires_in: Duration | None = None, by: str = PYTHON
    ) -> NewToken:
        return await self._session.ado(CreateToken(name, role, expires_in, by))

    def list(self) -> builtins.list[Token]:
        """All tokens, including those that cannot be used any more, the oldest first."""
        return self._session.do(ListTokens())

    async def alist(self) -> builtins.list[Token]:
        return await self._session.ado(ListTokens())

    def count_usable(self) -> int:
        """How many tokens are neither revoked nor expired."""
        return self._session.do(CountUsableTokens())

    async def acount_usable(self) -> int:
        return await self._session.ado(CountUsableTokens())

    def needs_token(self) -> bool:
        """Whether the HTTP API refuses callers without a token: from the first token on, also when all have ended."""
        return self._session.do(NeedsToken())

    async def aneeds_token(self) -> bool:
        return await self._session.ado(NeedsToken())

    def open_access(self, *, by: str = PYTHON) -> bool:
        """Admit callers on a server's own host without a token again; `Conflict` while a token is valid.

        False when they were admitted already.
        """
        return self._session.do(OpenAccess(by))

    async def aopen_access(self, *, by: str = PYTHON) -> bool:
        return await self._session.ado(OpenAccess(by))

    def revoke(self, token_id: str, *, by: str = PYTHON) -> Token:
        """Revoke a token with its sessions: immediately here, within a second elsewhere."""
        return self._session.do(RevokeToken(token_id, by))

    async def arevoke(self, token_id: str, *, by: str = PYTHON) -> Token:
        return await self._session.ado(RevokeToken(token_id, by))

    def authenticate(self, text: str) -> Token:
        """The token with this text; `Unauthenticated` when it is wrong, unknown, revoked or expired.

        An answer is good for a second: for that long this process does not ask the store again.
        """
        return self._session.do(Authenticate(text))

    async def aauthenticate(self, text: str) -> Token:
        return await self._session.ado(Authenticate(text))

    def open_session(
        self, token_text: str, ttl: Duration = SESSION_SECONDS, *, by: str | None = None
    ) -> tuple[str, Token]:
        """Begin a session with a token: the session's own text, and the token. It ends with the token at the latest."""
        return self._session.do(OpenSession(token_text, ttl, by))

    async def aopen_session(
        self, token_text: str, ttl: Duration = SESSION_SECONDS, *, by: str | None = None
    ) -> tuple[str, Token]:
        return await self._session.ado(OpenSession(token_text, ttl, by))

    def session_token(self, text: str) -> Token:
        """The token that the session with this text began with; `Unauthenticated` as for tokens."""
        return self._session.do(ReadSessionToken(text))

    async def asession_token(self, text: str) -> Token:
        return await self._session.ado(ReadSessionToken(text))

    def close_session(self, text: str, *, by: str | None = None) -> None:
        """End a session; one that is not there (any more) is no error."""
        return self._session.do(CloseSession(text, by))

    async def aclose_session(self, text: str, *, by: str | None = None) -> None:
        return await self._session.ado(CloseSession(text, by))

    def take_allowance(self, name: str, count: int, period: Duration, n: int = 1) -> float | None:
        """Take `n` from an allowance of `count` in each `period`, which all processes on the store share.

        None when it was granted; else nothing is taken, and the answer is after how many seconds to ask again.
        """
        return self._session.do(TakeAllowance(name, count, period, n))

    async def atake_allowance(self, name: str, count: int, period: Duration, n: int = 1) -> float | None:
        return await self._session.ado(TakeAllowance(name, count, period, n))
