"""What a request got wrong, in our one shape: the first few problems, each with the way to the field."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from penstock.web.refusals import Refusal

MOST_PROBLEMS = 20
"""So many problems of a request are named."""
_KINDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown here",
}


def refusal_of_validation(error: ValidationError | RequestValidationError) -> Refusal:
    """The refusal for a request that does not have the shape it should."""
    return refusal_of_problems(problems_of(error))


def problems_of(error: ValidationError | RequestValidationError, *place: str | int) -> list[dict[str, str]]:
    """The first few problems; `place` is where in the body the value is that has them."""
    found = error.errors() if isinstance(error, RequestValidationError) else error.errors(include_url=False)
    return [_problem(each, place) for each in islice(found, MOST_PROBLEMS)]


def refusal_of_problems(problems: Sequence[dict[str, str]]) -> Refusal:
    """The refusal that names these problems."""
    first = problems[0] if problems else {"path": "", "message": "cannot be read"}
    where = first["path"] or "the body"
    return Refusal(
        "invalid_request",
        f"{where} {first['message']}.",
        hint="The document /openapi.json describes every field.",
        details={"path": first["path"], "problems": list(problems)},
    )


async def answer_validation(_: Request, error: Exception) -> Response:
    """The exception handler for requests that the framework has read."""
    if not isinstance(error, RequestValidationError):
        raise error
    return refusal_of_validation(error).answer()


def _problem(found: Any, where: Sequence[str | int]) -> dict[str, str]:
    place: Sequence[Any] = (*where, *found["loc"])
    if place and place[0] in ("body", "query", "path", "header", "cookie"):
        kind, place = place[0], place[1:]
    else:
        kind = "body"
    steps = [str(each).replace("~", "~0").replace("/", "~1")[:100] for each in place]
    path = "".join(f"/{each}" for each in steps) if kind == "body" else f"{kind} parameter {'.'.join(steps)}"
    return {"path": path, "message": _message(found)}


def _message(found: Any) -> str:
    kind: str = found["type"]
    if kind in _KINDS:
        return _KINDS[kind]
    if kind == "value_error":
        return str(found["msg"]).removeprefix("Value error, ")
    message = str(found["msg"])
    return message[:1].lower() + message[1:].rstrip(".")
