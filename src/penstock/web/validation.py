"""What a request got wrong, in our one shape: the first few problems, each with the way to the field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from penstock.web.refusals import Refusal

_MOST = 20
_KINDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown here",
}


def refusal_of_validation(error: ValidationError | RequestValidationError) -> Refusal:
    """The refusal for a request that does not have the shape it should."""
    problems = [_problem(each) for each in list(error.errors())[:_MOST]]
    first = problems[0] if problems else {"path": "", "message": "cannot be read"}
    where = first["path"] or "the body"
    return Refusal(
        "invalid_request",
        f"{where} {first['message']}.",
        hint="The document /openapi.json describes every field.",
        details={"path": first["path"], "problems": problems},
    )


async def answer_validation(_: Request, error: Exception) -> Response:
    """The exception handler for requests that the framework has read."""
    if not isinstance(error, RequestValidationError):
        raise error
    return refusal_of_validation(error).answer()


def _problem(found: Any) -> dict[str, str]:
    place: Sequence[Any] = found["loc"]
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
