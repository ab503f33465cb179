"""Secret values that are known of a definition before any of its jobs: defaults of its parameters and variables of the
environment that its jobs see."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_URL_PASSWORD = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
_NO_SCHEMAS = frozenset({"properties", "$defs", "default", "const", "enum", "examples"})
"""Members of a JSON Schema that hold other things, or are visited apart."""
IsSecret = Callable[[str], bool]
"""Whether this is the name of a secret."""


def secret_defaults(schema: Any, fields: Collection[str], is_secret: IsSecret) -> list[dict[str, Any]]:
    """The parts of a JSON Schema whose default is the value of a secret parameter or a part of it.

    `fields` are properties of the outermost object; properties with the name of a secret count wherever they are.
    """
    definitions = schema.get("$defs") if isinstance(schema, dict) else None
    found: list[dict[str, Any]] = []
    waiting: list[tuple[Any, bool]] = [(schema, False)]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        part, secret = waiting.pop()
        if isinstance(part, list):
            waiting += [(each, secret) for each in part]
        if not isinstance(part, dict) or (id(part), secret) in seen:
            continue
        seen.add((id(part), secret))
        if secret and "default" in part:
            found.append(part)
        if (referred := _referred(part, definitions)) is not None:
            waiting.append((referred, secret))
        properties = part.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            waiting.append((each, secret or is_secret(name) or (part is schema and name in fields)))
        waiting += [(each, secret) for name, each in part.items() if name not in _NO_SCHEMAS]
    return found


def all_defaults(schema: Any) -> Iterator[Any]:
    """Every default in a JSON Schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "default" in part:
                yield part["default"]
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def secret_variables(environment: Mapping[str, str], named: Collection[str], is_secret: IsSecret) -> set[str]:
    """The values of variables that are named, or have the name of a secret; and passwords inside of URLs in others."""
    found: set[str] = set()
    for name, value in environment.items():
        if name in named or is_secret(name):
            found.add(value)
        for password in _URL_PASSWORD.findall(value):
            found |= {password, unquote(password)}
    return found


def _referred(part: dict[str, Any], definitions: Any) -> Any:
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/") or not isinstance(definitions, dict):
        return None
    name = unquote(reference.removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
    return definitions.get(name)


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
