"""Stored alerts: raised once, cleared once; a part of the admin port."""

from __future__ import annotations

import json
from collections.abc import Sequence

from penstock.domain import event as kinds
from penstock.domain.alerts import Alert, AlertNews, StoredAlert
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import from_datetime, maybe_datetime, to_datetime
from penstock.domain.job_json import iso
from penstock.domain.plan import Statement, Steps, reads, writes

MOST = 500
"""The longest page of alerts."""


@writes
def save_alerts(holding: Sequence[Alert]) -> Steps[AlertNews]:
    now_holding = {(each.kind, each.subject): each for each in holding}
    active = {(kind, subject) for kind, subject in (yield Statement("active_alerts"))}
    raised: list[Alert] = []
    cleared: list[Alert] = []
    if fresh := [now_holding[pair] for pair in sorted(now_holding.keys() - active)]:
        done = {(kind, subject) for kind, subject in (yield Statement("raise_alerts", columns=_columns(fresh)))}
        raised = [each for each in fresh if (each.kind, each.subject) in done]
    if over := sorted(active - now_holding.keys()):
        columns: dict[str, Sequence[object]] = {
            "kind": [kind for kind, _ in over],
            "subject": [subject for _, subject in over],
        }
        for kind, subject, message, severity, since in (yield Statement("clear_alerts", columns=columns)):
            cleared.append(Alert(kind, subject, message, severity, maybe_datetime(since)))
    told = [(kinds.ALERT_RAISED, each) for each in raised] + [(kinds.ALERT_CLEARED, each) for each in cleared]
    if told:
        yield _events(told)
    return AlertNews(raised, cleared)


@reads
def list_alerts(
    *, cleared: bool | None = None, limit: int = 100, before: int | None = None
) -> Steps[list[StoredAlert]]:
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"A page holds 1 to {MOST} alerts, not {limit}.")
    found = yield Statement("read_alerts", {"cleared": cleared, "limit": limit, "before": before})
    return [
        StoredAlert(
            seq, Alert(kind, subject, message, severity, maybe_datetime(since)), to_datetime(raised_at),
            maybe_datetime(cleared_at),
        )
        for seq, kind, subject, message, severity, since, raised_at, cleared_at in found
    ]  # fmt: skip


def _columns(alerts: Sequence[Alert]) -> dict[str, Sequence[object]]:
    return {
        "kind": [each.kind for each in alerts],
        "subject": [each.subject for each in alerts],
        "message": [each.message for each in alerts],
        "severity": [each.severity for each in alerts],
        "since": [None if each.since is None else from_datetime(each.since, "since") for each in alerts],
    }


def _events(told: Sequence[tuple[str, Alert]]) -> Statement:
    columns: dict[str, Sequence[object]] = {
        "kind": [kind for kind, _ in told],
        "job_id": [None] * len(told),
        "subject": [each.id for _, each in told],
        "fence": [None] * len(told),
        "data": [_data(each) for _, each in told],
    }
    return Statement("save_events", columns=columns)


def _data(alert: Alert) -> str:
    facts = {
        "kind": alert.kind, "subject": alert.subject, "message": alert.message, "severity": alert.severity,
        "since": iso(alert.since),
    }  # fmt: skip
    return json.dumps(facts, ensure_ascii=False)
