"""Pages of lists: short ones that are read whole, and those whose rows are numbered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.domain.errors import InvalidInput
from penstock.domain.hints import Hint

T = TypeVar("T")


def page(items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None) -> tuple[Sequence[T], str | None]:
    """Those behind the key that the cursor names, and the cursor of the next page; None: this was the last."""
    ordered = sorted(items, key=key)
    begin = 0 if cursor is None else bisect_right(ordered, cursor, key=key)
    chosen = ordered[begin : begin + limit]
    return chosen, key(chosen[-1]) if begin + limit < len(ordered) else None


def seq_of(cursor: str | None, what: str) -> int | None:
    """The number that a cursor is, for lists whose rows are numbered."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidInput(
            f"{cursor[:80]!r} is no cursor of the {what}.",
            hint=Hint(
                "Take it from the page before.",
                cli="Take it from the line below the page before: --cursor N.",
                http="Take it from `nextCursor`.",
            ),
        )
    return int(cursor)
