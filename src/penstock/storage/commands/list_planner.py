"""Plans of lists: which index finds the jobs of a filter, so that the cost of a page does not grow with the store.

A list either walks an index in its own order and skips jobs that do not match, or it gathers all jobs that match one
condition and sorts them. Selective conditions are gathered; if none is selective, a walk soon fills a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from penstock.domain.instant import DAY
from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Statement, Steps
from penstock.domain.states import ACTIVE, SETS, TERMINAL, Status
from penstock.storage.commands.filters import HINTS, filters

LITTLE = 10_000
"""The most jobs that are gathered and sorted for a page; with more, a walk in the requested order is tried."""
MEASURED = 30_000
"""The most jobs that are counted to find the most selective condition."""
SIDE_BY_SIDE = 10
"""How many adjacent rows are read in the time of one scattered row."""
TRUST = DAY // 2
"""The largest difference between the time in an id and the creation of its job."""
BEFORE_ALL, AFTER_ALL = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"

_ENDS = SETS["ended"]
_LIVE = {
    "scheduled": {Status.SCHEDULED}, "queued": {Status.QUEUED}, "running": {Status.RUNNING, Status.CANCELLING},
    "review": {Status.REVIEW_NEEDED},
}  # fmt: skip
_CHECKS = {
    f"filter_{name}": f"check_{name}"
    for name in (
        "tag", "fingerprint", "schedule_id", "parent_id", "reference_type", "reference_id", "definition_key", "status",
        "created_from", "created_to",
    )
}  # fmt: skip
_LOOKED_UP = {
    f"check_{name}" for name in ("tag", "fingerprint", "schedule_id", "parent_id", "reference_type", "reference_id")
}
# Filter fields, their variant, and the conditions that need no check when it is walked.
_SOURCES: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "tag": ("_by_tag", {"filter_tag": ()}),
    "schedule_id": ("_by_detail", {"filter_schedule_id": ("along_schedule_id",)}),
    "parent_id": ("_by_detail", {"filter_parent_id": ("along_parent_id",)}),
    "reference_type": (
        "_by_detail",
        {"filter_reference_type": ("along_reference_type",), "filter_reference_id": ("along_reference_id",)},
    ),
    "fingerprint": ("_by_failure", {"filter_fingerprint": ()}),
}
# Indexes that include the priority.
_RANKED: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "tag priority": ("_by_tag_priority", {"filter_tag": ()}),
    "schedule_id priority": ("_by_schedule_priority", {"filter_schedule_id": ()}),
}
# Filter fields, and the conditions by which their jobs are gathered.
_GATHERED: dict[str, dict[str, tuple[str, ...]]] = {
    "tag": {"filter_tag": ("among_tag",)},
    "schedule_id": {"filter_schedule_id": ("among_schedule_id",)},
    "parent_id": {"filter_parent_id": ("among_parent_id",)},
    "reference_type": {"filter_reference_type": ("among_reference_type",)},
    "reference_id": {"filter_reference_type": (), "filter_reference_id": ("among_reference_id",)},
    "fingerprint": {"filter_fingerprint": ("among_fingerprint",)},
}
_WALKED = {
    "_by_tag": "createdAt", "_by_detail": "createdAt", "_by_failure": "createdAt", "_by_lane": "createdAt",
    "_by_tag_priority": "priority", "_by_schedule_priority": "priority",
}  # fmt: skip
_DIRECTED = {"_by_status", "_by_lane"}
"""Variants with a statement for each direction."""


@dataclass(frozen=True, slots=True)
class ListPlan:
    """How to read a list: the variant of the statement, its conditions and values."""

    variant: str
    parts: tuple[str, ...]
    values: dict[str, object]
    other: ListPlan | None = None
    """Another plan, for when this one would scan too far."""

    @property
    def walks(self) -> str | None:
        """The order in which the walked index returns jobs; None: no walk."""
        return _WALKED.get(self.variant)

    def reading(self, direction: str) -> str:
        """Return the statement that reads jobs, `up` or `down`."""
        return f"read_jobs{self.variant}" + (f"_{direction}" if self.variant in _DIRECTED else "")

    @property
    def looks_up(self) -> bool:
        """Whether another row than the job's must be read to check its match."""
        return not _LOOKED_UP.isdisjoint(self.parts)

    @property
    def walks_past(self) -> bool:
        """Whether it may skip many jobs that do not match."""
        fits = {"check_status", "check_definition_key"}
        return self.variant == "_by_end" and not fits.issuperset(self.parts)


def plan_list(
    which: JobFilter,
    order: str | None,
    after: str = BEFORE_ALL,
    before: str = AFTER_ALL,
    *,
    down: bool = False,
    moves: bool = False,
) -> Steps[ListPlan]:
    """`order` is what a list is sorted by, None for a count; ids are between `after` and `before`.

    `down`: the newest, the last or the most urgent come first. `moves`: the range is moved for each part of a walk, and
    large sets are not gathered.
    """
    parts, values = filters(which)
    parts = tuple(part for part in parts if part not in HINTS)
    after, before = _between(which, after, before)
    values |= _status_groups(which.status) | {"after": after, "before": before, "key": which.definition_key}
    bounded = moves or (after, before) != (BEFORE_ALL, AFTER_ALL)
    best = natural = _natural(which, order)
    little, size = "", 0
    if rivals := _rivals(which, order, best):
        best, little, size = yield from _smallest(which, order, best, rivals, values)
    if moves and best == "_by_status" and which.status is not None:
        size = max(size, (yield from _ended(which.status, which.definition_key)))
        if size > LITTLE:
            best = "" if which.definition_key is None else "_by_lane"
    far = moves or best not in ("", "_by_status", "_by_priority", "_by_end")
    if size > LITTLE and order != "finishedAt" and far:
        edge = yield from _edge(which.status, values, down=down)
        values |= edge
        bounded = bounded or bool(edge)
    unordered = best == "reference_type" and which.reference_id is None and order is not None
    if unordered or (order in ("finishedAt", "priority") and best in _SOURCES):
        return _among(best, parts, values, bounded=bounded)
    # The statements for a definition bound the ids in any case.
    found = _along(best, parts, values, bounded=bounded and (best != "_by_lane" or order is None))
    if best == natural == "_by_end" and little in _SOURCES:
        return replace(found, other=_among(little, parts, values, bounded=bounded))
    return found


def _along(best: str, parts: tuple[str, ...], values: dict[str, object], *, bounded: bool) -> ListPlan:
    """Return the plan of a walk along an index."""
    variant, along = (_SOURCES | _RANKED).get(best, (best, {}))
    if variant == "_by_lane":
        along = {"filter_definition_key": ()}
    if variant in _WALKED:
        along = {"filter_tag": ("check_walked_tag",), **along}
    kept = tuple(part for each in parts for part in along.get(each, (_CHECKS.get(each, each),)))
    if bounded:
        kept += (_bounds(variant, kept),)
    return ListPlan(variant, kept, values)


def _among(best: str, parts: tuple[str, ...], values: dict[str, object], *, bounded: bool) -> ListPlan:
    """Return the plan that gathers all jobs of a condition."""
    of_one = best == "reference_type" and "filter_reference_id" in parts
    gathered = _GATHERED["reference_id" if of_one else best]
    kept = tuple(part for each in parts for part in gathered.get(each, (_CHECKS.get(each, each),)))
    return ListPlan("_among", (*kept, "past_span_aside") if bounded else kept, values)


def _bounds(variant: str, parts: tuple[str, ...]) -> str:
    """Return the condition on the range of ids that lets the intended index be used."""
    if variant in ("", "_by_status"):
        return "past_span"
    if variant in ("_by_end", "_by_priority"):
        return "past_span_aside"
    loose = "along_reference_type" in parts and "along_reference_id" not in parts
    return "past_span_walked_aside" if loose or _WALKED[variant] == "priority" else "past_span_walked"


def _natural(which: JobFilter, order: str | None) -> str:
    """Return the index that is in the requested order."""
    if which.job_id is not None:
        return ""
    if order in ("finishedAt", "priority"):
        return "_by_end" if order == "finishedAt" else "_by_priority"
    for name in _SOURCES:
        # Of a type of reference alone there is no order by id.
        if getattr(which, name) is not None and (name != "reference_type" or which.reference_id is not None):
            return name
    if which.status is not None:
        return "_by_status"
    return "" if which.definition_key is None else "_by_lane"


def _rivals(which: JobFilter, order: str | None, natural: str) -> list[str]:
    """Return the conditions that may be more selective than the natural index; empty when there is no choice."""
    if which.job_id is not None:
        return []
    rivals = [name for name in _SOURCES if getattr(which, name) is not None]
    if which.created_from is not None or which.created_to is not None:
        rivals.append("span")
    if which.status is not None and set(which.status) & ACTIVE and order == "createdAt":
        rivals.append("live")
    if which.definition_key is not None and rivals:
        rivals.append("definition_key")
    return [] if rivals == [natural] and which.status is None else rivals


def _smallest(
    which: JobFilter, order: str | None, natural: str, rivals: list[str], values: Mapping[str, object]
) -> Steps[tuple[str, str, int]]:
    """Return the chosen index, the most selective condition, and its number of jobs."""
    asked = {name: getattr(which, name) for name in (*_SOURCES, "reference_id")}
    asked |= {name: values[name] for name in ("after", "before", "key")}
    asked |= {name: which.status is not None and values[name] for name in _LIVE}
    wide = LITTLE * SIDE_BY_SIDE + 1
    asked |= {"spanned": "span" in rivals, "most": MEASURED, "wide": wide}
    ((tag, schedule, parent, reference, fingerprint, definition, live, span),) = yield Statement(
        "measure_filters", asked
    )
    sizes = {
        "tag": tag, "schedule_id": schedule, "parent_id": parent, "reference_type": reference,
        "fingerprint": fingerprint,
        "definition_key": definition, "live": live, "span": MEASURED if span >= wide else span // SIDE_BY_SIDE,
    }  # fmt: skip
    if which.status is not None:
        sizes["status"] = live + (yield from _ended(which.status, which.definition_key))
        rivals = [*(each for each in rivals if each != "live"), "status"]
    if "reference_type" in rivals and reference >= MEASURED:
        # There is no order in it, and all of it would be sorted.
        rivals.remove("reference_type")
    if not rivals:
        return natural, "", 0
    best = min(rivals, key=lambda each: sizes[each])
    size = sizes[best]
    if order == "priority":
        return _in_priority(which, best, size), best, size
    if order == "finishedAt" and (best not in (*_SOURCES, "span") or size > LITTLE):
        return natural, best, size
    if best == "status" and order is not None and live > LITTLE and which.definition_key is None:
        return "", best, size
    return {"span": "", "status": "_by_status", "definition_key": "_by_lane"}.get(best, best), best, size


def _in_priority(which: JobFilter, best: str, size: int) -> str:
    """Return the index of a list by priority, when this condition is the most selective.

    The length of a walk is unbounded and cannot be probed: matching jobs are gathered where no index has their
    priorities.
    """
    if best in ("status", "definition_key"):
        return "_by_priority"
    ranked = best if best in ("tag", "schedule_id") else "tag" if which.tag is not None else "schedule_id"
    if getattr(which, ranked) is not None and (best == ranked or size > LITTLE):
        return f"{ranked} priority"
    if best == "span":
        return "" if size <= LITTLE else "_by_priority"
    return best


def _edge(statuses: tuple[Status, ...] | None, values: Mapping[str, object], *, down: bool) -> Steps[dict[str, str]]:
    """Return where a walk begins: at the first job, in order of creation, with one of the ended statuses."""
    if statuses is None or not TERMINAL.issuperset(statuses):
        return {}
    name = f"read_jobs_by_status_{'down' if down else 'up'}"
    order = f"order_created_{'down' if down else 'up'}"
    found = yield Statement(name, {**values, "limit": 1}, parts=("check_status", "past_span"), order=order)
    if not found:
        return {"before": BEFORE_ALL} if down else {"after": AFTER_ALL}
    first = UUID(found[0][0]).int
    return {"before": str(UUID(int=first + 1))} if down else {"after": str(UUID(int=first - 1))}


def _ended(statuses: tuple[Status, ...], definition: str | None) -> Steps[int]:
    """Return the counted number of jobs with one of the ended statuses; any of them may be stale."""
    codes = _ENDS if Status.STALE in statuses else tuple(each.code for each in TERMINAL.intersection(statuses))
    counted = yield Statement("read_counts")
    return sum(n for key, _, code, n in counted if code in codes and definition in (None, key))


def _status_groups(statuses: tuple[Status, ...] | None) -> dict[str, object]:
    """Return the index groups of these statuses: ended jobs by outcome and retirement, active ones by partial index."""
    asked = frozenset(Status) if statuses is None else frozenset(statuses)
    groups = [2 * status.code for status in TERMINAL & asked - {Status.STALE}]
    if Status.STALE in asked:
        groups += [2 * code + 1 for code in _ENDS]
    values: dict[str, object] = {name: bool(several & asked) for name, several in _LIVE.items()}
    return values | {"groups": sorted(groups), "overdue": statuses is not None and Status.STALE in asked}


def _between(which: JobFilter, after: str, before: str) -> tuple[str, str]:
    """Return the range of ids of jobs created in the filter's time span."""
    if which.created_from is not None:
        after = max(after, _id_at(which.created_from - TRUST, "0"))
    if which.created_to is not None:
        before = min(before, _id_at(which.created_to + TRUST, "f"))
    return after, before


def _id_at(instant: int, filler: str) -> str:
    milliseconds = min(max(instant // 1000, 0), 2**48 - 1)
    time = f"{milliseconds:012x}"
    return f"{time[:8]}-{time[8:]}-{filler * 4}-{filler * 4}-{filler * 12}"
