"""The OpenAPI document for people who generate code: short names, a sentence and an example for everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.http.authentication import COOKIE
from penstock.http.openapi.field_texts import EXAMPLES, TEXTS
from penstock.http.schemas.base import ProblemAnswer
from penstock.http.schemas.jobs import BatchAsked

_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token: `penstock tokens create` makes one."},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": "A browser's session."},
}
_SERVERS = [{"url": ".", "description": "The server that gives this document."}]
_TAGS = {
    "jobs": "Start, read and change jobs.",
    "events": "What happened, as a list or as a stream.",
    "definitions": "What can be run, with its limits and pauses.",
    "system": "What holds for all definitions.",
    "schedules": "What is started at set times.",
    "workers": "The workers and their configuration.",
    "stats": "Figures about a window of time.",
    "errors": "Failures, grouped by what they have in common.",
    "alerts": "What needs a person's attention.",
    "audit": "Who changed what.",
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
"""Operations whose handlers have names that are too short for a client."""
_RETRY_AFTER = {
    "Retry-After": {
        "description": "Seconds after which the request may be sent again.",
        "schema": {"type": "integer", "minimum": 1, "examples": [1]},
    }
}
_MOMENT = "2026-01-31T12:00:00Z"
_OF_TYPES: dict[str, Any] = {"string": "text", "boolean": True, "null": None, "object": {}}


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """The framework's document with all that it leaves out."""
    components = document["components"]
    components["securitySchemes"] = _SCHEMES
    # Routes name them: the framework would make a validator for each status of each route.
    for model in (ProblemAnswer, BatchAsked):
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
            # Generators demand a field that has a default, although null means that it is left out.
            del field["default"]
        if "description" not in field:
            field["description"] = TEXTS.get(name, "")
        if "examples" not in field and not any("$ref" in each for each in _alternatives(field)):
            field["examples"] = [example(name, field, schemas)]


def example(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    """A value that fits a schema; the one that its name has, where that fits."""
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
    """Whether an example of a name may be used for a field of this kind."""
    if "enum" in schema or "const" in schema or "$ref" in schema:
        return False
    kinds = {str: "string", int: "integer", dict: "object", list: "array"}
    if schema.get("type") == "array" and isinstance(value, list):
        items = schema.get("items", {})
        return bool(value) and _fits(value[0], items)
    return kinds.get(type(value)) == schema.get("type") and schema.get("format") in (None, "uri")
