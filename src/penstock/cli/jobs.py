"""`penstock jobs`: list and show jobs, their attempts, logs and reasons; the other commands are in `job_*`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, Connection, connect, path
from penstock.cli.formatting import clock, full, short, span, style, took, when
from penstock.cli.job_selection import NO_FILTER, Cursor, Filter, Limit, job_id
from penstock.cli.output import Cell, Output, one_line
from penstock.domain.errors import InvalidInput
from penstock.domain.phases import ONLY
from penstock.domain.states import TERMINAL

app: App = App(name="jobs", help="List, follow and change jobs.")
for _name, _module, _help in (
    ("watch", "job_waiting", "Follow jobs live: phases, progress and log lines, until they have ended."),
    ("wait", "job_waiting", "Wait until jobs have ended; the exit code tells how."),
    ("cancel", "job_changes", "Cancel jobs; a running one is asked to stop, and killed after its grace period."),
    ("retry", "job_changes", "Queue failed, cancelled or stale jobs again, with all their attempts."),
    ("delete", "job_changes", "Delete ended jobs and everything that belongs to them."),
    ("rerun", "job_changes", "Create a copy of a job, with other parameters if given."),
    ("approve", "job_changes", "Approve a review: the job continues, or has succeeded."),
    ("reject", "job_changes", "Reject a review: the job fails."),
    ("reschedule", "job_changes", "Change the time or the priority of waiting jobs."),
):
    app.command(f"penstock.cli.{_module}:{_name}", name=_name, help=_help)

JobName = Annotated[str, Parameter(help="A job's id, its last characters, @last or @last-failed.")]
_FOLLOW = 0.5
_PHASES = ("PHASE", "STATUS", "PROGRESS", "TOOK", "MESSAGE", "ERROR")
_ATTEMPTS = ("ATTEMPT", "BECAME", "CAUSE", "STARTED", "TOOK", "MEMORY", "ERROR")
_TRIES = ("ATTEMPT", "PHASE", "ENDED AS", "PROGRESS", "TOOK", "MESSAGE", "ERROR")
_REVIEWS = ("REVIEW ASKED", "DECISION", "BY", "NOTE", "ANSWER")


@app.command(name=["list", "ls"])
def list_jobs(
    *,
    which: Filter = NO_FILTER,
    sort: Annotated[
        str,
        Parameter(allow_leading_hyphen=True, help="createdAt, finishedAt or priority; with - in descending order."),
    ] = ("-createdAt"),
    limit: Limit = 50,
    cursor: Cursor = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", help="Print ids only.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """List jobs, the newest first."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.get("/v1/jobs", **which.fields(), sort=sort, limit=limit, cursor=cursor, count=not quiet)
    if common.json:
        out.document(answer.text)
        return
    page = answer.data
    if quiet:
        for each in page["jobs"]:
            out.line(each["jobId"])
        _note_search(out, page)
        return
    out.table(
        ["STATUS", "DEFINITION", "ID", "TRIES", "PROGRESS", "CREATED", "TOOK", "ERROR"],
        [_row(out, each) for each in page["jobs"]],
        none="No job matches.",
    )
    if which.searches:
        _note_search(out, page)
    elif page["nextCursor"] is not None:
        more = f"{page['count']:,}{' or more' if page['countCapped'] else ''}"
        out.note(f"{len(page['jobs'])} of {more} jobs; continue with --cursor {page['nextCursor']}")


def _note_search(out: Output, page: Mapping[str, Any]) -> None:
    """Print how many jobs a search has examined."""
    if page["searched"] is not None and page["nextCursor"] is not None:
        out.note(f"{page['searched']:,} jobs were searched; continue with --cursor {page['nextCursor']}")
    elif page["searched"] is not None:
        out.note(f"{page['searched']:,} jobs were searched; there are no more.")


@app.command
def show(job: JobName, /, *, common: Common = DEFAULTS) -> None:
    """Show a job with its phases, attempts and reviews."""
    out = Output(common.json)
    with connect(common) as api:
        found = job_id(api, job)
        answer = api.get(path("jobs", found))
        tries: Any = {"attempts": [], "earlier": 0} if common.json else api.get(path("jobs", found, "attempts")).data
    if common.json:
        out.document(answer.text)
        return
    detail, ended = answer.data, tries["attempts"]
    out.facts(_facts(out, detail))
    tables = (
        (_PHASES, _phases(detail)),
        (_ATTEMPTS, _attempts(ended)),
        (_TRIES, _tries(ended)),
        (_REVIEWS, _reviews(detail)),
    )
    for headings, rows in tables:
        if rows:
            out.line("")
            out.table(headings, rows, none="")
    if tries["earlier"]:
        out.note(f"{tries['earlier']:,} earlier attempts are no longer kept.")
    trace = next((each["traceback"] for each in reversed(ended) if each["traceback"]), None)
    if trace and detail["status"] != "succeeded":
        out.line("")
        out.block(trace.rstrip("\n"))


@app.command
def attempts(job: JobName, /, *, common: Common = DEFAULTS) -> None:
    """List the ended attempts at a job that are kept."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.get(path("jobs", job_id(api, job), "attempts"))
    if common.json:
        out.document(answer.text)
        return
    ended = answer.data["attempts"]
    out.table(_ATTEMPTS, _attempts(ended), none="No attempt has ended.")
    if tries := _tries(ended):
        out.line("")
        out.table(_TRIES, tries, none="")
    if answer.data["earlier"]:
        out.note(f"{answer.data['earlier']:,} earlier attempts are no longer kept.")


@app.command
def why(job: JobName, /, *, common: Common = DEFAULTS) -> None:
    """Print why a job is not running, or what it does now."""
    out = Output(common.json)
    with connect(common) as api:
        found = job_id(api, job)
        answer = api.get(path("jobs", found, "why"))
        detail = None if common.json else api.get(path("jobs", found)).data
    if common.json or detail is None:
        out.document(answer.text)
        return
    out.line(f"Job {short(found)} of {detail['definitionKey']}, {detail['status']}:")
    for each in answer.data["reasons"]:
        until = f" (until {full(each['until'])})" if each["until"] else ""
        out.line(f"  {each['message']}{until}")


@app.command
def logs(
    job: JobName,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Continue until the job ends.")
    ] = False,
    level: Annotated[str | None, Parameter(help="The lowest level: debug, info, warning or error.")] = None,
    phase: Annotated[str | None, Parameter(help="Only lines of this phase.")] = None,
    attempt: Annotated[int | None, Parameter(help="Only lines of the attempt with this fence.")] = None,
    after: Annotated[int, Parameter(help="Continue after the line with this number.")] = 0,
    limit: Annotated[int, Parameter(help="Number of lines with --json, up to 500.")] = 200,
    common: Common = DEFAULTS,
) -> None:
    """Print the log lines of a job's attempts."""
    out = Output(common.json)
    if follow and common.json:
        raise InvalidInput("--follow prints lines, not one document.", hint="Leave out --json.")
    with connect(common) as api:
        found = job_id(api, job)
        asked: dict[str, Any] = {"level": level, "phase": phase, "attempt": attempt}
        if common.json:
            out.document(api.get(path("jobs", found, "logs"), after=after, limit=limit, **asked).text)
            return
        printed = False
        while True:
            ended = api.get(path("jobs", found)).data["status"] in TERMINAL
            before, after = after, print_logs(api, out, found, after, **asked)
            printed = printed or after > before
            if not follow or ended:
                if not printed:
                    out.note("It has no such log line." if any(asked.values()) else "It has no log line.")
                return
            time.sleep(_FOLLOW)


def print_logs(api: Connection, out: Output, found: str, after: int, **asked: Any) -> int:
    """Print all lines after a number; return the number of the last one."""
    while True:
        page = api.get(path("jobs", found, "logs"), after=after, limit=500, **asked).data
        for each in page["logs"]:
            out.line(log_line(each), _LEVELS.get(each["level"], ""))
            after = each["seq"]
        if page["nextAfter"] is None:
            return after


def log_line(line: Mapping[str, Any]) -> str:
    """Format a log line."""
    phase = f"{line['phase']}  " if line["phase"] else ""
    data = line["details"]
    if isinstance(data, dict):
        # The origin of a line is seldom of interest.
        data = {name: value for name, value in data.items() if name not in ("stream", "logger")}
    details = f"  {one_line(data)}" if data else ""
    length = "" if line["duration"] is None else f"  in {span(line['duration'])}"
    return f"{clock(line['at'])} {line['level'].upper():<7} {phase}{line['message']}{length}{details}"


_LEVELS = {"debug": "bright_black", "warning": "yellow", "error": "red"}


def error_text(error: Mapping[str, Any] | None) -> str:
    """Format an error on one line."""
    if error is None:
        return ""
    first = (error["message"] or "").split("\n")[0]
    return f"{error['type']}: {first}" if error["type"] else first


def _row(out: Output, job: Mapping[str, Any]) -> list[Cell]:
    progress = "" if job["progress"] is None or job["status"] in TERMINAL else f"{job['progress']:.0f}%"
    return [
        out.status(job["status"]),
        job["definitionKey"],
        short(job["jobId"]),
        f"{job['attempts']}/{job['maxAttempts']}",
        f"{progress} {job['currentPhase'] or ''}".strip() if progress else "",
        when(job["createdAt"]),
        took(job),
        error_text(job["error"]) if job["status"] != "succeeded" else "",
    ]


def _facts(out: Output, job: Mapping[str, Any]) -> dict[str, Cell | None]:
    reference = job["reference"]
    waiting = job["status"] in ("scheduled", "queued")
    return {
        "Job": job["jobId"],
        "Definition": f"{job['definitionKey']} (version {job['definitionVersion']})",
        "Status": out.status(job["status"]),
        "Outcome": job["outcome"] if job["outcome"] != job["status"] else None,
        "Progress": None
        if job["progress"] is None
        else f"{job['progress']:.0f}% {job['progressMessage'] or ''}".strip(),
        "Error": (error_text(job["error"]), style("failed")) if job["error"] else None,
        "Result": None if job["result"] is None else one_line(job["result"]),
        "Parameters": one_line(job["params"]),
        "Attempts": f"{job['attempts']} of {job['maxAttempts']}" + (f", {job['lost']} lost" if job["lost"] else ""),
        "Priority": str(job["priority"]),
        "Tags": ", ".join(job["tags"]),
        "Reference": None if reference is None else f"{reference['type']} {reference['id']}",
        "Idempotency key": job["idempotencyKey"],
        "Unique": job["unique"],
        "Concurrency key": job["concurrencyKey"],
        "Schedule": job["scheduleId"],
        "Parent": job["parentId"],
        "Rerun of": job["rerunOf"],
        "Created": f"{full(job['createdAt'])} by {job['actor']}" if job["actor"] else full(job["createdAt"]),
        "Due": f"{full(job['runAt'])} ({when(job['runAt'])})" if waiting else None,
        "Started": full(job["startedAt"]),
        "Finished": full(job["finishedAt"]) + _length(job) if job["finishedAt"] else None,
        "Worker": job["workerId"],
    }


def _length(job: Mapping[str, Any]) -> str:
    """How long an ended job took; of several attempts, how long the last one took."""
    if not (length := took(job)):
        return ""
    return f" (the last attempt took {length})" if job["attempts"] > 1 else f" (took {length})"


def _phases(job: Mapping[str, Any]) -> list[list[Cell]]:
    return [
        [each["name"], each["status"], f"{each['progress']:.0f}%", _took(each), each["message"] or "",
         (each["error"] or "").split("\n")[0]]
        for each in (job["phases"] if len(job["phases"]) > 1 else ())
    ]  # fmt: skip


def _attempts(attempts: list[Mapping[str, Any]]) -> list[list[Cell]]:
    return [
        [str(each["fence"]), each["status"], each["cause"], full(each["startedAt"]), _took(each),
         "" if each["peakMemory"] is None else f"{each['peakMemory'] / 1e6:.0f} MB", error_text(each["error"])]
        for each in attempts
    ]  # fmt: skip


def _tries(attempts: list[Mapping[str, Any]]) -> list[list[Cell]]:
    """Return what each attempt did in its phases, without the only phase of plain jobs."""
    return [
        [str(attempt["fence"]), each["name"], each["status"], f"{each['progress']:.0f}%", _took(each),
         each["message"] or "", (each["error"] or "").split("\n")[0]]
        for attempt in attempts
        for each in attempt["phases"]
        if len(attempt["phases"]) > 1 or each["name"] != ONLY
    ]  # fmt: skip


def _reviews(job: Mapping[str, Any]) -> list[list[Cell]]:
    return [
        [full(each["askedAt"]), each["decision"] or "waits", each["decidedBy"] or "", each["note"] or "",
         each["decidedNote"] or ""]
        for each in job["reviews"]
    ]  # fmt: skip


def _took(each: Mapping[str, Any]) -> str:
    end = each["finishedAt"]
    if not end or not each["startedAt"]:
        return ""
    from datetime import datetime

    return span((datetime.fromisoformat(end) - datetime.fromisoformat(each["startedAt"])).total_seconds())
