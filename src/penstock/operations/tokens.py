"""Carries out operations on tokens, sessions and shared allowances."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Any

from penstock.domain.access import (
    ID_BYTES,
    SECRET_BYTES,
    SESSION,
    TOKEN,
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
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import access
from penstock.surface import enqueue_options as given
from penstock.surface import tokens as surface

FRESH = 1.0
"""For so many seconds a token or session that was found usable is not looked up again."""
_MOST_KNOWN = 1000


def create_token(_: ApplicationSession, asked: surface.CreateToken) -> Talk[NewToken]:
    life = None if asked.expires_in is None else _life(asked.expires_in, "expires_in")
    label = given.short_text(asked.name, "name")
    if label is None:
        raise InvalidInput("A token needs a name.", hint="Name the person or program that will use it.")
    text, credential = write_credential(TOKEN, os.urandom(ID_BYTES), os.urandom(SECRET_BYTES))
    token: Token = yield access.create_token(
        credential.id, credential.digest, label, _role(asked.role), life=life, by=given.operator(asked.by)
    )
    return NewToken(text, token)


def list_tokens(_: ApplicationSession, __: surface.ListTokens) -> Talk[list[Token]]:
    found: list[Token] = yield access.tokens()
    return found


def count_usable_tokens(_: ApplicationSession, __: surface.CountUsableTokens) -> Talk[int]:
    count: int = yield access.count_usable_tokens()
    return count


def needs_token(_: ApplicationSession, __: surface.NeedsToken) -> Talk[bool]:
    needed: bool = yield access.needs_token()
    return needed


def open_access(_: ApplicationSession, asked: surface.OpenAccess) -> Talk[bool]:
    opened: bool = yield access.open_access(by=given.operator(asked.by))
    return opened


def revoke_token(session: ApplicationSession, asked: surface.RevokeToken) -> Talk[Token]:
    if not is_public_id(asked.token_id):
        # It may be the token itself, so it is not repeated.
        raise InvalidInput("That is no id of a token.", hint="It is the part between the first two underscores.")
    token: Token = yield access.revoke_token(asked.token_id, by=given.operator(asked.by))
    session.memory.holders = {}
    return token


def authenticate(session: ApplicationSession, asked: surface.Authenticate) -> Talk[Token]:
    holder = yield from _holder(session, TOKEN, read_credential(TOKEN, asked.text), access.find_token)
    return holder.token


def open_session(session: ApplicationSession, asked: surface.OpenSession) -> Talk[tuple[str, Token]]:
    life = _life(asked.ttl, "ttl")
    token = yield from authenticate(session, surface.Authenticate(asked.token_text))
    text, opened = write_credential(SESSION, os.urandom(ID_BYTES), os.urandom(SECRET_BYTES))
    by = given.actor(asked.by) or _holder_of(token)
    try:
        yield access.create_session(opened.id, token.id, opened.digest, life, by=by)
    except NotFound:
        raise Unauthenticated from None
    return text, token


def read_session_token(session: ApplicationSession, asked: surface.ReadSessionToken) -> Talk[Token]:
    holder = yield from _holder(session, SESSION, read_credential(SESSION, asked.text), access.find_session)
    return holder.token


def close_session(session: ApplicationSession, asked: surface.CloseSession) -> Talk[None]:
    by = given.actor(asked.by)
    try:
        closed = read_credential(SESSION, asked.text)
    except Unauthenticated:
        return
    holder: Holder | None = yield access.find_session(closed.id)
    if holder is not None and proves(closed, holder.digest):
        yield access.end_session(closed.id, by=by or _holder_of(holder.token))
    session.memory.holders = {}


def take_allowance(_: ApplicationSession, asked: surface.TakeAllowance) -> Talk[float | None]:
    label = given.short_text(asked.name, "name")
    length = microseconds(asked.period, "period")
    count, taken = given.integer(asked.count, "count"), given.integer(asked.n, "n")
    wait: int | None = yield access.take(label or "", count, length, taken)
    return None if wait is None else wait / SECOND


def _holder(
    session: ApplicationSession, kind: str, credential: Credential, find: Callable[[str], Plan[Holder | None]]
) -> Talk[Holder]:
    """The holder that the credential proves; the secret is compared each time, however fresh the answer is."""
    # A revocation begins a new memory; an older answer must not get into it.
    memory, asked_at = session.memory.holders, time.monotonic()
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
            # A store that is full can still be read, and a caller that wants to make room must be admitted.
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


def _holder_of(token: Token) -> str:
    """The actor when none was given: the token's holder."""
    return f"token:{token.name}"[:500]
