"""`penstock alerts`: what somebody should look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.filters import Cursor, Limit
from penstock.cli.formatting import full, when
from penstock.cli.output import Cell, Output

app: App = App(name="alerts", help="What somebody should look at.")


@app.command(name=["list", "ls"])
def list_alerts(*, common: Common = DEFAULTS) -> None:
    """List what holds now, the critical first."""
    with connect(common) as api:
        answer = api.get("/v1/alerts")
    headings = ["SEVERITY", "KIND", "SUBJECT", "SINCE", "MESSAGE"]
    Output(common.json).page(answer, "alerts", headings, _row, none="There is no alert.")


@app.command
def history(
    *,
    cleared: Annotated[bool | None, Parameter(help="Only those that are over, or only those that stand.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List alerts that were raised, the newest first."""
    with connect(common) as api:
        answer = api.get("/v1/alerts/history", cleared=cleared, limit=limit, cursor=cursor)
    headings = ["SEVERITY", "KIND", "SUBJECT", "RAISED", "CLEARED", "MESSAGE"]
    Output(common.json).page(answer, "alerts", headings, _past_row, none="There was no alert.")


def _row(alert: Mapping[str, Any]) -> list[Cell]:
    return [_severity(alert), alert["kind"], alert["subject"], when(alert["since"]), alert["message"]]


def _past_row(alert: Mapping[str, Any]) -> list[Cell]:
    cleared = full(alert["clearedAt"]) or "stands"
    return [_severity(alert), alert["kind"], alert["subject"], full(alert["raisedAt"]), cleared, alert["message"]]


def _severity(alert: Mapping[str, Any]) -> Cell:
    return alert["severity"], "red" if alert["severity"] == "critical" else "yellow"
