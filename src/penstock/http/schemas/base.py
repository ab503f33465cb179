"""What all shapes share: camelCase names, nothing unknown, nothing converted silently."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import from_datetime

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)


class RequestModel(BaseModel):
    """A request's body: unknown fields are refused, and a text is not taken for a number."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True
    )


class PatchModel(RequestModel):
    """The body of a change: a field that is left out keeps its value, so that the document has no default for it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            # Generated clients send a default with every request.
            field.pop("default", None)
        return schema


class ResponseModel(BaseModel):
    """An answer's body: exactly these fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", defer_build=True
    )
    """Answers are described and not validated: what would validate them is not made at the start of a server."""


def _moment(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("must be a time with its offset from UTC, such as 2026-01-31T12:00:00Z")
    text = value.upper().replace(",", ".")
    # Python reads at most six digits behind the second.
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        moment = datetime.fromisoformat(text)
        from_datetime(moment, "it")
    except (ValueError, InvalidInput):
        raise ValueError("is no time that the calendar has, or is out of range") from None
    return moment


def integer(value: Any) -> Any:
    """A whole number as it stands in a query or path; what is no text is left to others."""
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise ValueError("must be an integer")
        return int(value)
    return value


def _truth(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("true", "false"):
            raise ValueError("must be true or false")
        return value == "true"
    return value


Moment = Annotated[
    datetime,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00Z"]}),
]
"""A time with its offset, as ISO 8601."""
Integer = Annotated[int, BeforeValidator(integer)]
"""A whole number in a query or path."""
Natural = Annotated[int, Field(ge=0), BeforeValidator(integer)]
"""One that is not negative. Bounds stand here: behind the conversion, the document would not tell them."""
PageLimit = Annotated[int, Field(ge=1, le=500), BeforeValidator(integer)]
"""How much a page of a list may have."""
Truth = Annotated[bool, BeforeValidator(_truth)]
"""`true` or `false` in a query."""
Payload = Annotated[Any, WithJsonSchema({"description": "Any JSON value, exactly as it was given."})]
PayloadObject = Annotated[dict[str, Any], Field(description="A JSON object.")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Problem(ResponseModel):
    """What went wrong."""

    code: str = Field(description="Stable name of the kind of error.")
    message: str
    hint: str = Field(description="What to do about it; may be empty.")
    details: dict[str, Any]


class ProblemAnswer(ResponseModel):
    """The body of every error."""

    error: Problem
