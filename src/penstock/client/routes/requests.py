"""Parts of requests that several routes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import Duration, microseconds
from penstock.surface.session import PYTHON


def path_part(text: object, what: str) -> str:
    """A text as one part of a path."""
    if not isinstance(text, str) or not text:
        raise InvalidInput(f"{what} is a text, not {text!r:.80}.")
    return quote(text, safe="")


def refuse_name(by: str | None) -> None:
    """Refuse the name of an operator: the server takes it from the token."""
    if by not in (None, PYTHON):
        raise InvalidInput(
            f"The server knows by the token who changes something, not by {by!r:.80}.", hint="Leave `by` out."
        )


def given_only(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that were given: those that are not None."""
    return {name: value for name, value in facts.items() if value is not None}


def if_match(revision: int | None) -> dict[str, str]:
    """The header that names the revision which is to be changed."""
    return {} if revision is None else {"If-Match": f'"{revision}"'}


def seconds(value: Duration | None, what: str) -> float | None:
    return None if value is None else microseconds(value, what) / 1e6
