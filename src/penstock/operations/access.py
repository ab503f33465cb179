"""Who may ask an application for something over the network, and who did what."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON
from penstock.domain.access import (
    ID_BYTES,
    SECRET_BYTES,
    SESSION,
    TOKEN,
    AuditEntry,
    Credential,
    Holder,
    NewToken,
    Role,
    Token,
    is_public_id,
    proves,
    read_credential,
    write_credential,
)
from penstock.domain.errors import InvalidInput, NotFound, StoreError, Unauthenticated
from penstock.domain.instant import SECOND, Duration, microseconds
from penstock.domain.plan import Plan
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import access, admin

FRESH = 1.0
"""For so many seconds a token or session that was found usable is not looked up again."""
_MOST_KNOWN = 1000
_MOST_ENTRIES = 1000
_SESSION_SECONDS = 12 * 3600

_Known = dict[tuple[str, str], tuple[float, Holder]]


class Access(Conversation):
    """Tokens, sessions and shared allowances; each call has a twin with an `a` in front, for event loops."""

    _known_holders: _Known

    def create_token(
        self, name: str, role: Role | str, *, expires_in: Duration | None = None, by: str = PYTHON
    ) -> NewToken:
        """Make a token; its text is in the answer and nowhere else."""
        return self._do(self._create_token(name, role, expires_in, by))

    async def acreate_token(
        self, name: str, role: Role | str, *, expires_in: Duration | None = None, by: str = PYTHON
    ) -> NewToken:
        return await self._ado(self._create_token(name, role, expires_in, by))

    def tokens(self) -> list[Token]:
        """All tokens, those included that cannot be used any more, the oldest first."""
        return self._do(self._tokens())

    async def atokens(self) -> list[Token]:
        return await self._ado(self._tokens())

    def count_usable_tokens(self) -> int:
        """How many tokens are neither revoked nor expired."""
        return self._do(self._count_usable_tokens())

    async def acount_usable_tokens(self) -> int:
        return await self._ado(self._count_usable_tokens())

    def needs_token(self) -> bool:
        """Whether the HTTP API refuses callers without a token: from the first token on, also when all have ended."""
        return self._do(self._needs_token())

    async def aneeds_token(self) -> bool:
        return await self._ado(self._needs_token())

    def open_access(self, *, by: str = PYTHON) -> bool:
        """Let callers on a server's own host in without a token again; `Conflict` while a token is valid.

        False when they were let in already.
        """
        return self._do(self._open_access(by))

    async def aopen_access(self, *, by: str = PYTHON) -> bool:
        return await self._ado(self._open_access(by))

    def revoke_token(self, token_id: str, *, by: str = PYTHON) -> Token:
        """Let a token and its sessions open nothing any more: at once here, within a second elsewhere."""
        return self._do(self._revoke_token(token_id, by))

    async def arevoke_token(self, token_id: str, *, by: str = PYTHON) -> Token:
        return await self._ado(self._revoke_token(token_id, by))

    def authenticate(self, text: str) -> Token:
        """The token with this text; `Unauthenticated` when it is wrong, unknown, revoked or expired.

        An answer is good for a second: so long this process does not ask the store again.
        """
        return self._do(self._authenticate(text))

    async def aauthenticate(self, text: str) -> Token:
        return await self._ado(self._authenticate(text))

    def open_session(
        self, token_text: str, ttl: Duration = _SESSION_SECONDS, *, by: str | None = None
    ) -> tuple[str, Token]:
        """Begin a session with a token: the session's own text, and the token. It ends with the token at the latest."""
        return self._do(self._open_session(token_text, ttl, by))

    async def aopen_session(
        self, token_text: str, ttl: Duration = _SESSION_SECONDS, *, by: str | None = None
    ) -> tuple[str, Token]:
        return await self._ado(self._open_session(token_text, ttl, by))

    def session_token(self, text: str) -> Token:
        """The token that the session with this text began with; `Unauthenticated` as for tokens."""
        return self._do(self._session_token(text))

    async def asession_token(self, text: str) -> Token:
        return await self._ado(self._session_token(text))

    def close_session(self, text: str, *, by: str | None = None) -> None:
        """End a session; one that is not there (any more) is no error."""
        return self._do(self._close_session(text, by))

    async def aclose_session(self, text: str, *, by: str | None = None) -> None:
        return await self._ado(self._close_session(text, by))

    def take_allowance(self, name: str, count: int, period: Duration, n: int = 1) -> float | None:
        """Take `n` from an allowance of `count` in each `period`, which all processes on the store share.

        None when it was granted; else nothing is taken, and the answer is after how many seconds to ask again.
        """
        return self._do(self._take_allowance(name, count, period, n))

    async def atake_allowance(self, name: str, count: int, period: Duration, n: int = 1) -> float | None:
        return await self._ado(self._take_allowance(name, count, period, n))

    def audit(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> list[AuditEntry]:
        """What operators changed, the newest first; the next page is that `before` the `seq` of the last entry."""
        return self._do(self._audit(limit, before, {"actor": actor, "action": action, "target": target}))

    async def aaudit(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> list[AuditEntry]:
        return await self._ado(self._audit(limit, before, {"actor": actor, "action": action, "target": target}))

    def _create_token(self, name: str, role: Role | str, expires_in: Duration | None, by: str) -> Talk[NewToken]:
        life = None if expires_in is None else _life(expires_in, "expires_in")
        label = given.short_text(name, "name")
        if label is None:
            raise InvalidInput("A token needs a name.", hint="Name who or what will use it.")
        text, credential = write_credential(TOKEN, os.urandom(ID_BYTES), os.urandom(SECRET_BYTES))
        token: Token = yield access.create_token(
            credential.id, credential.digest, label, _role(role), life=life, by=_who(by)
        )
        return NewToken(text, token)

    def _tokens(self) -> Talk[list[Token]]:
        found: list[Token] = yield access.tokens()
        return found

    def _count_usable_tokens(self) -> Talk[int]:
        count: int = yield access.count_usable_tokens()
        return count

    def _needs_token(self) -> Talk[bool]:
        needed: bool = yield access.needs_token()
        return needed

    def _open_access(self, by: str) -> Talk[bool]:
        opened: bool = yield access.open_access(by=_who(by))
        return opened

    def _revoke_token(self, token_id: str, by: str) -> Talk[Token]:
        if not is_public_id(token_id):
            # What was given may be the token itself, so it is not repeated.
            raise InvalidInput("That is no id of a token.", hint="It is the part between the first two underscores.")
        token: Token = yield access.revoke_token(token_id, by=_who(by))
        self._known_holders = {}
        return token

    def _authenticate(self, text: str) -> Talk[Token]:
        holder = yield from self._holder(TOKEN, read_credential(TOKEN, text), access.find_token)
        return holder.token

    def _open_session(self, token_text: str, ttl: Duration, by: str | None) -> Talk[tuple[str, Token]]:
        life = _life(ttl, "ttl")
        token = yield from self._authenticate(token_text)
        text, session = write_credential(SESSION, os.urandom(ID_BYTES), os.urandom(SECRET_BYTES))
        who = given.actor(by) or _holder_of(token)
        try:
            yield access.create_session(session.id, token.id, session.digest, life, by=who)
        except NotFound:
            raise Unauthenticated from None
        return text, token

    def _session_token(self, text: str) -> Talk[Token]:
        holder = yield from self._holder(SESSION, read_credential(SESSION, text), access.find_session)
        return holder.token

    def _close_session(self, text: str, by: str | None) -> Talk[None]:
        who = given.actor(by)
        try:
            session = read_credential(SESSION, text)
        except Unauthenticated:
            return
        holder: Holder | None = yield access.find_session(session.id)
        if holder is not None and proves(session, holder.digest):
            yield access.end_session(session.id, by=who or _holder_of(holder.token))
        self._known_holders = {}

    def _take_allowance(self, name: str, count: int, period: Duration, n: int) -> Talk[float | None]:
        label = given.short_text(name, "name")
        length = microseconds(period, "period")
        wait: int | None = yield access.take(label or "", given.integer(count, "count"), length, given.integer(n, "n"))
        return None if wait is None else wait / SECOND

    def _audit(self, limit: int, before: int | None, which: dict[str, str | None]) -> Talk[list[AuditEntry]]:
        if not 1 <= given.integer(limit, "limit") <= _MOST_ENTRIES:
            raise InvalidInput(f"limit must be 1 to {_MOST_ENTRIES}, not {limit}.")
        wanted = {name: given.short_text(value, name) for name, value in which.items()}
        seq = None if before is None else given.integer(before, "before")
        entries: list[AuditEntry] = yield admin.audit(limit=limit, before=seq, **wanted)
        return entries

    def _holder(self, kind: str, credential: Credential, find: Callable[[str], Plan[Holder | None]]) -> Talk[Holder]:
        """Whoever the credential proves to be; the secret is compared each time, however fresh the answer is."""
        # Whoever revokes something begins a new memory; what was read before that must not come into it.
        memory, asked_at = self._known_holders, time.monotonic()
        until, known = memory.get((kind, credential.id), (0.0, None))
        if known is None or until <= asked_at:
            known = yield find(credential.id)
            proven = proves(credential, known and known.digest)
            if known is None or not (proven and known.usable):
                raise Unauthenticated
            if len(memory) >= _MOST_KNOWN:
                memory.clear()
            memory[kind, credential.id] = asked_at + FRESH, known
            if known.touch:
                # A store that is full can still be read, and whoever wants to make room must be let in.
                with contextlib.suppress(StoreError):
                    yield access.touch_token(known.token.id)
        elif not proves(credential, known.digest):
            raise Unauthenticated
        return known


def _role(value: Any) -> Role:
    try:
        return Role(value)
    except ValueError:
        raise InvalidInput(f"{value!r:.80} is no role.", hint=f"Roles: {', '.join(Role)}.") from None


def _life(value: Duration, what: str) -> int:
    life = microseconds(value, what)
    if life == 0:
        raise InvalidInput(f"{what} must be more than 0 seconds.")
    return life


def _who(by: str) -> str:
    return given.actor(by) or PYTHON


def _holder_of(token: Token) -> str:
    """Who acts when nobody was named: whoever has the token."""
    return f"token:{token.name}"[:500]
