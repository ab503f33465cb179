"""How long ended jobs are kept: as their definition says, or else as the stored configuration does."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.domain import worker_config
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND
from penstock.domain.plan import Statement, Steps

_PLAIN = Definition(key="plain")
"""What a definition has that says nothing."""


def lifetimes(definitions: Sequence[Definition]) -> Steps[dict[str, list[int]] | None]:
    """The columns `stale_after` and `delete_after` of these definitions; None: the configuration cannot be read."""
    found = yield Statement("find_setting", {"name": worker_config.SETTING})
    try:
        told = worker_config.from_text(found[0][1] if found else None).retention
    except InvalidInput:
        # Whoever works with the configuration says what is wrong with it.
        return None
    columns: dict[str, list[int]] = {}
    for name in ("stale_after", "delete_after"):
        said, plain = getattr(told, name), getattr(_PLAIN, name)
        default = plain if said is None else round(said * SECOND)
        own = [getattr(each, name) for each in definitions]
        columns[name] = [default if value == plain else value for value in own]
    return columns
