"""`penstock config`: show settings and their sources, and change the configuration of all workers."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import App, Parameter

from penstock.cli.connection import DEFAULTS, Common, connect
from penstock.cli.output import Cell, Output
from penstock.cli.parameters import object_of
from penstock.domain.errors import InvalidInput, PenstockError

app: App = App(name="config", help="Show settings, and change those of all workers.")
_LIVE = "/v1/worker/config"


@app.command
def show(*, common: Common = DEFAULTS) -> None:
    """Show every setting with its value and source, then the configuration of all workers.

    Secrets are masked. Without a reachable server or store, only the first part is shown.

    """
    from penstock.config.project_file import load
    from penstock.config.settings import shown

    out = Output(common.json)
    found = load()
    flags = {name: value for name in ("store", "server", "profile") if (value := getattr(common, name)) is not None}
    sources = {**found.sources, **{name: f"--{name}" for name in flags}}
    settings = shown({**found.given, **flags}, sources)
    live = _live(common, out)
    if common.json:
        data = [
            {
                "name": each.known.name, "value": each.value, "source": each.source, "default": each.known.default,
                "environment": _environment(each.known.default, each.known.environment), "flag": each.known.flag,
                "sentence": each.known.sentence,
            }
            for each in settings
        ]  # fmt: skip
        out.document(json.dumps({"settings": data, "worker": live}, ensure_ascii=False))
        return
    rows: list[list[Cell]] = [
        [each.known.name, _text(each.value), (each.source, "" if each.source == "default" else "green")]
        for each in settings
    ]
    out.table(["SETTING", "VALUE", "SOURCE"], rows, none="There are no settings.")
    if live is not None:
        out.line("")
        out.table(["FOR ALL WORKERS", "VALUE"], [[name, _text(value)] for name, value in _flat(live)], none="")


@app.command(name="set")
def set_live(
    *changes: Annotated[str, Parameter(help="Such as slots=8, alerts.depth=500, slots=null or enabled=false.")],
    common: Common = DEFAULTS,
) -> None:
    """Change the configuration of all workers; running workers apply it within seconds."""
    if not changes:
        raise InvalidInput("No change was given.", hint="Write name=value, such as slots=8 or alerts.depth=500.")
    out = Output(common.json)
    with connect(common) as api:
        stored = api.get(_LIVE).data
        asked: dict[str, Any] = {}
        for name, value in object_of(changes, None).items():
            _put(asked, stored, name, value)
        answer = api.ask("PATCH", _LIVE, body=asked, headers={"If-Match": f'"{stored["revision"]}"'})
    if common.json:
        out.document(answer.text)
        return
    out.note(f"Stored as revision {answer.data['revision']}.")


def _live(common: Common, out: Output) -> dict[str, Any] | None:
    try:
        with connect(common) as api:
            data: dict[str, Any] = api.get(_LIVE).data
    except PenstockError as error:
        out.note(f"The configuration of all workers is not shown: {error.message}")
        return None
    return data


def _put(asked: dict[str, Any], stored: dict[str, Any], name: str, value: Any) -> None:
    """Add the change of one field; the API validates it."""
    part, dot, inner = name.partition(".")
    if not dot:
        asked[name] = value
        return
    # `custom` is one value, so its other fields are sent too.
    asked.setdefault(part, dict(stored.get(part) or {}) if part == "custom" else {})
    if not isinstance(stored.get(part), dict) or not isinstance(asked[part], dict):
        raise InvalidInput(f"{name!r} is not a setting of all workers.", hint="List them with `penstock config show`.")
    asked[part][inner] = value


def _flat(live: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return fields with dotted names; those of the application stay together."""
    found: list[tuple[str, Any]] = []
    for name, value in live.items():
        if isinstance(value, dict) and name != "custom":
            found += [(f"{name}.{inner}", each) for inner, each in value.items()]
        else:
            found.append((name, value))
    return found


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _environment(default: Any, name: str) -> str | None:
    return None if isinstance(default, dict) else name
