"""What penstock asks of a store about access and the audit; a part of the ports, whose rules hold here too."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.access import Holder, Role, Session, Token
from penstock.domain.admin import AuditEntry
from penstock.domain.plan import Plan


class AccessPort(Protocol):
    """Tokens, sessions, and buckets that all processes take from. Of secrets a store sees the digest only."""

    def create_token(
        self, token_id: str, digest: str, name: str, role: Role, *, life: int | None = None, by: str
    ) -> Plan[Token]:
        """Keep a token, for `life` microseconds or until it is revoked; audited as `token.create`.

        In the same transaction the store begins to need a token, see `needs_token`.

        The same id and digest again change nothing; the same id with another digest: `Conflict`."""
        ...

    def tokens(self) -> Plan[list[Token]]:
        """All tokens, those included that cannot be used any more, the oldest first."""
        ...

    def find_token(self, token_id: str) -> Plan[Holder | None]:
        """The token with this public id, whether it may be used, and the digest that its secret must have."""
        ...

    def count_usable_tokens(self) -> Plan[int]:
        """How many tokens are neither revoked nor expired."""
        ...

    def needs_token(self) -> Plan[bool]:
        """Whether a caller without a token is refused: from the first `create_token` on until `open_access`.

        Neither the end of a token nor its removal by retention changes the answer."""
        ...

    def open_access(self, *, by: str) -> Plan[bool]:
        """Need no token any more, until the next one is created; audited as `access.open`. False: none was needed.

        While a token is usable: `Conflict`."""
        ...

    def revoke_token(self, token_id: str, *, by: str) -> Plan[Token]:
        """From now on the token and its sessions open nothing; audited as `token.revoke`. Unknown: `NotFound`.

        Again it changes nothing."""
        ...

    def touch_token(self, token_id: str) -> Plan[None]:
        """Write down that a token is used now, at most once a minute."""
        ...

    def create_session(self, session_id: str, token_id: str, digest: str, life: int, *, by: str) -> Plan[Session]:
        """Keep a session of a token, at most until the token expires; audited as `session.create`.

        A token that is unknown, revoked or expired: `NotFound`."""
        ...

    def find_session(self, session_id: str) -> Plan[Holder | None]:
        """The token of the session with this public id; usable only while both of them are."""
        ...

    def end_session(self, session_id: str, *, by: str) -> Plan[bool]:
        """Forget a session; audited as `session.end`. False when there is none."""
        ...

    def take(self, name: str, count: int, period: int, n: int = 1) -> Plan[int | None]:
        """Take `n` from a bucket that holds `count` and fills up again within `period` microseconds.

        None when they were granted; else nothing is taken, and the answer is in how many microseconds there will be
        enough, if nobody else takes them."""
        ...


class AuditPort(Protocol):
    """The part of the admin port that reads who changed what."""

    def audit(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> Plan[list[AuditEntry]]:
        """What operators changed, the newest first; of one actor, one action, one target where they are given.

        `before` is the `seq` of the last entry of a page, for the next one."""
        ...
