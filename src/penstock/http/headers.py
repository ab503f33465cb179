"""Request headers that routes read: `Accept` (list or stream, metrics format), and `If-Match` with its `ETag`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import Depends, Header

from penstock.http.errors import RequestError

STREAM = "text/event-stream"
LIST = "application/json"
OPEN_METRICS = "application/openmetrics-text"


def wants_stream(accept: Sequence[str]) -> bool:
    """Return whether the headers `Accept` ask for a stream rather than JSON; refuse if they accept neither.

    If both are equally acceptable, the stream must be named.

    """
    ranges = list(_ranges(accept)) or [("*/*", 1.0)]
    stream, named = _weight(ranges, STREAM)
    plain, _ = _weight(ranges, LIST)
    if not stream and not plain:
        raise RequestError(
            "not_acceptable", f"Events are sent as {LIST} or {STREAM}.", hint="Send one of them as Accept."
        )
    return stream > plain or (stream == plain and named)


def wants_open_metrics(accept: Sequence[str]) -> bool:
    """Return whether the headers `Accept` name OpenMetrics, and prefer no other text format."""
    ranges = list(_ranges(accept))
    weight, named = _weight(ranges, OPEN_METRICS)
    return named and weight > 0 and weight >= max((each for name, each in ranges if name == "text/plain"), default=0.0)


def _weight(ranges: Sequence[tuple[str, float]], media: str) -> tuple[float, bool]:
    """Return the weight of a media type by the narrowest range for it, and whether that range is its own name."""
    for name in (media, f"{media.partition('/')[0]}/*", "*/*"):
        found = [weight for each, weight in ranges if each == name]
        if found:
            return max(found), name == media
    return 0.0, False


def _ranges(accept: Sequence[str]) -> Iterator[tuple[str, float]]:
    for each in ",".join(accept).split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        if name:
            yield name, _quality(parameters)


def _quality(parameters: Sequence[str]) -> float:
    for each in parameters:
        key, _, value = each.partition("=")
        if key.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0 <= quality <= 1 else 0.0
    return 1.0


_PATTERN = r'^("[0-9]{1,18}"|\*)$'
_TAG = re.compile(_PATTERN)


async def _expected(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description='The revision that was read, as in `"3"`: the change is refused if the current one differs. '
            "Without it, or with `*`, the last change wins.",
            json_schema_extra={"pattern": _PATTERN},
        ),
    ] = None,
) -> int | None:
    if if_match is None:
        return None
    tag = if_match.strip()
    if _TAG.fullmatch(tag) is None:
        raise RequestError(
            "malformed", f"If-Match is {tag[:80]!r}.", hint='Send back the ETag that was read, such as "3", or *.'
        )
    return None if tag == "*" else int(tag[1:-1])


Expected = Annotated[int | None, Depends(_expected)]
"""In a handler's signature: the expected revision; None: any."""


def etag(revision: int) -> dict[str, str]:
    """Return the header with a revision."""
    return {"ETag": f'"{revision}"'}


TAGGED: dict[str, Any] = {
    "headers": {"ETag": {"description": "The revision, for If-Match.", "schema": {"type": "string"}}}
}
"""For `also` of a route: the answer has its revision as `ETag`."""
