"""`penstock enqueue`: start a job."""

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
        str, Parameter(help="Parameters, such as width=640; a value that is JSON is taken as such, else it is a text.")
    ],
    params: Annotated[
        str | None, Parameter(allow_leading_hyphen=True, help="All parameters: a JSON object, @file, or - for stdin.")
    ] = None,
    definition_version: Annotated[
        int | None, Parameter(help="Of the definition; the highest that a live worker has.")
    ] = None,
    priority: Annotated[int | None, Parameter(help="0 to 20; the higher is first.")] = None,
    max_attempts: Annotated[int | None, Parameter(help="How often it is tried at most.")] = None,
    run_at: Annotated[
        str | None, Parameter(help="When: a time such as 2027-01-15T08:00, or 2h for in two hours.")
    ] = None,
    delay: Annotated[str | None, Parameter(help="After this length of time, such as 90s or 2h.")] = None,
    idempotency_key: Annotated[
        str | None, Parameter(help="An idempotency key: the same one gives the same job.")
    ] = None,
    tag: Annotated[tuple[str, ...], Parameter(negative="", help="A tag; several may be given.")] = (),
    reference: Annotated[str | None, Parameter(help="What it is about: TYPE:ID.")] = None,
    unique: Annotated[
        bool,
        Parameter(negative="", help="Give back the job with these parameters that has not ended, if there is one."),
    ] = False,
    concurrency_key: Annotated[str | None, Parameter(help="What it shares a limit with.")] = None,
    webhook_url: Annotated[str | None, Parameter(help="Who is told what becomes of it.")] = None,
    wait: Annotated[bool, Parameter(negative="", help="Wait for its end; the exit code tells how it ended.")] = False,
    watch: Annotated[
        bool, Parameter(negative="", help="Follow it live until its end. Ctrl-C only stops looking.")
    ] = False,
    timeout: Annotated[str | None, Parameter(help="How long to wait or watch at most, such as 10m.")] = None,
    common: Common = DEFAULTS,
) -> Exit:
    """Start a job; when this answers, the job is committed."""
    out = Output(common.json)
    if timeout is not None and not (wait or watch):
        raise InvalidInput("--timeout belongs to --wait or --watch.")
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
            # So that it can be sent again when its answer was lost.
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
    known = "" if made["created"] else "; it was there already"
    out.note(f"{made['status']}{known}; follow it by `penstock jobs watch {short(made['jobId'])}`")
    return Exit.DONE


def _reference(text: str) -> dict[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise InvalidInput(f"{text[:80]!r} is no reference.", hint="Write TYPE:ID, such as order:4711.")
    return {"type": kind, "id": name}


def _schema(api: Connection, key: str, version: int | None) -> Mapping[str, Any] | None:
    """What the definition says of its parameters, to tell the text 123 from the number; None when nobody knows."""
    try:
        versions = api.get(path("definitions", key)).data["versions"]
    except ApiError:
        return None
    fitting = [each for each in versions if version in (None, each["version"])]
    return fitting[0]["schema"] if fitting else None
