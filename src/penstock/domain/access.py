"""Authentication: roles, tokens, sessions, actors and the audit.

A text is `<kind>_<public id>_<secret>_<checksum>`. Only the digest of the secret is ever stored; the checksum refuses a
text that was mistyped or cut without a lookup.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from penstock.domain.errors import Unauthenticated

TOKEN = "pst"  # noqa: S105 - the kind of a text, not a secret
"""How the text of a token begins."""
SESSION = "pss"
"""How the text of a session begins."""
ID_BYTES = 8
SECRET_BYTES = 32

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH, _CHECKSUM_LENGTH = 11, 43, 6
"""As many digits as 8 bytes, 32 bytes and a CRC-32 need."""
_ID = re.compile(rf"[0-9A-Za-z]{{{_ID_LENGTH}}}")
_TEXT = re.compile(
    rf"(([a-z]{{3}})_([0-9A-Za-z]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}}))"
    rf"_([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})"
)


class Role(StrEnum):
    """What a token allows; each role includes those above it in this list."""

    VIEWER = "viewer"
    CREATOR = "creator"
    ADMIN = "admin"
    SUPER_ADMIN = "super_admin"

    def covers(self, other: Role) -> bool:
        """Whether this role may do what the other may."""
        return _RANK[self] >= _RANK[other]


_RANK = {role: rank for rank, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    id: str
    name: str
    role: Role
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    """To the minute."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its text, which cannot be read again."""

    text: str = field(repr=False)
    token: Token


@dataclass(frozen=True, slots=True)
class Session:
    """A session: for its time, its cookie replaces the token."""

    id: str
    token_id: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Credential:
    """A parsed text: its public id, and the digest of its secret."""

    id: str
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Holder:
    """The stored record for the public id of a token or a session."""

    digest: str = field(repr=False)
    token: Token
    usable: bool
    """Neither revoked nor expired, by the store's clock."""
    touch: bool
    """Whether the token's last use must be recorded again."""


def write_credential(kind: str, public: bytes, secret: bytes) -> tuple[str, Credential]:
    """Return the text made of random bytes, and the credential to store."""
    if len(public) != ID_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError(f"a text is made of {ID_BYTES} and {SECRET_BYTES} random bytes")
    id = _base62(int.from_bytes(public), _ID_LENGTH)
    hidden = _base62(int.from_bytes(secret), _SECRET_LENGTH)
    body = f"{kind}_{id}_{hidden}"
    return f"{body}_{_checksum(body)}", Credential(id, _digest(hidden))


def read_credential(kind: str, text: object) -> Credential:
    """Parse a text; a malformed one is refused without a reason."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise Unauthenticated
    body, prefix, id, secret, checksum = found.groups()
    if prefix != kind or checksum != _checksum(body):
        raise Unauthenticated
    return Credential(id, _digest(secret))


def is_public_id(text: object) -> bool:
    """Whether this can be the public id of a token or a session."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def proves(credential: Credential, stored: str | None) -> bool:
    """Return whether the secret matches the stored one, in constant time."""
    return hmac.compare_digest(credential.digest, stored or _NO_SECRET) and stored is not None


def _digest(secret: str) -> str:
    # A fast hash is right here: 256 random bits cannot be guessed.
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECKSUM_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


_NO_SECRET = _digest("")


class Actor(str):
    """The name of an actor in the audit and in events, with the id of its request.

    It is accepted wherever `by` is.
    """

    __slots__ = ("request_id",)

    request_id: str | None

    def __new__(cls, name: str, request_id: str | None = None) -> Actor:
        actor = super().__new__(cls, name)
        actor.request_id = request_id
        return actor


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that an operator made."""

    seq: int
    at: datetime
    actor: str
    action: str
    target: str
    before: str | None
    after: str | None
    request_id: str | None
