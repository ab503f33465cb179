"""`app.audit`: what operators changed."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import ClassVar

from penstock.domain.admin import AuditEntry
from penstock.surface.session import Operation, Session


@dataclass(frozen=True, slots=True)
class ListAudit(Operation[list[AuditEntry]]):
    call: ClassVar[str] = "audit.list"
    limit: int
    before: int | None
    actor: str | None
    action: str | None
    target: str | None


class Audit:
    """The record of operators' changes; each call has a twin with an `a` in front, for event loops."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> builtins.list[AuditEntry]:
        """What operators changed, the newest first; for the next page give the `seq` of the last entry as `before`."""
        return self._session.do(ListAudit(limit, before, actor, action, target))

    async def alist(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> builtins.list[AuditEntry]:
        return await self._session.ado(ListAudit(limit, before, actor, action, target))
