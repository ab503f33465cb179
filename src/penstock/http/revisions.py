"""Revisions of things that can be changed: told as `ETag`, expected by `If-Match`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import Depends, Header

from penstock.http.errors import Refusal

_PATTERN = r'^("[0-9]{1,18}"|\*)$'
_TAG = re.compile(_PATTERN)


async def _expected(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description='The revision that was read, as in `"3"`: the change is refused when there is another one '
            "meanwhile. Without it, or with `*`, the last change wins.",
            json_schema_extra={"pattern": _PATTERN},
        ),
    ] = None,
) -> int | None:
    if if_match is None:
        return None
    tag = if_match.strip()
    if _TAG.fullmatch(tag) is None:
        raise Refusal(
            "malformed", f"If-Match is {tag[:80]!r}.", hint='Send back the ETag that was read, such as "3", or *.'
        )
    return None if tag == "*" else int(tag[1:-1])


Expected = Annotated[int | None, Depends(_expected)]
"""In a handler's signature: the revision that a change is made to; None: any."""


def etag(revision: int) -> dict[str, str]:
    """The header that tells a revision."""
    return {"ETag": f'"{revision}"'}


TAGGED: dict[str, Any] = {
    "headers": {"ETag": {"description": "The revision, for If-Match.", "schema": {"type": "string"}}}
}
"""In a route's `also`: the answer tells its revision."""
