"""The audit: changes of operators, written in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from penstock.domain.access import AuditEntry
from penstock.domain.instant import to_datetime
from penstock.domain.plan import Statement, Steps, reads

Change = tuple[str, object, object]
"""The changed object, and its values before and after: anything that JSON can hold, or None."""


def entry(actor: str, action: str, target: str, before: object = None, after: object = None) -> Statement:
    """The statement that writes one audit row; `action` is like "definition.pause"."""
    return entries(actor, action, [(target, before, after)])


def entries(actor: str, action: str, changes: Iterable[Change]) -> Statement:
    """The statement that writes an audit row for each change; an `Actor` brings the id of its request."""
    rows = list(changes)
    columns: dict[str, Sequence[object]] = {
        "actor": [actor] * len(rows),
        "action": [action] * len(rows),
        "target": [target for target, _, _ in rows],
        "before": [_text(before) for _, before, _ in rows],
        "after": [_text(after) for _, _, after in rows],
        "request_id": [getattr(actor, "request_id", None)] * len(rows),
    }
    return Statement("save_audit", columns=columns)


@reads
def audit(
    *,
    limit: int = 100,
    before: int | None = None,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
) -> Steps[list[AuditEntry]]:
    """A part of the admin port."""
    wanted = {"audit_by": ("actor", actor), "audit_of": ("action", action), "audit_to": ("target", target)}
    conditions = {part: pair for part, pair in wanted.items() if pair[1] is not None}
    values: dict[str, object] = {"limit": limit, "before": before, **dict(conditions.values())}
    found = yield Statement("read_audit", values, parts=tuple(conditions))
    return [AuditEntry(seq, to_datetime(at), *rest) for seq, at, *rest in found]


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
