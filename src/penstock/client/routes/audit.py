"""`/v1/audit`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import given_only
from penstock.domain.admin import AuditEntry
from penstock.surface.audit import ListAudit


def list_audit(asked: ListAudit) -> Talk[list[AuditEntry]]:
    query = given_only(
        {
            "limit": asked.limit, "cursor": asked.before, "actor": asked.actor, "action": asked.action,
            "target": asked.target,
        }
    )  # fmt: skip
    return [_entry(each) for each in (yield Asked("GET", "/v1/audit", query=query)).json()["audit"]]


def _entry(told: Mapping[str, Any]) -> AuditEntry:
    return AuditEntry(
        seq=told["seq"],
        at=datetime.fromisoformat(told["at"]),
        actor=told["actor"],
        action=told["action"],
        target=told["target"],
        before=records.text(told["before"]),
        after=records.text(told["after"]),
        request_id=told["requestId"],
    )
