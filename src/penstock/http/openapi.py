"""The OpenAPI document and its page at `/docs`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.http.authentication import COOKIE
from penstock.http.openapi_texts import EXAMPLES, TEXTS
from penstock.http.routing import Route, endpoint
from penstock.http.schemas.base import ProblemAnswer
from penstock.http.schemas.jobs import BatchRequest

_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, from `penstock tokens create`."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "A browser's session."},
}
_SERVERS = [{"url": ".", "description": "The server of this document."}]
_TAGS = {
    "jobs": "Create, read and change jobs.",
    "events": "Events as a list or as a stream.",
    "definitions": "Definitions with their limits and pauses.",
    "system": "State of the whole system.",
    "schedules": "Schedules of jobs.",
    "workers": "The workers and their configuration.",
    "stats": "Figures over a period.",
    "errors": "Failures, grouped by cause.",
    "alerts": "Problems that need attention.",
    "audit": "Changes and their actors.",
    "tokens": "The tokens of callers.",
    "session": "The session of a browser.",
    "webhooks": "Endpoints that events are sent to, and the deliveries.",
    "server": "The server itself: health, metrics and documentation.",
}
_TAG_OF = {"worker": "workers", "healthz": "server", "readyz": "server", "metrics": "server", "docs": "server"}
_NAMES = {
    "healthz": "getHealth", "readyz": "getReadiness", "metrics": "getMetrics", "showDocs": "getDocs",
    "why": "getJobReasons", "trigger": "dispatchJobs", "patchJob": "changeJob", "listLogs": "listJobLogs",
    "listAttempts": "listJobAttempts", "listTicks": "listScheduleTicks", "getConfig": "getWorkerConfig",
    "replaceConfig": "replaceWorkerConfig", "changeConfig": "changeWorkerConfig", "redeliver": "redeliverDelivery",
    "startBatch": "startJobs", "changeInBulk": "changeJobs", "listPastAlerts": "listAlertHistory",
    "previewExpression": "previewSchedule", "previewSchedule": "previewStoredSchedule",
    "rotateSecret": "rotateWebhookSecret", "overrideLimits": "overrideDefinition",
}  # fmt: skip
"""Operation ids for handlers whose names are too short for a client."""
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which the request may be sent again.",
        "schema": {"type": "integer", "minimum": 1, "examples": [1]},
    }
}
_MOMENT = "2026-01-31T12:00:00Z"
_OF_TYPES: dict[str, Any] = {"string": "text", "boolean": True, "null": None, "object": {}}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Complete the framework's document: names, descriptions, examples, tags and security."""
    components = document["components"]
    components["securitySchemes"] = _SCHEMES
    # Routes refer to them by name, so the framework does not add them.
    for model in (ProblemAnswer, BatchRequest):
        mode: Any = "serialization" if model is ProblemAnswer else "validation"
        schema = model.model_json_schema(mode=mode, ref_template="#/components/schemas/{model}")
        components["schemas"] |= {**schema.pop("$defs"), model.__name__: schema}
    document["info"]["license"] = {"name": "MIT", "identifier": "MIT"}
    document.setdefault("servers", _SERVERS)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete_operation(path, operation)
    used = {tag for operations in document["paths"].values() for each in operations.values() for tag in each["tags"]}
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items() if name in used]
    for schema in components["schemas"].values():
        _complete_fields(schema, components["schemas"])
    return document


def _complete_operation(path: str, operation: dict[str, Any]) -> None:
    noun = path.removeprefix("/v1").split("/")[1]
    operation["tags"] = [_TAG_OF.get(noun, noun)]
    first, *others = operation["summary"].split()
    name = "".join([first.lower(), *others])
    operation["operationId"] = _NAMES.get(name, name)
    operation.setdefault("security", [])
    for parameter in operation.get("parameters", ()):
        text = parameter["schema"].pop("description", None) or parameter.get("description")
        parameter["description"] = text or TEXTS.get(parameter["name"], "")
        if "example" not in parameter:
            parameter["example"] = example(parameter["name"], parameter["schema"], {})
    for status in ("429", "503"):
        if status in operation["responses"]:
            operation["responses"][status]["headers"] = _RETRY_AFTER


def _complete_fields(schema: dict[str, Any], schemas: dict[str, Any]) -> None:
    for name, field in schema.get("properties", {}).items():
        if field.get("default", ...) is None:
            # Client generators require a field with a default, although null means that it is left out.
            del field["default"]
        if "description" not in field:
            field["description"] = TEXTS.get(name, "")
        if "examples" not in field and not any("$ref" in each for each in _alternatives(field)):
            field["examples"] = [example(name, field, schemas)]


def example(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """Return a value that matches a schema; the example of the field's name, if that matches."""
    known = EXAMPLES.get(name)
    for each in _alternatives(schema):
        if known is not None and _fits(known, each):
            return known
    for each in _alternatives(schema):
        if each.get("type") != "null":
            return _plain_example(each, schemas)
    return None


def _plain_example(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return _of_shape(schemas.get(schema["$ref"].rpartition("/")[2], {}), schemas)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "array":
        return [example("", schema.get("items", {}), schemas)]
    if kind in ("integer", "number"):
        return max(1, schema.get("minimum", 1)) if schema.get("maximum", 1) >= 1 else schema["maximum"]
    if schema.get("format") == "date-time":
        return _MOMENT
    return _OF_TYPES.get(kind or "", {})


def _of_shape(shape: dict[str, Any], schemas: dict[str, Any]) -> Any:
    if "properties" not in shape:
        return _plain_example(shape, schemas)
    return {name: example(name, field, schemas) for name, field in shape["properties"].items()}


def _alternatives(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "anyOf" in schema:
        for each in schema["anyOf"]:
            yield from _alternatives(each)
    else:
        yield schema


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether the example of a name matches a field of this type."""
    if "enum" in schema or "const" in schema or "$ref" in schema:
        return False
    kinds = {str: "string", int: "integer", dict: "object", list: "array"}
    if schema.get("type") == "array" and isinstance(value, list):
        items = schema.get("items", {})
        return bool(value) and _fits(value[0], items)
    return kinds.get(type(value)) == schema.get("type") and schema.get("format") in (None, "uri")


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
    """Return the page as HTML without script; `root` is the path that the application is mounted at."""
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
        parts += [_operation(root + path, method, operation) for path, method, operation in operations]
    parts.append("<h2>Shapes</h2>")
    parts += [_shape(name, schema) for name, schema in sorted(schemas.items())]
    return "".join([*parts, "</body></html>"])


def _grouped(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    """Group the operations by the noun of their path."""
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        steps = [step for step in path.split("/") if step and step != "v1"]
        for method in _METHODS:
            if method in methods:
                found.setdefault(steps[0], []).append((path, method, methods[method]))
    return found


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    role = operation.get("x-role") or "everybody"
    parts = [
        f'<details><summary><span class="method">{method.upper()}</span><code>{escape(path)}</code> ',
        f'<span class="role">{escape(str(role))}</span></summary><div>',
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    if parameters := operation.get("parameters"):
        rows = [(f"{each['name']} ({each['in']})", _kind(each["schema"]), _about(each)) for each in parameters]
        parts.append(_table(rows))
    if body := operation.get("requestBody"):
        for media, content in body["content"].items():
            parts.append(f"<p>Body: {escape(media)}, {_kind(content.get('schema', {}))}</p>")
    rows = [
        (status, _content(answer), escape(answer.get("description", "")))
        for status, answer in operation["responses"].items()
    ]
    return "".join([*parts, _table(rows), "</div></details>"])


def _shape(name: str, schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        (name, _kind(field) + ("" if name in needed else ", optional"), _about(field))
        for name, field in schema.get("properties", {}).items()
    ]
    anchor = escape(name)
    return (
        f'<details id="{anchor}"><summary><code>{anchor}</code></summary><div>'
        f"<p>{escape(schema.get('description', ''))}</p>{_table(rows)}</div></details>"
    )


def _table(rows: list[tuple[str, str, str]]) -> str:
    """Return rows of a name, a type and a description; the last two are HTML already."""
    lines = (
        f"<tr><td><code>{escape(name)}</code></td><td>{kind}</td><td>{about}</td></tr>" for name, kind, about in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _content(answer: Mapping[str, Any]) -> str:
    return ", ".join(_kind(each.get("schema", {})) for each in answer.get("content", {}).values())


def _about(field: Mapping[str, Any]) -> str:
    return escape(field.get("description") or field.get("schema", {}).get("description") or "")


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the types of a schema as HTML."""
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


router: APIRouter = APIRouter(route_class=Route)


@endpoint(
    router, "GET", "/docs", role=None, answer=None,
    also={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
)  # fmt: skip
async def show_docs(request: Request) -> Response:
    """Show this document as a page."""
    text = page(request.app.openapi(), request.scope.get("root_path", ""))
    return Response(text, media_type="text/html", headers={"Content-Security-Policy": POLICY})
