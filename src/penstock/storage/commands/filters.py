"""Conditions of a job filter: their names in `control.sql`, and their values.

The conditions use `job` and `detail` (its job_detail row), so any statement that joins the two can include them.
"""

from __future__ import annotations

from penstock.domain.job_list import JobFilter
from penstock.domain.states import SETS, Status

# The predicates of partial indexes, repeated so that the planner can use the indexes.
HINTS = {
    "filter_attention": {*SETS["attention"]},
    "filter_live": {*SETS["live"]},
    "filter_not_due": {Status.SCHEDULED.code},
}

_NO_CONDITIONS = {"status", "error", "params"}
"""Fields of a filter without a condition of their name, and those that are searched."""


def filters(which: JobFilter) -> tuple[tuple[str, ...], dict[str, object]]:
    """Return the conditions of a filter and their values, always in the same order.

    Searched fields are left out: see `search`.
    """
    values: dict[str, object] = {}
    for name in JobFilter.__dataclass_fields__:
        value = getattr(which, name)
        if value is not None and name not in _NO_CONDITIONS:
            values[f"filter_{name}"] = list(value) if name == "job_id" else value
    parts = tuple(values)
    if which.status is not None:
        more, facts = _status(which.status)
        parts += more
        values |= facts
    return parts, values


def _status(statuses: tuple[Status, ...]) -> tuple[tuple[str, ...], dict[str, object]]:
    """Stale is derived: a stale job does not match its stored status."""
    told = sorted({status.code for status in statuses})
    stored = sorted({*told, *SETS["ended"]} - {Status.STALE.code} if Status.STALE in statuses else told)
    hints = tuple(name for name, codes in HINTS.items() if codes.issuperset(stored))
    return ("filter_status", *hints), {"filter_status": told, "filter_stored": stored}
