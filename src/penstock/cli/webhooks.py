"""`penstock webhooks`: manage endpoints that receive events, and their deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Answer, Common, connect, path
from penstock.cli.formatting import full, seconds, short, when
from penstock.cli.job_selection import Cursor, Limit
from penstock.cli.job_selection import job_id as full_id
from penstock.cli.output import Cell, Output
from penstock.config.project_file import load
from penstock.domain.errors import InvalidInput

app: App = App(name="webhooks", help="Manage webhooks.")

Webhook = Annotated[str, Parameter(help="Its id, from `penstock webhooks list`.")]
Events = Annotated[
    tuple[str, ...],
    Parameter(name="--event", negative="", help="A type such as job.failed, job.* or onFail; may be repeated."),
]
DefinitionKeys = Annotated[
    tuple[str, ...],
    Parameter(name="--definition-key", negative="", help="Only for jobs of this definition; may be repeated."),
]
Description = Annotated[str | None, Parameter(help="A description.")]
SecretFile = Annotated[str | None, Parameter(help="A file with whsec_…; without it a new secret is generated.")]


@app.command(name=["list", "ls"])
def list_webhooks(*, common: Common = DEFAULTS) -> None:
    """List endpoints, the oldest first."""
    with connect(common) as api:
        answer = api.get("/v1/webhooks")
    headings = ["ID", "STATE", "FAILURES", "LAST SUCCESS", "EVENTS", "URL"]
    Output(common.json).page(answer, "webhooks", headings, _row, none="There is no endpoint.")


@app.command
def add(
    url: Annotated[str, Parameter(help="The URL that receives events.")],
    /,
    *,
    events: Events = (),
    definition_keys: DefinitionKeys = (),
    description: Description = None,
    secret_file: SecretFile = None,
    common: Common = DEFAULTS,
) -> None:
    """Create an endpoint and print its secret, which is shown only once."""
    body = {"url": url, **_fields(events, definition_keys, description)}
    if secret_file is not None:
        body["secret"] = _secret(secret_file)
    with connect(common) as api:
        _made(Output(common.json), api.post("/v1/webhooks", body))


@app.command
def edit(
    webhook: Webhook,
    /,
    *,
    url: Annotated[str | None, Parameter(help="The URL that receives events.")] = None,
    events: Events = (),
    definition_keys: DefinitionKeys = (),
    description: Description = None,
    enabled: Annotated[bool | None, Parameter(help="Whether it receives events.")] = None,
    common: Common = DEFAULTS,
) -> None:
    """Change the given fields of an endpoint."""
    body = {**_fields(events, definition_keys, description), "url": url, "enabled": enabled}
    body = {name: value for name, value in body.items() if value is not None}
    if not body:
        raise InvalidInput("No change was given.", hint="Give --url, --event, --definition-key or --enabled.")
    out = Output(common.json)
    with connect(common) as api:
        answer = api.ask("PATCH", path("webhooks", webhook), body=body, repeatable=True)
    if common.json:
        out.document(answer.text)
        return
    data = answer.data
    out.facts(
        {"Webhook": data["webhookId"], "URL": data["url"], "State": _state(data), "Events": ", ".join(data["events"])}
    )


@app.command(name="test")
def send_test(webhook: Webhook, /, *, common: Common = DEFAULTS) -> None:
    """Send an endpoint a message of type webhook.test; `deliveries` shows the receiver's answer."""
    with connect(common) as api:
        _queued(Output(common.json), api.post(path("webhooks", webhook, "test")))


@app.command
def deliveries(
    webhook: Annotated[str | None, Parameter(help="Only for this endpoint; or global, or job.")] = None,
    /,
    *,
    job_id: Annotated[str | None, Parameter(help="Only for this job.")] = None,
    status: Annotated[str | None, Parameter(help="waiting, delivered or failed.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    common: Common = DEFAULTS,
) -> None:
    """List deliveries, sent and waiting, the newest first."""
    with connect(common) as api:
        asked: dict[str, Any] = {"webhookId": webhook, "status": status, "limit": limit, "cursor": cursor}
        answer = api.get("/v1/webhooks/deliveries", **asked, jobId=None if job_id is None else full_id(api, job_id))
    headings = ["ID", "STATUS", "EVENT", "JOB", "TRIES", "ANSWER", "CREATED", "ERROR"]
    Output(common.json).page(answer, "deliveries", headings, _delivery_row, none="Nothing was sent.")


@app.command
def redeliver(
    delivery: Annotated[str, Parameter(help="Its id, from `penstock webhooks deliveries`.")],
    /,
    *,
    common: Common = DEFAULTS,
) -> None:
    """Send a delivery again, with the same id and body."""
    with connect(common) as api:
        _queued(Output(common.json), api.post(path("webhooks", "deliveries", delivery, "redeliver")))


@app.command
def rotate(
    webhook: Webhook,
    /,
    *,
    overlap: Annotated[str, Parameter(help="How long the old secret signs too.")] = "24h",
    secret_file: SecretFile = None,
    common: Common = DEFAULTS,
) -> None:
    """Replace an endpoint's secret and print the new one, which is shown only once."""
    body: dict[str, Any] = {"overlap": seconds(overlap)}
    if secret_file is not None:
        body["secret"] = _secret(secret_file)
    with connect(common) as api:
        _made(Output(common.json), api.post(path("webhooks", webhook, "rotate"), body))


@app.command
def secret(url: Annotated[str, Parameter(help="A webhook URL of jobs, or its origin.")], /) -> None:
    """Print the secret that signs messages to the webhook URLs of jobs at an origin.

    It is derived from PENSTOCK_WEBHOOK_SECRET, which must have the same value as for the workers; no server is used.

    """
    made = load().webhooks.secret_for(url)
    if made is None:
        raise InvalidInput(
            "There is no global secret here, so messages to the webhook URLs of jobs are not signed.",
            hint="Set PENSTOCK_WEBHOOK_SECRET to the workers' value.",
        )
    Output(False).line(made)


@app.command
def delete(
    webhook: Webhook,
    /,
    *,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask first.")] = False,
    common: Common = DEFAULTS,
) -> None:
    """Delete an endpoint; its waiting deliveries are dropped."""
    out = Output(common.json)
    out.ask(f"This deletes the webhook {webhook}.", yes=yes)
    with connect(common) as api:
        api.ask("DELETE", path("webhooks", webhook))
    if common.json:
        out.document("{}")
    else:
        out.line(f"{webhook} is deleted.")


def _fields(events: tuple[str, ...], definitions: tuple[str, ...], description: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "events": list(events), "definitionKeys": list(definitions), "description": description
    }  # fmt: skip
    return {name: value for name, value in data.items() if value not in (None, [])}


def _secret(name: str) -> str:
    try:
        with open(name, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--secret-file {name[:200]!r} cannot be read: {type(error).__name__}.") from None


def _made(out: Output, answer: Answer) -> None:
    if out.as_json:
        out.document(answer.text)
        return
    data = answer.data
    out.note(f"Webhook {data['webhookId']} to {data['url']}. Its secret:")
    out.line(data["secret"])


def _queued(out: Output, answer: Answer) -> None:
    if out.as_json:
        out.document(answer.text)
        return
    data = answer.data
    out.line(data["deliveryId"])
    out.note(
        f"{data['status']} since {full(data['createdAt'])}; see `penstock webhooks deliveries {data['webhookId']}`"
    )


def _row(data: Mapping[str, Any]) -> list[Cell]:
    events = ", ".join(data["events"])
    return [data["webhookId"], _state(data), str(data["failures"]), when(data["lastSuccessAt"]), events, data["url"]]


def _delivery_row(data: Mapping[str, Any]) -> list[Cell]:
    colour = {"delivered": "green", "failed": "red"}.get(data["status"], "")
    return [
        data["deliveryId"], (data["status"], colour), data["type"],
        "" if data["jobId"] is None else short(data["jobId"]), str(data["tries"]), str(data["statusCode"] or ""),
        when(data["createdAt"]), data["error"] or "",
    ]  # fmt: skip


def _state(data: Mapping[str, Any]) -> Cell:
    if not data["enabled"]:
        return f"disabled: {data['disabledReason']}" if data["disabledReason"] else "disabled", "bright_black"
    if data["openUntil"] is not None:
        return f"resting until {full(data['openUntil'])}", "red"
    return ("failing", "yellow") if data["failures"] else ("on", "green")
