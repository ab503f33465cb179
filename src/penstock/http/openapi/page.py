"""The OpenAPI document as a page for people: plain HTML that needs no script and nothing of another host."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c2024 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccd } summary { cursor: pointer; padding: .3rem 0 }
code, pre { font: 13px/1.4 ui-monospace, monospace } pre { background: #f4f5f8; padding: .7rem; overflow-x: auto }
table { border-collapse: collapse; margin: .5rem 0 }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0 }
.method { display: inline-block; min-width: 4rem; font-weight: 600 } .role { color: #667 }
details > div { padding: 0 0 1rem 1rem; border-left: 2px solid #dde }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e4e6ea } pre { background: #22252b } }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_METHODS = ("get", "post", "put", "patch", "delete")


def page(document: Mapping[str, Any], root: str = "") -> str:
    """The whole page; `root` is the path under which the application is mounted."""
    schemas = document.get("components", {}).get("schemas", {})
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width"><title>penstock API</title>',
        f"<style>{_STYLE}</style></head><body><h1>penstock API</h1>",
        f"<p>{escape(document['info']['description'])}</p>",
        f'<p>For programs: <a href="{escape(root)}/openapi.json">openapi.json</a></p>',
    ]
    for name, operations in _grouped(document).items():
        parts.append(f"<h2>{escape(name)}</h2>")
        parts += [_operation(root + path, method, said) for path, method, said in operations]
    parts.append("<h2>Shapes</h2>")
    parts += [_shape(name, schema) for name, schema in sorted(schemas.items())]
    return "".join([*parts, "</body></html>"])


def _grouped(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    """The operations by the noun of their path."""
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        steps = [step for step in path.split("/") if step and step != "v1"]
        for method in _METHODS:
            if method in methods:
                found.setdefault(steps[0], []).append((path, method, methods[method]))
    return found


def _operation(path: str, method: str, said: Mapping[str, Any]) -> str:
    role = said.get("x-role") or "everybody"
    parts = [
        f'<details><summary><span class="method">{method.upper()}</span><code>{escape(path)}</code> ',
        f'<span class="role">{escape(str(role))}</span></summary><div><p>{escape(said.get("description", ""))}</p>',
    ]
    if parameters := said.get("parameters"):
        rows = [(f"{each['name']} ({each['in']})", _kind(each["schema"]), _about(each)) for each in parameters]
        parts.append(_table(rows))
    if body := said.get("requestBody"):
        for media, content in body["content"].items():
            parts.append(f"<p>Body: {escape(media)}, {_kind(content.get('schema', {}))}</p>")
    rows = [
        (status, _content(answer), escape(answer.get("description", "")))
        for status, answer in said["responses"].items()
    ]
    return "".join([*parts, _table(rows), "</div></details>"])


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        (field, _kind(told) + ("" if field in needed else ", optional"), _about(told))
        for field, told in schema.get("properties", {}).items()
    ]
    anchor = escape(name)
    return (
        f'<details id="{anchor}"><summary><code>{anchor}</code></summary><div>'
        f"<p>{escape(schema.get('description', ''))}</p>{_table(rows)}</div></details>"
    )


def _table(rows: list[tuple[str, str, str]]) -> str:
    """Rows of a name, a kind and a sentence; the last two are HTML already."""
    lines = (
        f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{about}</td></tr>" for name, kind, about in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _content(answer: Mapping[str, Any]) -> str:
    return ", ".join(_kind(each.get("schema", {})) for each in answer.get("content", {}).values())


def _about(told: Mapping[str, Any]) -> str:
    return escape(told.get("description") or told.get("schema", {}).get("description") or "")


def _kind(schema: Mapping[str, Any]) -> str:
    """What a schema takes, in a few words of HTML."""
    return " or ".join(_kinds(schema)) or "any"


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        yield f'<a href="#{name}">{name}</a>'
    elif "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _kinds(each)
    elif "enum" in schema:
        yield " or ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    elif "const" in schema:
        yield f"<code>{escape(str(schema['const']))}</code>"
    elif schema.get("type") == "array":
        yield f"list of {_kind(schema.get('items', {}))}"
    elif "type" in schema:
        yield escape(schema.get("format") or str(schema["type"]))
