"""`penstock tokens`: manage the tokens of the HTTP API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect, operator, path
from penstock.cli.db import AsJson, Url
from penstock.cli.formatting import full, seconds, when
from penstock.cli.output import Cell, Output
from penstock.config.project_file import load
from penstock.domain.access import Role

app: App = App(name="tokens", help="Manage the tokens of the HTTP API.")


@app.command
def create(
    name: Annotated[str, Parameter(help="Name of its user or program.")],
    /,
    *,
    role: Annotated[str, Parameter(help=f"The role: {', '.join(Role)}.")],
    expires_in: Annotated[str | None, Parameter(help="When it expires, such as 30d, 12h, 15m or 90s.")] = None,
    common: Common = DEFAULTS,
) -> None:
    """Create a token and print its text, which is shown only once."""
    body: dict[str, Any] = {"name": name, "role": role}
    if expires_in is not None:
        body["expiresIn"] = seconds(expires_in)
    out = Output(common.json)
    with connect(common) as api:
        answer = api.post("/v1/tokens", body)
    if common.json:
        out.document(answer.text)
        return
    made = answer.data
    end = "until it is revoked" if made["expiresAt"] is None else f"until {full(made['expiresAt'])}"
    out.note(f"Token {made['tokenId']} ({made['role']}) for {name!r} is valid {end}. Its text:")
    out.line(made["token"])


@app.command(name=["list", "ls"])
def list_tokens(*, common: Common = DEFAULTS) -> None:
    """List all tokens without their texts, including expired and revoked ones."""
    with connect(common) as api:
        answer = api.get("/v1/tokens")
    headings = ["ID", "NAME", "ROLE", "STATE", "CREATED", "BY", "LAST USED"]
    Output(common.json).page(answer, "tokens", headings, _row, none="There is no token.")


@app.command
def revoke(
    token_id: Annotated[str, Parameter(help="Its id, from `penstock tokens list`.")],
    /,
    *,
    common: Common = DEFAULTS,
) -> None:
    """Revoke a token and its sessions; every server refuses them within a second."""
    out = Output(common.json)
    with connect(common) as api:
        api.ask("DELETE", path("tokens", token_id), repeatable=True)
    if common.json:
        out.document("{}")
    else:
        out.note(f"Token {token_id} is revoked.")


@app.command(name="open")
def open_access(
    *,
    url: Url = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="", help="Do not ask first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let callers on a server's own host do everything without a token, until the next token is created.

    Only this command does it, directly on the store. It is refused while there are valid tokens.

    """
    out = Output(as_json)
    found = load()
    address = (found if url is None else replace(found, store=url)).address
    out.ask("This lets every program on a server's host do everything without a token.", yes=yes)
    from penstock import Penstock

    app = Penstock(**address)
    try:
        opened = app.tokens.open_access(by=operator())
    finally:
        app.close()
    if as_json:
        out.document(json.dumps({"opened": opened}))
    else:
        out.note("No token is needed now." if opened else "No token was needed before either.")


def _row(token: Mapping[str, Any]) -> list[Cell]:
    return [
        token["tokenId"], token["name"], token["role"], _state(token), full(token["createdAt"]), token["createdBy"],
        when(token["lastUsedAt"]) or "never",
    ]  # fmt: skip


def _state(token: Mapping[str, Any]) -> Cell:
    if token["revokedAt"] is not None:
        return "revoked", "bright_black"
    if token["expiresAt"] is None:
        return "valid", "green"
    expired = datetime.fromisoformat(token["expiresAt"]) <= datetime.now(UTC)
    return ("expired", "bright_black") if expired else (f"until {full(token['expiresAt'])}", "green")
