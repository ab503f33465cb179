"""`penstock workers`: list workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.formatting import short, when
from penstock.cli.output import Cell, Output

app: App = App(name="workers", help="List workers.")


@app.command(name=["list", "ls"])
def list_workers(
    *,
    ended: Annotated[bool, Parameter(name="--all", negative="", help="Include workers that ended.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """List workers in the order in which they started; --json includes those that ended recently."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.get("/v1/workers")
    if common.json:
        out.document(answer.text)
        return
    rows: list[list[Cell]] = [
        [short(each["workerId"]), each["name"], _state(each), str(each["pid"]), str(each["slots"]),
         when(each["startedAt"]), when(each["heartbeatAt"]), str(len(each["definitions"])), _troubles(each)]
        for each in answer.data["workers"] if ended or each["live"]
    ]  # fmt: skip
    out.table(
        ["ID", "NAME", "STATE", "PID", "SLOTS", "STARTED", "HEARTBEAT", "DEFINITIONS", "TROUBLES"],
        rows,
        none="No worker is live; start one with `penstock worker`.",
    )


def _state(worker: Mapping[str, Any]) -> Cell:
    if worker["live"]:
        return "live", "green"
    return worker["ended"] or "silent", "red" if worker["ended"] != "stopped" else "bright_black"


def _troubles(worker: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['name']}: {each['lastError']}" for each in worker["duties"] if each["lastError"])
