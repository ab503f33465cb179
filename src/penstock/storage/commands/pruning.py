"""Removing old events: a part of the feed port."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from penstock.domain.plan import Rows, Statement, Steps, writes

NUMBERS = 1024
"""The numbers that each row of the feed reserves for its events."""

_TIMES = 64
"""The most times whose bundles one transaction changes, so that it stays short."""


@writes
def prune(age: int, limit: int = 1000) -> Steps[int]:
    """A job's events are deleted together, once its `job.deleted` is older than `age`: no reader finds half a history.
    Those of pruned attempts are deleted once their `job.pruned` is older.

    In a bundle its id is set to null; the row is deleted with the last one."""
    found: Rows = yield Statement("prunable_events", {"age": age, "limit": limit})
    found, times = _within_reach(found)
    bundles: list[_Bundle] = []
    if times:
        held = yield Statement("hold_bundles", columns={"at": times})
        bundles = [_Bundle(xid, seq, fence, json.loads(jobs)) for xid, seq, fence, jobs in held]
    alone: list[tuple[str | None, int]] = []
    removed = 0
    for row in islice(_in_order(found, bundles), limit):
        removed += 1
        if isinstance(row, _Place):
            row.bundle.remove(row.place)
        else:
            alone.append(row)
    if removed:
        yield Statement("remove_events", columns=_columns(alone, [each for each in bundles if each.newest >= 0]))
    return removed


@dataclass(slots=True)
class _Bundle:
    """One row with the same event of many jobs; `newest` is the last place that was emptied."""

    xid: str | None
    seq: int
    fence: int | None
    jobs: list[str | None]
    newest: int = -1

    def remove(self, place: int) -> None:
        self.jobs[place] = None
        self.newest = max(self.newest, place)

    @property
    def rest(self) -> str | None:
        return json.dumps(self.jobs, separators=(",", ":")) if any(self.jobs) else None


@dataclass(frozen=True, slots=True)
class _Place:
    """An event in a bundle."""

    bundle: _Bundle
    place: int

    def is_of_attempts(self, upto: int | None) -> bool:
        """Whether it is about an attempt up to that one; None: whatever it is about."""
        return upto is None or (self.bundle.fence is not None and self.bundle.fence <= upto)


def _within_reach(found: Rows) -> tuple[Rows, list[int]]:
    """The first of these rows, and the times of the bundles that go with them: not too many."""
    times: set[int] = set()
    for count, (_, _, _, told, _) in enumerate(found):
        more = times.union(json.loads(told)) if told else times
        if len(more) > _TIMES and times:
            return found[:count], sorted(times)
        times = more
    return found, sorted(times)


def _in_order(found: Rows, bundles: Sequence[_Bundle]) -> Iterator[_Place | tuple[str | None, int]]:
    """Yield rows and places to remove; a row that names bundles comes after the places that only it names."""
    gone = {job_id for _, _, job_id, told, _ in found if told}
    places: dict[str, list[_Place]] = defaultdict(list)
    for bundle in bundles:
        for place, job_id in enumerate(bundle.jobs):
            if job_id is not None and job_id in gone:
                places[job_id].append(_Place(bundle, place))
    for xid, seq, job_id, told, upto in found:
        if told:
            yield from (each for each in places[job_id] if each.is_of_attempts(upto))
            places[job_id] = [each for each in places[job_id] if not each.is_of_attempts(upto)]
        yield xid, seq


def _columns(alone: Sequence[tuple[str | None, int]], shrunk: Sequence[_Bundle]) -> dict[str, Sequence[object]]:
    return {
        "xid": [*(xid for xid, _ in alone), *(each.xid for each in shrunk)],
        "seq": [*(seq for _, seq in alone), *(each.seq for each in shrunk)],
        "number": [*(seq * NUMBERS for _, seq in alone), *(each.seq * NUMBERS + each.newest for each in shrunk)],
        "jobs": [*(None for _ in alone), *(each.rest for each in shrunk)],
    }
