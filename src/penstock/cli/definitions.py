"""`penstock definitions`: list definitions, pause, disable and retire them, and override their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Answer, Common, connect, path
from penstock.cli.formatting import full, moment, seconds, span
from penstock.cli.job_selection import Cursor, Limit
from penstock.cli.output import Cell, Output, one_line
from penstock.domain.errors import InvalidInput

app: App = App(name="definitions", help="Manage definitions and their limits.")

Key = Annotated[str, Parameter(help="The definition's key.")]
MaybeKey = Annotated[str | None, Parameter(help="The definition's key.")]
All = Annotated[bool, Parameter(name="--all", negative="", help="The whole system instead of one definition.")]
Until = Annotated[str | None, Parameter(help="When the pause ends: a time, or a duration from now.")]
Reason = Annotated[str, Parameter(help="The reason; it is visible to all users.")]


@app.command(name=["list", "ls"])
def list_definitions(
    *,
    limit: Limit = 100,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List definitions by key."""
    with connect(common) as api:
        answer = api.get("/v1/definitions", limit=limit, cursor=cursor)
    headings = ["DEFINITION", "VERSION", "STATE", "WORKERS", "WAITING", "RUNNING", "FAILED", "DESCRIPTION"]
    none = "No definition is known yet; a worker registers those of its code."
    Output(common.json).page(answer, "definitions", headings, _row, none=none)


@app.command
def show(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Show a definition with all its versions."""
    with connect(common) as api:
        _show(Output(common.json), api.get(path("definitions", key)))


@app.command
def pause(
    key: MaybeKey = None, /, *, reason: Reason, until: Until = None, everything: All = False, common: Common = DEFAULTS
) -> None:
    """Stop starting jobs of a definition, or of all with --all, until it is resumed; running jobs continue."""
    body = {"reason": reason, "until": None if until is None else moment(until, past=False)}
    _change(common, _one(key, everything), "pause", body)


@app.command
def resume(key: MaybeKey = None, /, *, everything: All = False, common: Common = DEFAULTS) -> None:
    """Resume a paused definition, or the whole system with --all."""
    _change(common, _one(key, everything), "resume")


@app.command
def enable(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Allow the creation of jobs of a definition again."""
    _change(common, key, "enable")


@app.command
def disable(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Refuse the creation of jobs of a definition; existing jobs continue."""
    _change(common, key, "disable")


@app.command
def retire(key: Key, /, *, common: Common = DEFAULTS) -> None:
    """Refuse the creation of jobs of a definition that no code declares any more; waiting jobs can be cancelled."""
    _change(common, key, "retire")


@app.command
def remove(
    key: Key,
    /,
    *,
    version: Annotated[int | None, Parameter(help="Remove this version only.")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask first.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """Remove a definition; its ended jobs stay readable until retention deletes them."""
    out = Output(common.json)
    named = key if version is None else f"version {version} of {key}"
    out.ask(f"This removes {named} and the schedules that its code has declared.", yes=yes)
    with connect(common) as api:
        api.ask("DELETE", path("definitions", key), query={"version": version})
    if common.json:
        out.document("{}")
    else:
        out.line(f"{named} is removed.")


@app.command(name="set")
def set_limits(
    key: Key,
    /,
    *,
    concurrency: Annotated[str | None, Parameter(help="Concurrent jobs; 0: no limit, code: the code's value.")] = None,
    key_concurrency: Annotated[
        str | None, Parameter(help="Concurrent jobs of each concurrency key; 0 or code.")
    ] = None,
    rate_limit: Annotated[str | None, Parameter(help="Starts in a time, such as 5/s or 100/10m; 0 or code.")] = None,
    per_key: Annotated[bool, Parameter(negative="", help="Apply the rate to each concurrency key separately.")] = False,
    priority: Annotated[str | None, Parameter(help="0 to 20, for jobs created later; or code.")] = None,
    max_attempts: Annotated[str | None, Parameter(help="1 to 1000, for jobs created later; or code.")] = None,
    backoff: Annotated[
        str | None, Parameter(help="Pauses before retries: 30s, a list 5s,1m,10m, a doubling one 5s..1h; or code.")
    ] = None,
    timeout: Annotated[str | None, Parameter(help="For later attempts, such as 5m; 0: no limit, or code.")] = None,
    log_level: Annotated[
        str | None, Parameter(help="For later attempts: debug, info, warning or error; or code.")
    ] = None,
    common: Common = DEFAULTS,
) -> None:
    """Override limits and options of the code; options that are not given stay unchanged."""
    if {concurrency, key_concurrency, rate_limit, priority, max_attempts, backoff, timeout, log_level} == {None}:
        raise InvalidInput(
            "No change was given.",
            hint="Give --concurrency, --key-concurrency, --rate-limit, --priority, --max-attempts, --backoff, "
            "--timeout or --log-level.",
        )
    if per_key and rate_limit is None:
        raise InvalidInput("--per-key requires --rate-limit.")
    with connect(common) as api:
        stored = api.get(path("definitions", key)).data["overrides"]
        data = {
            "concurrency": _limit(concurrency, stored["concurrency"], "--concurrency"),
            "keyConcurrency": _limit(key_concurrency, stored["keyConcurrency"], "--key-concurrency"),
            "rateLimit": _rate(rate_limit, per_key) if rate_limit is not None else _kept(stored["rateLimit"]),
            "priority": _limit(priority, stored["priority"], "--priority"),
            "maxAttempts": _limit(max_attempts, stored["maxAttempts"], "--max-attempts"),
            "backoff": _asked_again(stored["backoff"]) if backoff is None else _pauses(backoff),
            "timeout": stored["timeout"] if timeout is None else None if timeout == "code" else seconds(timeout),
            "logLevel": stored["logLevel"] if log_level is None else None if log_level == "code" else log_level,
        }
        answer = api.ask("PUT", path("definitions", key, "overrides"), body=data, repeatable=True)
    _show(Output(common.json), answer)


def _one(key: str | None, everything: bool) -> str | None:
    """Return the definition to change; None: all of them."""
    if (key is None) != everything:
        raise InvalidInput("Give a definition or --all, not both.")
    return key


def _change(common: Common, key: str | None, verb: str, body: Mapping[str, Any] | None = None) -> None:
    route = path("system", verb) if key is None else path("definitions", key, verb)
    with connect(common) as api:
        answer = api.post(route, body, repeatable=True)
    out = Output(common.json)
    if common.json:
        out.document(answer.text)
    elif key is None:
        out.line("Everything is paused." if answer.data["pause"] else "Everything is resumed.")
    else:
        out.line(f"{key} is {_state(answer.data)[0]}.")


def _row(data: Mapping[str, Any]) -> list[Cell]:
    newest, counts = data["versions"][0], data["counts"]
    return [
        data["key"], f"v{newest['version']}", _state(data), str(data["liveWorkers"]),
        str(counts.get("scheduled", 0) + counts.get("queued", 0)), str(counts.get("running", 0)),
        str(counts.get("failed", 0)), newest["description"].split("\n")[0],
    ]  # fmt: skip


def _state(definition: Mapping[str, Any]) -> tuple[str, str]:
    if definition["retired"] is not None:
        return "retired", "red"
    if not definition["enabled"]:
        return "disabled", "red"
    if definition["pause"] is not None:
        return f"paused: {definition['pause']['reason']}", "yellow"
    return "open", ""


def _show(out: Output, answer: Answer) -> None:
    if out.as_json:
        out.document(answer.text)
        return
    found = answer.data
    pause, retired = found["pause"], found["retired"]
    overrides = {name: value for name, value in found["overrides"].items() if value is not None}
    out.facts({
        "Definition": found["key"],
        "State": _state(found),
        "Retired": None if retired is None else f"by {retired['by']} at {full(retired['at'])}",
        "Paused": None if pause is None else f"by {pause['by']} at {full(pause['at'])}",
        "Until": None if pause is None else full(pause["until"]),
        "Overrides": one_line(overrides) if overrides else None,
        "Jobs": ", ".join(f"{number:,} {status}" for status, number in found["counts"].items()),
        "Live workers": str(found["liveWorkers"]),
    })  # fmt: skip
    for version in found["versions"]:
        out.line("")
        out.facts({f"Version {version['version']}": version["description"] or "–", **_version(version)})


def _version(data: Mapping[str, Any]) -> dict[str, Cell | None]:
    return {
        "  Phases": ", ".join(data["phases"]),
        "  Parameters": one_line(data["schema"].get("properties", {})),
        "  Defaults": one_line(data["defaultParams"]) if data["defaultParams"] else None,
        "  Secret": ", ".join(data["secretFields"]),
        "  Priority": str(data["priority"]),
        "  Attempts": str(data["maxAttempts"]),
        "  Backoff": one_line(data["backoff"]),
        "  Timeout": None if data["timeout"] is None else span(data["timeout"]),
        "  Isolation": data["isolation"],
        "  Log level": data["logLevel"],
        "  Concurrency": str(data["concurrency"]) if data["concurrency"] else None,
        "  Rate limit": one_line(data["rateLimit"]) if data["rateLimit"] else None,
        "  Memory": None if data["memory"] is None else f"{data['memory'] / 1e6:.0f} MB",
        "  Kept": f"{span(data['staleAfter'])}, then {span(data['deleteAfter'])} as stale",
        "  Live workers": str(data["liveWorkers"]),
        "  Handler": data["handler"] or None,
        "  Source": data["source"] or None,
        "  Updated": full(data["updatedAt"]),
        "  Declared": full(data["declaredAt"]),
        "  Error": (data["error"], "red") if data["error"] else None,
    }


def _limit(text: str | None, stored: int | None, flag: str) -> int | None:
    if text is None:
        return stored
    if text == "code":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise InvalidInput(f"{flag} must be a number, or code for the code's value, not {text[:80]!r}.")
    return int(text)


def _rate(text: str, per_key: bool) -> dict[str, Any] | None:
    if text == "code":
        return None
    number, slash, period = text.partition("/")
    if not (number.isascii() and number.isdigit() and len(number) <= 10):
        raise InvalidInput(f"{text[:80]!r} is not a rate.", hint="Give 5/s, 100/10m, 0 for no limit, or code.")
    if not slash:
        period = "1s"
    return {
        "count": int(number),
        "period": seconds(period if period[:1].isdigit() else f"1{period}"),
        "perKey": per_key,
    }


def _pauses(text: str) -> Any:
    """Return a backoff for the API: seconds, a list of seconds, or a doubling pause."""
    if text == "code":
        return None
    first, doubling, last = text.partition("..")
    if doubling:
        return {"base": seconds(first), "max": seconds(last)}
    pauses = [seconds(each) for each in text.split(",")]
    return pauses if len(pauses) > 1 else pauses[0]


def _asked_again(stored: Mapping[str, Any] | None) -> Any:
    """Return an unchanged backoff as a request."""
    if stored is None:
        return None
    if stored["kind"] == "backoff":
        return {name: stored[name] for name in ("base", "max", "jitter")}
    return stored["seconds"]


def _kept(stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return an unchanged override as a request."""
    if stored is None:
        return None
    return {name: value for name, value in stored.items() if value is not None}
