"""`penstock status`: how it goes, on one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.connection import DEFAULTS, Answer, Common, connect
from penstock.cli.exit_codes import Exit
from penstock.cli.formatting import count, full, span
from penstock.cli.output import Output

_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


def status(
    *,
    strict: Annotated[bool, Parameter(negative="", help="Exit with 1 for a warning, too.")] = False,
    common: Common = DEFAULTS,
) -> Exit:
    """Say how it goes; the exit code is 1 when something critical holds, 6 when nobody answers.

    With --json the answers of /v1/system, /v1/stats, /v1/workers and /v1/alerts stand in one object.
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
