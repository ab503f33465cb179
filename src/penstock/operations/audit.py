"""Reads the record of operators' changes."""

from __future__ import annotations

from penstock.domain.admin import AuditEntry
from penstock.domain.errors import InvalidInput
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin
from penstock.surface import enqueue_options as given
from penstock.surface.audit import ListAudit

_MOST_ENTRIES = 1000


def list_audit(_: ApplicationSession, asked: ListAudit) -> Talk[list[AuditEntry]]:
    if not 1 <= given.integer(asked.limit, "limit") <= _MOST_ENTRIES:
        raise InvalidInput(f"limit must be 1 to {_MOST_ENTRIES}, not {asked.limit}.")
    entries: list[AuditEntry] = yield admin.audit(
        limit=asked.limit,
        before=None if asked.before is None else given.integer(asked.before, "before"),
        actor=given.short_text(asked.actor, "actor"),
        action=given.short_text(asked.action, "action"),
        target=given.short_text(asked.target, "target"),
    )
    return entries
