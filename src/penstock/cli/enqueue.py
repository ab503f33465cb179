"""`penstock enqueue`: create a job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import Parameter

from penstock.cli.connection import DEFAULTS, Common, Connection, connect, path
from penstock.cli.exit_codes import ApiError, Exit
from penstock.cli.formatting import moment, seconds, short
from penstock.cli.output import Output
from penstock.cli.parameters import looks_typed, object_of
from penstock.domain.errors import InvalidInput


def enqueue(
    key: Annotated[str, Parameter(help="The definition's key.")],
    /,
    *pairs: Annotated[
        str, Parameter(help="Parameters, such as width=640; a value is JSON if it can be parsed, otherwise a string.")
    ],
    params: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="All parameters: a JSON object, @file, or - for stdin.")
    ] = None,
    definition_version: Annotated[
        int | None, Parameter(help="Version of the definition; by default the highest of a live worker.")
    ] = None,
    priority: Annotated[int | None, Parameter(help="0 to 20; higher runs first.")] = None,
    max_attempts: Annotated[int | None, Parameter(help="The greatest number of attempts.")] = None,
    run_at: Annotated[
        str | None, Parameter(help="When to run: a time such as 2027-01-15T08:00, or 2h for in two hours.")
    ] = None,
    delay: Annotated[str | None, Parameter(help="Run after this duration, such as 90s or 2h.")] = None,
    idempotency_key: Annotated[
        str | None, Parameter(help="An idempotency key: the same key returns the same job.")
    ] = None,
    tag: Annotated[tuple[str, ...], Parameter(negative="", help="A tag; may be repeated.")] = (),
    reference: Annotated[str | None, Parameter(help="The object that the job is about: TYPE:ID.")] = None,
    unique: Annotated[
        bool,
        Parameter(negative="", help="Return the active job with these parameters, if there is one."),
    ] = False,
    concurrency_key: Annotated[str | None, Parameter(help="Jobs with the same key share a limit.")] = None,
    webhook_url: Annotated[str | None, Parameter(help="A URL that receives the job's events.")] = None,
    wait: Annotated[bool, Parameter(negative="", help="Wait until it has ended; the exit code tells how.")] = False,
    watch: Annotated[
        bool, Parameter(negative="", help="Follow it live until it has ended. Ctrl-C stops following only.")
    ] = False,
    timeout: Annotated[str | None, Parameter(help="The longest time to wait or watch, such as 10m.")] = None,
    common: Common = DEFAULTS,
) -> Exit:
    """Create a job; it is committed before the command returns."""
    out = Output(common.json)
    if timeout is not None and not (wait or watch):
        raise InvalidInput("--timeout requires --wait or --watch.")
    body: dict[str, Any] = {
        "definitionKey": key,
        "definitionVersion": definition_version,
        "priority": priority,
        "maxAttempts": max_attempts,
        "runAt": None if run_at is None else moment(run_at, past=False),
        "delay": None if delay is None else seconds(delay),
        "idempotencyKey": idempotency_key,
        "tags": list(tag),
        "reference": None if reference is None else _reference(reference),
        "unique": unique or None,
        "concurrencyKey": concurrency_key,
        "webhookUrl": webhook_url,
    }
    body = {name: value for name, value in body.items() if value not in (None, [])}
    with connect(common) as api:
        if api.remote:
            # So that it can be repeated if its answer is lost.
            body.setdefault("idempotencyKey", f"cli-{uuid.uuid4().hex}")
        body["params"] = object_of(pairs, params, _schema(api, key, definition_version) if looks_typed(pairs) else None)
        answer = api.post("/v1/jobs", body, repeatable=True)
        made = answer.data
        if watch or wait:
            from penstock.cli.job_waiting import wait_all, watch_all

            out.note(f"{made['status']} {made['jobId']}")
            return (watch_all if watch else wait_all)(api, out, [made["jobId"]], timeout)
    if common.json:
        out.document(answer.text)
        return Exit.DONE
    out.line(made["jobId"])
    known = "" if made["created"] else "; it existed already"
    out.note(f"{made['status']}{known}; follow it by `penstock jobs watch {short(made['jobId'])}`")
    return Exit.DONE


def _reference(text: str) -> dict[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise InvalidInput(f"{text[:80]!r} is not a reference.", hint="Give TYPE:ID, such as order:4711.")
    return {"type": kind, "id": name}


def _schema(api: Connection, key: str, version: int | None) -> Mapping[str, Any] | None:
    """Return the definition's schema, to distinguish the string 123 from the number; None if it is unknown."""
    try:
        versions = api.get(path("definitions", key)).data["versions"]
    except ApiError:
        return None
    fitting = [each for each in versions if version in (None, each["version"])]
    return fitting[0]["schema"] if fitting else None
