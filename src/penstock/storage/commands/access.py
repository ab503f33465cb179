"""The access port: tokens, sessions and shared rate buckets."""

from __future__ import annotations

from penstock.domain.access import Holder, Role, Session, Token
from penstock.domain.errors import Conflict, Hint, InvalidInput, NotFound
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.plan import Statement, Steps, reads, writes, writes_once
from penstock.storage.commands import audit
from penstock.storage.commands.rows import Row

_LIST = Hint(
    "app.tokens() lists the existing ones.",
    cli="`penstock tokens list` shows the existing ones.",
    http="GET /v1/tokens lists the existing ones.",
)


@writes
def create_token(
    token_id: str, digest: str, name: str, role: Role, *, life: int | None = None, by: str
) -> Steps[Token]:
    facts = {"id": token_id, "digest": digest, "name": name, "role": role.value, "life": life, "by": by}
    made = yield Statement("save_token", facts)
    holder = yield from _find("find_token", token_id)
    if holder is None or holder.digest != digest:
        raise Conflict(f"There is a token {token_id!r} already.", hint="Make another one.")
    token = holder.token
    if made:
        yield Statement("close_access")
        expiry = None if token.expires_at is None else token.expires_at.isoformat()
        yield audit.entry(by, "token.create", token_id, None, {"name": name, "role": role, "expiresAt": expiry})
    return token


@reads
def tokens() -> Steps[list[Token]]:
    return [_token(row) for row in (yield Statement("read_tokens"))]


@reads
def find_token(token_id: str) -> Steps[Holder | None]:
    return (yield from _find("find_token", token_id))


@reads
def count_usable_tokens() -> Steps[int]:
    ((n,),) = yield Statement("count_usable_tokens")
    return int(n)


@reads
def needs_token() -> Steps[bool]:
    found = yield Statement("read_access")
    # Without the row it is unknown whether there ever was a token.
    return not found or bool(found[0][0])


@writes
def open_access(*, by: str) -> Steps[bool]:
    opened = yield Statement("open_access")
    # Only now: a transaction that makes a token holds the row until the token can be seen.
    ((usable,),) = yield Statement("count_usable_tokens")
    if opened and usable:
        raise Conflict(
            f"{usable} token(s) are valid, so the store is not opened to callers without one.",
            hint=Hint(
                "Revoke them first: app.revoke_token(id).",
                cli="Revoke them first: `penstock tokens list`, `penstock tokens revoke ID`.",
                http="Revoke them first: GET /v1/tokens, DELETE /v1/tokens/{tokenId}.",
            ),
        )
    if opened:
        yield audit.entry(by, "access.open", "access", {"closed": True}, {"closed": False})
    return bool(opened)


@writes
def revoke_token(token_id: str, *, by: str) -> Steps[Token]:
    revoked = yield Statement("revoke_token", {"id": token_id})
    holder = yield from _find("find_token", token_id)
    if holder is None:
        raise NotFound("token", token_id, hint=_LIST)
    if revoked:
        ended = len((yield Statement("drop_token_sessions", {"token_id": token_id})))
        facts = {"name": holder.token.name, "role": holder.token.role}
        before, after = {**facts, "revoked": False}, {**facts, "revoked": True, "sessionsEnded": ended}
        yield audit.entry(by, "token.revoke", token_id, before, after)
    return holder.token


@writes
def touch_token(token_id: str) -> Steps[None]:
    yield Statement("touch_token", {"id": token_id}, alone=True)


@writes
def create_session(session_id: str, token_id: str, digest: str, life: int, *, by: str) -> Steps[Session]:
    facts = {"id": session_id, "token_id": token_id, "digest": digest}
    made = yield Statement("save_session", {**facts, "life": life})
    found = made or (yield Statement("read_session", facts))
    if not found:
        raise NotFound("token", token_id, hint=_LIST)
    session = _session(found[0])
    if made:
        after = {"token": token_id, "expiresAt": session.expires_at.isoformat()}
        yield audit.entry(by, "session.create", session_id, None, after)
    return session


@reads
def find_session(session_id: str) -> Steps[Holder | None]:
    return (yield from _find("find_session", session_id))


@writes
def end_session(session_id: str, *, by: str) -> Steps[bool]:
    ended = yield Statement("drop_session", {"id": session_id})
    if ended:
        yield audit.entry(by, "session.end", session_id, {"token": ended[0][0]})
    return bool(ended)


@writes_once
def take(name: str, count: int, period: int, n: int = 1) -> Steps[int | None]:
    """A bucket is kept as the instant at which it is full again; each of what it holds is worth some microseconds."""
    if not 1 <= n <= count <= period:
        raise InvalidInput(
            f"{n} of {count} in {period} microseconds cannot be taken.",
            hint="Take at least 1 and no more than the bucket holds; it holds at most one for each microsecond.",
        )
    each = -(-period // count)
    facts = {"name": bucket_name(name, count, period), "cost": n * each, "capacity": count * each}
    if (yield Statement("take_tokens", facts, alone=True)):
        return None
    waits = yield Statement("wait_for_tokens", facts)
    return max([1, *(int(wait) for (wait,) in waits)])


def bucket_name(name: str, count: int, period: int) -> str:
    """No definition's key starts with @; another rate has another bucket, so that a changed rate applies
    immediately."""
    return f"@{name}@{count}/{period}"


def _find(statement: str, public_id: str) -> Steps[Holder | None]:
    found = yield Statement(statement, {"id": public_id})
    if not found:
        return None
    *facts, digest, usable, unseen = found[0]
    return Holder(digest, _token(tuple(facts)), bool(usable), bool(unseen))


def _token(row: Row) -> Token:
    id, name, role, created_at, created_by, expires_at, revoked_at, last_used_at = row
    return Token(
        id, name, Role(role), to_datetime(created_at), created_by, maybe_datetime(expires_at),
        maybe_datetime(revoked_at), maybe_datetime(last_used_at),
    )  # fmt: skip


def _session(row: Row) -> Session:
    id, token_id, created_at, expires_at = row
    return Session(id, token_id, to_datetime(created_at), to_datetime(expires_at))
