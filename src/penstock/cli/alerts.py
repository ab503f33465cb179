"""`penstock alerts`: what somebody should look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.output import Cell, Output
from penstock.cli.writing import full, when

app = App(name="alerts", help="What somebody should look at.")


@app.command(name=["list", "ls"])
def list_alerts(*, common: Common = DEFAULTS) -> None:
    """List what holds now, the critical first."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.get("/v1/alerts")
    if common.json:
        out.document(answer.text)
        return
    rows: list[list[Cell]] = [
        [_severity(each), each["kind"], each["subject"],
         when(each["since"]), each["message"]]
        for each in answer.data["alerts"]
    ]  # fmt: skip
    out.table(["SEVERITY", "KIND", "SUBJECT", "SINCE", "MESSAGE"], rows, none="There is no alert.")


@app.command
def history(
    *,
    cleared: Annotated[bool | None, Parameter(help="Only those that are over, or only those that stand.")] = None,
    limit: Annotated[int, Parameter(help="How many, up to 500.")] = 100,
    cursor: Annotated[str | None, Parameter(help="Go on behind an earlier page.")] = None,
    common: Common = DEFAULTS,
) -> None:
    """List alerts that were raised, the newest first."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.get("/v1/alerts/history", cleared=cleared, limit=limit, cursor=cursor)
    if common.json:
        out.document(answer.text)
        return
    rows: list[list[Cell]] = [
        [_severity(each), each["kind"], each["subject"], full(each["raisedAt"]), full(each["clearedAt"]) or "stands",
         each["message"]]
        for each in answer.data["alerts"]
    ]  # fmt: skip
    out.table(["SEVERITY", "KIND", "SUBJECT", "RAISED", "CLEARED", "MESSAGE"], rows, none="There was no alert.")
    if answer.data["nextCursor"] is not None:
        out.note(f"There are more; go on with --cursor {answer.data['nextCursor']}")


def _severity(alert: Mapping[str, Any]) -> Cell:
    return alert["severity"], "red" if alert["severity"] == "critical" else "yellow"
