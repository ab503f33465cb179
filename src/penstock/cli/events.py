"""`penstock events`: print events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.formatting import clock, short
from penstock.cli.job_selection import job_id as full_id
from penstock.cli.output import Output, one_line, write
from penstock.domain.errors import InvalidInput

app: App = App(name="events", help="Show events of jobs, schedules and workers.")
_LONGEST = 200


@app.command
def tail(
    *,
    type: Annotated[
        tuple[str, ...], Parameter(negative="", help="A type, such as job.failed or job.*; may be repeated.")
    ] = (),
    definition_key: Annotated[str | None, Parameter(help="Only for jobs of this definition.")] = None,
    job_id: Annotated[tuple[str, ...], Parameter(negative="", help="Only for this job; may be repeated.")] = (),
    after: Annotated[str | None, Parameter(help="Continue after a cursor; origin: all stored events.")] = None,
    limit: Annotated[int, Parameter(help="Number of events with --json, up to 500.")] = 100,
    ndjson: Annotated[bool, Parameter(negative="", help="Print each event as a line of JSON.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """Print events as they happen until Ctrl-C; with --json print one page of stored events, from the oldest on."""
    if ndjson and common.json:
        raise InvalidInput("--json prints one document, --ndjson one per line.", hint="Give one of them.")
    out = Output(common.json)
    with connect(common) as api:
        asked: dict[str, Any] = {
            "type": list(type), "definitionKey": definition_key, "jobId": [full_id(api, each) for each in job_id],
        }  # fmt: skip
        if common.json:
            out.document(api.get("/v1/events", **asked, after=after, limit=limit).text)
            return
        for received in api.events("/v1/events", after=after, **asked):
            if ndjson:
                write(one_line(json.loads(received.data)))
            elif received.kind == "resync":
                out.note("Events were deleted before they could be shown.")
            else:
                out.line(_line(json.loads(received.data)))


def _line(event: Mapping[str, Any]) -> str:
    job = event["job"]
    if job is not None:
        subject = f"{job['definitionKey']} …{short(job['jobId'])}"
    else:
        subject = event["deletedJobId"] or event["subject"] or ""
    data = one_line(event["data"]) if event["data"] else ""
    cut = f"{data[:_LONGEST]}…" if len(data) > _LONGEST else data
    return f"{clock(event['at'])} {event['type']:<20} {subject}  {cut}".rstrip()
