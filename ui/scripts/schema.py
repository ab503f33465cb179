"""Writes the TypeScript types of the API, from the OpenAPI document that the server itself gives."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from penstock import Penstock
from penstock.http.application import create

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def main() -> None:
    """Print one interface for each schema of the document."""
    document = create(Penstock("sqlite://")).openapi()
    print("// Written by ui/scripts/schema.py from the API's own document. Do not edit.")
    for name, schema in sorted(document["components"]["schemas"].items()):
        print(f"\nexport {declared(plain(name), schema)}")


def declared(name: str, schema: dict[str, Any]) -> str:
    """One named type."""
    if "properties" not in schema:
        return f"type {name} = {written(schema)};"
    return f"interface {name} {members(schema)}"


def members(schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    lines = [
        f"  {key if _NAME.fullmatch(key) else json.dumps(key)}{'' if key in required else '?'}: {written(each)};"
        for key, each in schema["properties"].items()
    ]
    return "\n".join(["{", *lines, "}"])


def written(schema: dict[str, Any]) -> str:
    """A schema as a TypeScript expression."""
    if "$ref" in schema:
        return plain(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(written(each) for each in alternatives))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{written(schema.get('items', {}))}>"
    if kind == "object":
        if "properties" in schema:
            return members(schema)
        extra = schema.get("additionalProperties")
        names = schema.get("propertyNames", {})
        if "enum" in names:
            return f"Partial<Record<{written(names)}, {written(extra or {})}>>"
        return f"Record<string, {written(extra) if isinstance(extra, dict) else 'unknown'}>"
    return _SCALARS.get(kind or "", "unknown")


def plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_$]", "_", name)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    main()
