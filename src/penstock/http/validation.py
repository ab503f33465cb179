"""Validation errors in the API's shape: the first problems, each with the path to the field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.errors import Hint
from penstock.http.errors import RequestError, reader_of

MOST_PROBLEMS = 20
"""The number of problems that an error lists at most."""
_KINDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown here",
}
_SYNONYMS = {
    "scheduledat": "runAt", "scheduledfor": "runAt", "dueat": "runAt", "at": "runAt", "job": "definitionKey",
    "definition": "definitionKey", "type": "definitionKey", "version": "definitionVersion", "args": "params",
    "kwargs": "params", "payload": "params", "input": "params", "data": "params", "retries": "maxAttempts",
    "attempts": "maxAttempts", "webhook": "webhookUrl", "callbackurl": "webhookUrl", "cron": "expression",
    "interval": "expression", "tz": "timezone", "parent": "parentId", "schedule": "scheduleId", "state": "status",
    "kinds": "events", "definitions": "definitionKeys", "pagesize": "limit", "perpage": "limit", "id": "jobId",
}  # fmt: skip
"""Names that other systems use for these fields; lower case, without `_` and `-`."""


def problems_of(
    error: ValidationError | RequestValidationError, *place: str | int, shape: Any = None
) -> list[dict[str, str]]:
    """Return the first problems; `place` is the path of the value in the body, `shape` its model."""
    found = error.errors() if isinstance(error, RequestValidationError) else error.errors(include_url=False)
    return [_problem(each, place, shape) for each in islice(found, MOST_PROBLEMS)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that an unknown one probably means."""
    plain = {_plain(each): each for each in known}
    asked = _plain(name[:80])
    if asked in plain:
        return plain[asked]
    if (other := _SYNONYMS.get(asked)) in plain.values():
        return other
    near = get_close_matches(asked, plain, n=1, cutoff=0.7)
    return plain[near[0]] if near else None


def problems_error(problems: Sequence[dict[str, str]]) -> RequestError:
    """Return the error that lists these problems."""
    first = problems[0] if problems else {"path": "", "message": "cannot be read"}
    where = first["path"] or "the body"
    return RequestError(
        "invalid_request",
        f"{where} {first['message']}" + ("" if first["message"].endswith("?") else "."),
        hint=Hint(
            "The reference describes every argument.",
            cli="`--help` after the command lists its arguments.",
            http="The document /openapi.json describes every field.",
        ),
        details={"path": first["path"], "problems": list(problems)},
    )


async def answer_validation(request: Request, error: Exception) -> Response:
    """Handle validation errors of the framework."""
    if not isinstance(error, RequestValidationError):
        raise error
    body = getattr(request.scope.get("route"), "body_field", None)
    shape = None if body is None else body.field_info.annotation
    return problems_error(problems_of(error, shape=shape)).answer(reader_of(request))


def _problem(found: Any, where: Sequence[str | int], shape: Any) -> dict[str, str]:
    place: Sequence[Any] = (*where, *found["loc"])
    if place and place[0] in ("body", "query", "path", "header", "cookie"):
        kind, place = place[0], place[1:]
    else:
        kind = "body"
    steps = [str(each).replace("~", "~0").replace("/", "~1")[:100] for each in place]
    path = "".join(f"/{each}" for each in steps) if kind == "body" else f"{kind} parameter {'.'.join(steps)}"
    message = _message(found)
    if found["type"] == "extra_forbidden" and found["loc"]:
        # The framework's path to a field of the body begins with "body".
        steps_within = found["loc"][1:] if found["loc"][0] == "body" and found["loc"][1:] else found["loc"]
        if near := nearest(str(steps_within[-1]), _fields(shape, steps_within[:-1])):
            message += f"; did you mean {near!r}?"
    return {"path": path, "message": message}


def _fields(shape: Any, steps: Sequence[str | int]) -> list[str]:
    """Return the names of the fields at a path within a shape."""
    models = list(_models(shape))
    for step in steps:
        if isinstance(step, str):
            models = [
                inner
                for model in models
                for name, field in model.model_fields.items()
                if step in (name, field.alias)
                for inner in _models(field.annotation)
            ]
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


def _models(shape: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        yield shape
    for each in get_args(shape):
        yield from _models(each)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _message(found: Any) -> str:
    kind: str = found["type"]
    if kind in _KINDS:
        return _KINDS[kind]
    if kind == "value_error":
        return str(found["msg"]).removeprefix("Value error, ")
    message = str(found["msg"])
    return message[:1].lower() + message[1:].rstrip(".")
