"""Parameters on the command line: `key=value` pairs, JSON, a file or stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.domain.errors import InvalidInput


def object_of(pairs: tuple[str, ...], text: str | None, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all given parameters; pairs take precedence over `--params`."""
    data = {} if text is None else value_of(_fetched(text), "--params")
    if not isinstance(data, dict):
        raise InvalidInput("--params must be a JSON object.", hint="""Give an object, such as '{"width": 640}'.""")
    return {**data, **dict(_pair(each, schema or {}) for each in pairs)}


def value_of(text: str, what: str) -> Any:
    """Parse a JSON value."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidInput(f"{what} is not JSON: {error}.", hint="Quote it for the shell: '\"text\"', '{…}'.") from None


def looks_typed(pairs: tuple[str, ...]) -> bool:
    """Return whether a value could be JSON although a string may be meant."""
    return any(_plain(each.partition("=")[2]) is not None for each in pairs)


def _pair(text: str, schema: Mapping[str, Any]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{text[:80]!r} is not a parameter.", hint="Give name=value, such as width=640.")
    data = schema.get("properties", {}).get(name, {})
    if isinstance(data, Mapping) and data.get("type") == "string":
        return name, value
    found = _plain(value)
    return name, value if found is None else found[0]


def _plain(text: str) -> tuple[Any] | None:
    """Return a text parsed as JSON; None if it is not JSON."""
    try:
        return (json.loads(text, parse_constant=_refuse_constant),)
    except ValueError:
        return None


def _fetched(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--params names {text[1:201]!r}, which cannot be read: {type(error).__name__}.") from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
