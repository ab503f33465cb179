"""`penstock errors`: failures, those that look alike together."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.filters import Cursor, Limit
from penstock.cli.formatting import moment, short, when
from penstock.cli.output import Cell, Output

app: App = App(name="errors", help="Failures, those that look alike together.")


@app.command(name=["list", "ls"])
def list_errors(
    *,
    since: Annotated[str | None, Parameter(help="Since when: 2h, 7d, or a time; a day ago by default.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List what failed, the newest first."""
    out = Output(common.json)
    with connect(common) as api:
        begin = None if since is None else moment(since, past=True)
        answer = api.get("/v1/errors", since=begin, limit=limit, cursor=cursor)
    if common.json:
        out.document(answer.text)
        return
    rows: list[list[Cell]] = [
        [each["fingerprint"], each["definitionKey"], str(each["jobs"]), str(each["attempts"]), when(each["lastAt"]),
         short(each["jobId"]), ": ".join(filter(None, (each["type"], each["message"])))]
        for each in answer.data["errors"]
    ]  # fmt: skip
    out.table(
        ["FINGERPRINT", "DEFINITION", "JOBS", "ATTEMPTS", "LAST", "NEWEST", "ERROR"], rows, none="Nothing failed."
    )
    if rows:
        out.note("the jobs of one: penstock jobs list --fingerprint …")
    out.more(answer.data["nextCursor"])
