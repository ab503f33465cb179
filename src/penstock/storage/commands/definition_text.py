"""Stored definitions: their JSON text, and errors about unreadable, retired and removed ones."""

from __future__ import annotations

import dataclasses
import json

from penstock.domain.definition import Definition, RateLimit
from penstock.domain.errors import Conflict, Hint, InvalidDefinition
from penstock.domain.retry import from_json as policy_from_json

_LONGEST_ERROR = 300
_FIELDS = frozenset(field.name for field in dataclasses.fields(Definition))
_TUPLES = frozenset(field.name for field in dataclasses.fields(Definition) if isinstance(field.default, tuple))


UNREGISTERED = Hint(
    "Register it first with app.register(); app.definitions_known() lists the known ones.",
    cli="Start a worker that has its code; `penstock definitions list` shows the known ones.",
    http="A worker that has its code registers it; GET /v1/definitions lists the known ones.",
)
"""For a definition that the store does not know."""


def to_text(definition: Definition) -> str:
    """A definition as JSON text; its fields keep their names."""
    facts = {name: getattr(definition, name) for name in sorted(_FIELDS)}
    facts["backoff"] = definition.backoff.to_json()
    facts["rate_limit"] = dataclasses.asdict(definition.rate_limit) if definition.rate_limit else None
    return json.dumps(facts, ensure_ascii=False)


def from_text(text: str) -> Definition:
    """The definition that `to_text` wrote; fields of newer code are ignored,
    and fields that older code did not write have their defaults."""
    facts = {name: value for name, value in json.loads(text).items() if name in _FIELDS}
    facts["backoff"] = policy_from_json(facts["backoff"])
    facts["rate_limit"] = RateLimit(**facts["rate_limit"]) if facts["rate_limit"] else None
    for name in _TUPLES & facts.keys():
        facts[name] = tuple(facts[name])
    return Definition(**facts)


def read(key: str, version: int, text: str, overrides: str) -> tuple[Definition, dict[str, object], str | None]:
    """Return a definition and its overrides, or why they are unreadable; one bad row must not hide others."""
    try:
        return from_text(text), dict(json.loads(overrides)), None
    except Exception as error:
        return Definition(key=key, version=version), {}, f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]


def unreadable(key: str, version: int | None, problem: str) -> InvalidDefinition:
    which = key if version is None else f"{key} version {version}"
    return InvalidDefinition(
        f"What the store has of definition {which} cannot be read: {problem}.",
        hint="Start a worker with its code: it registers the definition again.",
    )


def closed(
    key: str, version: int, retired_by: str | None, *, removed: bool, wish: str = "no job of it can be created"
) -> Conflict:
    """Return the error about a definition that is retired or removed."""
    if not removed:
        return Conflict(
            f"Definition {key!r} was retired by {retired_by}: {wish}.",
            hint="Start a worker with code that declares it, or enable it.",
        )
    return Conflict(
        f"Version {version} of definition {key!r} was removed: {wish}.",
        hint="Start code that declares it to bring it back, or use another version.",
    )
