"""`penstock schedules`: list, create, change, pause and preview schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Group, Parameter

from penstock.cli.connection import DEFAULTS, Answer, Common, connect, path
from penstock.cli.definitions import Reason, Until
from penstock.cli.formatting import full, moment, seconds, short, span, when
from penstock.cli.job_selection import Cursor, Limit
from penstock.cli.output import Cell, Output, one_line
from penstock.cli.parameters import object_of
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import MASK

_WHEN = Group("When", sort_key=40)
_HOW = Group("How", sort_key=50)


@Parameter(name="*")
@dataclass(frozen=True)
class When:
    """The time options of a schedule."""

    cron: Annotated[str | None, Parameter(group=_WHEN, help="A cron expression: '0 3 * * *', @daily.")] = None
    every: Annotated[str | None, Parameter(group=_WHEN, help="An interval: 90s, 1h30m, 7d.")] = None
    at: Annotated[str | None, Parameter(group=_WHEN, help="Once: a time, or a duration from now.")] = None
    timezone: Annotated[str | None, Parameter(group=_WHEN, help="The time zone of the expression; UTC by default.")] = (
        None
    )

    def fields(self) -> dict[str, Any]:
        """Return the given fields as the API takes them."""
        given = [
            (kind, text) for kind, text in (("cron", self.cron), ("interval", self.every), ("once", self.at)) if text
        ]
        if len(given) > 1:
            raise InvalidInput("Give one of --cron, --every and --at.")
        data: dict[str, Any] = {} if self.timezone is None else {"timezone": self.timezone}
        for kind, text in given:
            data |= {"kind": kind, "expression": moment(text, past=False) if kind == "once" else text}
        return data


@Parameter(name="*")
@dataclass(frozen=True)
class Policies:
    """The other options of a schedule."""

    definition_version: Annotated[
        int | None, Parameter(group=_HOW, help="Version of the definition; by default the highest.")
    ] = None
    priority: Annotated[int | None, Parameter(group=_HOW, help="Priority of its jobs, 0 to 20.")] = None
    concurrency_key: Annotated[str | None, Parameter(group=_HOW, help="Concurrency key of its jobs.")] = None
    missed: Annotated[str | None, Parameter(group=_HOW, help="Policy for missed ticks: skip, latest, all.")] = None
    missed_max: Annotated[
        int | None, Parameter(group=_HOW, help="The greatest number of missed ticks that create a job.")
    ] = None
    missed_window: Annotated[
        str | None, Parameter(group=_HOW, help="The greatest age of a missed tick, such as 6h.")
    ] = None
    overlap: Annotated[
        str | None, Parameter(group=_HOW, help="Policy while the previous job runs: allow, skip, queue_one.")
    ] = None
    jitter: Annotated[str | None, Parameter(group=_HOW, help="Spread ticks over this duration.")] = None
    enabled: Annotated[bool | None, Parameter(group=_HOW, help="Whether it is enabled.")] = None

    def fields(self) -> dict[str, Any]:
        """Return the given fields as the API takes them."""
        data: dict[str, Any] = {
            "definitionVersion": self.definition_version,
            "priority": self.priority,
            "concurrencyKey": self.concurrency_key,
            "missed": self.missed,
            "missedMax": self.missed_max,
            "missedWindow": None if self.missed_window is None else seconds(self.missed_window),
            "overlap": self.overlap,
            "jitter": None if self.jitter is None else seconds(self.jitter),
            "enabled": self.enabled,
        }
        return {name: value for name, value in data.items() if value is not None}


NO_TIME = When()
NOTHING = Policies()


app: App = App(name="schedules", help="Manage schedules.")

Key = Annotated[str, Parameter(help="The schedule's key.")]
Pairs = Annotated[str, Parameter(help="Parameters of its jobs, such as width=640.")]
Params = Annotated[
    str | None,
    Parameter(allow_leading_hyphen=True, help="Parameters of its jobs: a JSON object, @file, or - for stdin."),
]
Count = Annotated[int, Parameter(help="Number of ticks, up to 100.")]


@app.command(name=["list", "ls"])
def list_schedules(
    *,
    limit: Limit = 100,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List schedules by key."""
    with connect(common) as api:
        answer = api.get("/v1/schedules", limit=limit, cursor=cursor)
    headings = ["SCHEDULE", "DEFINITION", "STATE", "WHEN", "ZONE", "NEXT", "LAST", "OWNER"]
    Output(common.json).page(answer, "schedules", headings, _row, none="There is no schedule.")


@app.command
def show(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Show a schedule."""
    with connect(common) as api:
        _show(Output(common.json), api.get(path("schedules", key)))


@app.command
def create(
    key: Key,
    definition: Annotated[str, Parameter(help="The key of the definition of its jobs.")],
    /,
    *pairs: Pairs,
    time: When = NO_TIME,
    params: Params = None,
    policies: Policies = NOTHING,
    common: Common = DEFAULTS,
) -> None:
    """Create a schedule; an existing key is refused."""
    body = {"key": key, "definitionKey": definition, **time.fields(), **policies.fields()}
    if "kind" not in body:
        raise InvalidInput("No time was given.", hint="Give --cron, --every or --at.")
    body["params"] = object_of(pairs, params)
    with connect(common) as api:
        answer = api.post("/v1/schedules", body)
    _show(Output(common.json), answer)


@app.command
def edit(
    key: Key,
    /,
    *pairs: Pairs,
    time: When = NO_TIME,
    params: Params = None,
    policies: Policies = NOTHING,
    common: Common = DEFAULTS,
) -> None:
    """Change the given fields of a schedule. An operator owns it afterwards, even if code declared it.

    Single parameters replace stored ones by name, --params replaces all of them. Stored secrets are not readable, so
    they must be given again.

    """
    body = {**time.fields(), **policies.fields()}
    with connect(common) as api:
        headers: dict[str, str] = {}
        if pairs and params is None:
            stored = api.get(path("schedules", key))
            headers["If-Match"] = stored.headers["etag"]
            body["params"] = _merged(stored.data["params"], object_of(pairs, None))
        elif pairs or params is not None:
            body["params"] = object_of(pairs, params)
        if not body:
            raise InvalidInput("No change was given.", hint="`penstock schedules edit --help` lists the options.")
        answer = api.ask("PATCH", path("schedules", key), body=body, headers=headers)
    _show(Output(common.json), answer)


@app.command
def pause(key: Key, /, *, reason: Reason, until: Until = None, common: Common = DEFAULTS) -> None:
    """Pause a schedule until it is resumed; ticks meanwhile are skipped."""
    body = {"reason": reason, "until": None if until is None else moment(until, past=False)}
    _change(common, key, "pause", body)


@app.command
def resume(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Resume a paused schedule with its next tick."""
    _change(common, key, "resume")


@app.command
def trigger(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Create a job of a schedule now, independent of its ticks."""
    out = Output(common.json)
    with connect(common) as api:
        answer = api.post(path("schedules", key, "trigger"))
    if common.json:
        out.document(answer.text)
        return
    made = answer.data
    out.line(made["jobId"])
    out.note(f"{made['status']}; follow it by `penstock jobs watch {short(made['jobId'])}`")


@app.command
def preview(
    key: Annotated[str | None, Parameter(help="A schedule's key; or use --cron, --every or --at.")] = None,
    /,
    *,
    time: When = NO_TIME,
    count: Count = 10,
    common: Common = DEFAULTS,
) -> None:
    """Show the next ticks of a schedule, or of an expression."""
    asked = time.fields()
    if (key is None) == ("kind" not in asked):
        raise InvalidInput("Give a schedule, or --cron, --every or --at, not both.")
    if key is not None and asked:
        raise InvalidInput(
            f"Schedule {key[:80]!r} has a time zone of its own.",
            hint="--timezone requires --cron, --every or --at; change a schedule with `penstock schedules edit`.",
        )
    out = Output(common.json)
    with connect(common) as api:
        if key is None:
            answer = api.post("/v1/schedules/preview", {**asked, "count": count}, repeatable=True)
        else:
            answer = api.get(path("schedules", key, "preview"), count=count)
    if common.json:
        out.document(answer.text)
        return
    out.line(answer.data["sentence"])
    rows: list[list[Cell]] = [[each["local"], full(each["at"]), each["relative"]] for each in answer.data["fires"]]
    out.table(["LOCAL", "UTC", "FROM NOW"], rows, none="It has no more ticks.")


@app.command
def ticks(key: Key, /, *, limit: Limit = 50, common: Common = DEFAULTS) -> None:
    """List the ticks of a schedule with their results, the newest first."""
    with connect(common) as api:
        answer = api.get(path("schedules", key, "ticks"), limit=limit)
    headings = ["TICK", "VERDICT", "PASSED OVER", "JOB", "DECIDED"]
    Output(common.json).page(answer, "ticks", headings, _tick_row, none="It has not ticked yet.")


@app.command
def delete(
    key: Key,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask first.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """Delete a schedule; its jobs stay."""
    out = Output(common.json)
    out.ask(f"This deletes the schedule {key}.", yes=yes)
    with connect(common) as api:
        api.ask("DELETE", path("schedules", key))
    if common.json:
        out.document("{}")
    else:
        out.line(f"{key} is deleted.")


def _merged(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge parameters; refuse to send back a masked secret, because the mask would be stored."""
    hidden = [name for name, value in stored.items() if name not in given and f'"{MASK}"' in one_line(value)]
    if hidden:
        raise InvalidInput(
            f"The secrets in {', '.join(hidden)} are not readable, and would be lost.",
            hint="Give them again as name=value, or all parameters with --params.",
        )
    return {**stored, **given}


def _change(common: Common, key: str, verb: str, body: Mapping[str, Any] | None = None) -> None:
    out = Output(common.json)
    with connect(common) as api:
        answer = api.post(path("schedules", key, verb), body, repeatable=True)
    if common.json:
        out.document(answer.text)
    else:
        out.line(f"{key} is {_state(answer.data)[0]}; next tick: {when(answer.data['nextRunAt']) or 'none'}.")


def _row(data: Mapping[str, Any]) -> list[Cell]:
    return [
        data["key"], data["definitionKey"], _state(data), data["expression"], data["timezone"],
        when(data["nextRunAt"]), when(data["lastScheduledAt"]), data["owner"],
    ]  # fmt: skip


def _tick_row(data: Mapping[str, Any]) -> list[Cell]:
    job = "" if data["jobId"] is None else short(data["jobId"])
    return [full(data["scheduledFor"]), data["verdict"], str(data["passedOver"] or ""), job, full(data["at"])]


def _state(data: Mapping[str, Any]) -> tuple[str, str]:
    if data["error"]:
        return "broken", "red"
    if not data["enabled"]:
        return "disabled", "bright_black"
    return ("paused", "yellow") if data["pause"] is not None else ("on", "")


def _show(out: Output, answer: Answer) -> None:
    if out.as_json:
        out.document(answer.text)
        return
    data = answer.data
    pause = data["pause"]
    missed = data["missed"] + (f", up to {data['missedMax']}" if data["missed"] == "all" else "")
    out.facts({
        "Schedule": data["key"],
        "Definition": data["definitionKey"] + (f" (version {data['definitionVersion']})" if data["definitionVersion"]
                                               else ""),
        "State": _state(data),
        "Paused": None if pause is None else f"by {pause['by']} at {full(pause['at'])}: {pause['reason']}",
        "Until": None if pause is None else full(pause["until"]),
        "When": f"{data['kind']} {data['expression']}, {data['timezone']}",
        "Parameters": one_line(data["params"]),
        "Priority": None if data["priority"] is None else str(data["priority"]),
        "Concurrency key": data["concurrencyKey"],
        "Missed ticks": missed + (f", within {span(data['missedWindow'])}" if data["missedWindow"] else ""),
        "Overlap": data["overlap"],
        "Jitter": span(data["jitter"]) if data["jitter"] else None,
        "Next": f"{full(data['nextRunAt'])} ({when(data['nextRunAt'])})" if data["nextRunAt"] else "none",
        "Last": full(data["lastScheduledAt"]),
        "Owner": data["owner"] + (f" ({data['origin']})" if data["origin"] else ""),
        "Error": (data["error"], "red") if data["error"] else None,
    })  # fmt: skip
