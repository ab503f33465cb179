"""The page of settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from docs.writers.inspected import fields_of, table
from penstock.config.settings import SETTINGS, Known
from penstock.domain import worker_config
from penstock.domain.payload import camel

_TITLES = {
    "": "The project", "worker": "`[worker]`", "web": "`[web]`", "webhooks": "`[webhooks]`", "secrets": "`[secrets]`",
    "log": "The log", "retention": "`[retention]`",
}  # fmt: skip
_PARTS = {
    "retention": worker_config.RetentionDefaults, "alerts": worker_config.AlertThresholds,
    "limits": worker_config.DefaultLimits,
}  # fmt: skip


def write() -> str:
    parts = [
        "# Settings",
        "What a flag says counts most, then the environment, then `penstock.toml`, then the default. A name that does "
        "not exist is an error that says which one was meant. Lists are separated by commas in the environment. "
        "`penstock config show` tells the value of each and where it comes from.",
        "A variable marked with † may be given as a file instead, for secrets: `…_FILE` names it.",
    ]
    for title, heading in _TITLES.items():
        of_table = [each for each in SETTINGS if _table(each) == title]
        parts += [
            f"## {heading}",
            table(("setting", "default", "environment", "flag", "what it is"), map(_row, of_table)),
        ]
    parts += [
        "## Stored for all workers",
        "These are kept in the store and reach running workers with their next heartbeat: change them by "
        "`penstock config set`, `PATCH /v1/worker/config` or `app.workers.configure`. Null leaves it to the worker.",
        table(("setting", "default", "what it is"), _live()),
    ]
    return "\n\n".join(parts)


def _table(known: Known) -> str:
    table, dot, _ = known.name.partition(".")
    return table if dot else ""


def _row(known: Known) -> tuple[str, ...]:
    name = known.name.partition(".")[2] or known.name
    in_environment = "" if isinstance(known.default, dict) else f"`{known.environment}`{' †' if known.secret else ''}"
    default = "" if known.name == "worker.slots" else _value(known.default)
    return f"`{name}`", default, in_environment, f"`{known.flag}`" if known.flag else "", known.sentence


def _value(value: Any) -> str:
    if value in (None, (), {}, ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`" + ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value) + "`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _live() -> Iterator[tuple[str, str, str]]:
    plain = worker_config.as_json(worker_config.WorkerConfig())
    notes = {each.name: each.note for each in fields_of(worker_config.WorkerConfig)}
    for each in fields(worker_config.WorkerConfig):
        name = camel(each.name)
        if each.name not in _PARTS:
            yield f"`{name}`", _value(plain[name]), notes[each.name]
            continue
        inner = {one.name: one.note for one in fields_of(_PARTS[each.name])}
        for one in fields(_PARTS[each.name]):
            yield f"`{name}.{camel(one.name)}`", _value(plain[name][camel(one.name)]), inner[one.name]
