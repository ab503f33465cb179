"""The audit: which operator changed what, written in the transaction of the change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from penstock.core.plan import Statement

Change = tuple[str, object, object]
"""What was changed, and what was known of it before and after: anything that JSON can hold, None for nothing."""


def entry(actor: str, action: str, target: str, before: object = None, after: object = None) -> Statement:
    """The statement that writes one audit row; `action` is like "definition.pause"."""
    return entries(actor, action, [(target, before, after)])


def entries(actor: str, action: str, changes: Iterable[Change]) -> Statement:
    """The statement that writes an audit row for each change."""
    rows = list(changes)
    columns: dict[str, Sequence[object]] = {
        "actor": [actor] * len(rows),
        "action": [action] * len(rows),
        "target": [target for target, _, _ in rows],
        "before": [_text(before) for _, before, _ in rows],
        "after": [_text(after) for _, _, after in rows],
    }
    return Statement("save_audit", columns=columns)


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)
