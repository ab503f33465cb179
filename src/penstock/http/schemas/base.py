"""Base classes and field types of all shapes: camelCase names, no unknown fields, no silent conversion."""

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
    """The body of a request: unknown fields are refused, and a string is not accepted as a number."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", strict=True
    )


class PatchModel(RequestModel):
    """The body of a change: a field that is left out keeps its value, so the document has no default for it."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            # Generated clients send a default with every request.
            field.pop("default", None)
        return schema


class ResponseModel(BaseModel):
    """The body of an answer: exactly these fields."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", defer_build=True
    )
    """Answers are documented, not validated, so their validators are not built at start-up."""


def _moment(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError("must be a time with its offset from UTC, such as 2026-01-31T12:00:00Z")
    text = value.upper().replace(",", ".")
    # Python reads at most six digits of a second's fraction.
    text = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        moment = datetime.fromisoformat(text)
        from_datetime(moment, "it")
    except (ValueError, InvalidInput):
        raise ValueError("is not a valid time, or is out of range") from None
    return moment


def integer(value: Any) -> Any:
    """Convert an integer in a query or path; other values are left to the next validator."""
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
"""An integer in a query or path."""
Natural = Annotated[int, Field(ge=0), BeforeValidator(integer)]
"""An integer that is not negative. The bound comes before the conversion, so that the document contains it."""
PageLimit = Annotated[int, Field(ge=1, le=500), BeforeValidator(integer)]
"""The number of entries of a page."""
Truth = Annotated[bool, BeforeValidator(_truth)]
"""`true` or `false` in a query."""
Payload = Annotated[Any, WithJsonSchema({"description": "Any JSON value, exactly as it was sent."})]
PayloadObject = Annotated[dict[str, Any], Field(description="A JSON object.")]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Problem(ResponseModel):
    """An error."""

    code: str = Field(description="Stable name of the kind of error.")
    message: str
    hint: str = Field(description="What to do; may be empty.")
    details: dict[str, Any]


class ProblemAnswer(ResponseModel):
    """The body of every error."""

    error: Problem
