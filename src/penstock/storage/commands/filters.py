"""How a filter of jobs becomes conditions: the names of those in `control.sql`, and the values they ask for.

The conditions speak of `job` and of `detail` (its job_detail row), so any statement that joins the two can be
put together with them.
"""

from __future__ import annotations

from penstock.domain.job_list import JobFilter
from penstock.domain.states import SETS, Status

# The same said in the words of a partial index, without which the planner cannot know that the index will do.
HINTS = {
    "filter_attention": {*SETS["attention"]},
    "filter_live": {*SETS["live"]},
    "filter_not_due": {Status.SCHEDULED.code},
}

_NO_CONDITIONS = {"status", "error", "params"}
"""Fields of a filter that become other conditions than one of their name, or are searched for."""


def filters(which: JobFilter) -> tuple[tuple[str, ...], dict[str, object]]:
    """The conditions that `which` asks for, and their values; the same filter always gives the same order.

    What it searches for is left out: see `search`.
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
    """Stale is derived: a job that reads as stale does not read as what is stored."""
    told = sorted({status.code for status in statuses})
    stored = sorted({*told, *SETS["ended"]} - {Status.STALE.code} if Status.STALE in statuses else told)
    hints = tuple(name for name, codes in HINTS.items() if codes.issuperset(stored))
    return ("filter_status", *hints), {"filter_status": told, "filter_stored": stored}
