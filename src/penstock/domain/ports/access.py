"""The port of authentication: tokens, sessions and rate buckets. Rules for all ports: `ports.store`."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.access import Holder, Role, Session, Token
from penstock.domain.plan import Plan


class AccessPort(Protocol):
    """Tokens, sessions and shared rate buckets. A store sees only the digest of a secret."""

    def create_token(
        self, token_id: str, digest: str, name: str, role: Role, *, life: int | None = None, by: str
    ) -> Plan[Token]:
        """Save a token that is valid for `life` microseconds or until it is revoked; audited as `token.create`.

        The same transaction makes the store require a token, see `needs_token`. A second call with the same id and
        digest changes nothing; the same id with another digest: `Conflict`."""
        ...

    def tokens(self) -> Plan[list[Token]]:
        """Return all tokens, the oldest first, including those that are revoked or expired."""
        ...

    def find_token(self, token_id: str) -> Plan[Holder | None]:
        """Return the token with this public id, whether it is usable, and the digest that its secret must have."""
        ...

    def count_usable_tokens(self) -> Plan[int]:
        """Return how many tokens are neither revoked nor expired."""
        ...

    def needs_token(self) -> Plan[bool]:
        """Return whether a caller without a token is refused: from the first `create_token` until `open_access`.

        The expiry or removal of a token does not change the answer."""
        ...

    def open_access(self, *, by: str) -> Plan[bool]:
        """Require no token until the next one is created; audited as `access.open`. False: none was required.

        While a token is usable: `Conflict`."""
        ...

    def revoke_token(self, token_id: str, *, by: str) -> Plan[Token]:
        """Revoke a token and its sessions; audited as `token.revoke`. Unknown: `NotFound`.

        A second call changes nothing."""
        ...

    def touch_token(self, token_id: str) -> Plan[None]:
        """Record that a token is used now, at most once a minute."""
        ...

    def create_session(self, session_id: str, token_id: str, digest: str, life: int, *, by: str) -> Plan[Session]:
        """Save a session of a token that ends with the token at the latest; audited as `session.create`.

        A token that is unknown, revoked or expired: `NotFound`."""
        ...

    def find_session(self, session_id: str) -> Plan[Holder | None]:
        """Return the token of the session with this public id; usable only while token and session are."""
        ...

    def end_session(self, session_id: str, *, by: str) -> Plan[bool]:
        """Delete a session; audited as `session.end`. False when there is none."""
        ...

    def take(self, name: str, count: int, period: int, n: int = 1) -> Plan[int | None]:
        """Take `n` of the `count` tokens of a bucket, which refills within `period` microseconds.

        None: granted. Otherwise nothing is taken, and the answer is the microseconds until there will be enough if no
        other caller takes them."""
        ...
