"""`penstock status`, `penstock alerts` and `penstock errors`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Answer, Common, connect
from penstock.cli.exit_codes import Exit
from penstock.cli.formatting import count, full, moment, short, span, when
from penstock.cli.job_selection import Cursor, Limit
from penstock.cli.output import Cell, Output

_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


def status(
    *,
    strict: Annotated[bool, Parameter(negative="", help="Exit with 1 for warnings too.")] = False,
    common: Common = DEFAULTS,
) -> Exit:
    """Summarise the system; exit code 1 if something is critical, 6 if there is no answer.

    With --json the answers of /v1/system, /v1/stats, /v1/workers and /v1/alerts are printed as one object.

    """
    out = Output(common.json)
    with connect(common) as api:
        answers = {name: api.get(f"/v1/{name}") for name in ("system", "stats", "workers", "alerts")}
    alerts = answers["alerts"].data["alerts"]
    if common.json:
        out.document("{" + ",".join(f'"{name}":{answer.text}' for name, answer in answers.items()) + "}")
    else:
        for grade, text in [*_lines(answers), *_alerts(alerts)]:
            out.line(f"{grade:<4} {text}", _COLOURS[grade])
    if any(each["severity"] == "critical" for each in alerts):
        return Exit.FAILED
    return Exit.FAILED if strict and alerts else Exit.DONE


def _lines(answers: Mapping[str, Answer]) -> list[tuple[str, str]]:
    system, stats, workers = (answers[name].data for name in ("system", "stats", "workers"))
    live = [each for each in workers["workers"] if each["live"]]
    counts, flow, durations = stats["counts"], stats["flow"], stats["durations"]
    ended = flow["succeeded"] + flow["failed"]
    hour = f"since {full(stats['since'])}: {flow['succeeded']:,} succeeded, {flow['failed']:,} failed"
    hour += f" ({100 * flow['failed'] / ended:.1f} %)" if ended else ""
    hour += f", p95 {span(durations['p95'])}" if durations else ""
    waiting = (
        f"{stats['depth']:,} queued, {counts.get('scheduled', 0):,} scheduled, {counts.get('running', 0):,} running"
    )
    found = [
        ("ok", f"penstock {system['version']} on {system['store']}, store's time {full(system['now'])}"),
        ("ok" if live else "warn", f"{count(len(live), 'live worker')}, {sum(each['slots'] for each in live)} slots"),
        ("ok", waiting),
        ("ok", hour),
    ]
    if system["pause"] is not None:
        found.append(("warn", f"everything is paused by {system['pause']['by']}: {system['pause']['reason']}"))
    if not system["workersEnabled"]:
        found.append(("warn", "workers are disabled by their configuration"))
    if counts.get("review_needed"):
        found.append(("warn", f"{count(counts['review_needed'], 'job')} waiting for a review"))
    return found


def _alerts(alerts: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [("bad" if each["severity"] == "critical" else "warn", each["message"]) for each in alerts]


alerts_app: App = App(name="alerts", help="List alerts.")


@alerts_app.command(name=["list", "ls"])
def list_alerts(*, common: Common = DEFAULTS) -> None:
    """List the active alerts, critical ones first."""
    with connect(common) as api:
        answer = api.get("/v1/alerts")
    headings = ["SEVERITY", "KIND", "SUBJECT", "SINCE", "MESSAGE"]
    Output(common.json).page(answer, "alerts", headings, _row, none="There is no alert.")


@alerts_app.command
def history(
    *,
    cleared: Annotated[bool | None, Parameter(help="Only cleared alerts, or only active ones.")] = None,
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
    cleared = full(alert["clearedAt"]) or "active"
    return [_severity(alert), alert["kind"], alert["subject"], full(alert["raisedAt"]), cleared, alert["message"]]


def _severity(alert: Mapping[str, Any]) -> Cell:
    return alert["severity"], "red" if alert["severity"] == "critical" else "yellow"


errors_app: App = App(name="errors", help="List failures, grouped by cause.")


@errors_app.command(name=["list", "ls"])
def list_errors(
    *,
    since: Annotated[
        str | None, Parameter(help="Failures since then: 2h, 7d, or a time; by default a day ago.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List failures, the newest first."""
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
