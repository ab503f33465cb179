"""Refuses names that are not known, and offers the one that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from penstock.domain.errors import InvalidInput


def refuse_unknown(given: Iterable[str], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known) or 'none'}."
            raise InvalidInput(f"{name!r} is not {what}.", hint=hint)
