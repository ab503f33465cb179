"""Searches in errors and parameters, which no index supports.

The jobs that match all other conditions are examined in order of creation, part by part, up to a maximum. The answer
says how many were examined, and the caller may continue after them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Rows, Statement, Steps
from penstock.storage.commands.list_planner import AFTER_ALL, BEFORE_ALL, ListPlan, plan_list

MOST = 10_000
"""The most jobs that one search examines."""
MOST_PASSED = 50_000
"""The most jobs that it reads, including those that do not match its other conditions."""
MOST_BYTES = 64_000_000
"""A search ends after the part in which this many bytes of errors and parameters were examined."""
PART = 500
"""The number of jobs that one statement examines."""
_GATHERED = {"_among", "_by_status"}
"""Variants whose statement costs the same however few jobs it returns."""


@dataclass(slots=True)
class SearchResult:
    """The matches of a search, and how far it has read."""

    limit: int
    ids: list[str] = field(default_factory=list)
    searched: int = 0
    """The number of jobs examined."""
    last: str | None = None
    """The job after which another search continues; None: there are no more."""
    passed: int = 0
    bytes: int = 0
    is_full: bool = False
    """Whether more jobs match than are wanted."""

    @property
    def is_over(self) -> bool:
        return self.is_full or self.searched >= MOST or self.passed >= MOST_PASSED or self.bytes >= MOST_BYTES

    def look(self, part: Rows) -> None:
        """Add the matching jobs of a part."""
        for job_id, fit, size in part:
            self.passed += 1
            if fit:
                self.searched += 1
                self.bytes += size
            if fit == 2 and len(self.ids) == self.limit:
                self.last, self.is_full = self.ids[-1], True
                return
            if fit == 2:
                self.ids.append(job_id)
            self.last = job_id
            if self.searched == MOST:
                return


def search(which: JobFilter, limit: int, place: str | None = None, *, down: bool = True) -> Steps[SearchResult]:
    """Return the first `limit` matching jobs after `place`, in order of creation; `down`: the newest come first."""
    after, before = (BEFORE_ALL, place or AFTER_ALL) if down else (place or BEFORE_ALL, AFTER_ALL)
    along = yield from plan_list(which, "createdAt", after, before, down=down, moves=True)
    wanted = {
        "error": None if which.error is None else _small(which.error),
        "params": None if which.params is None else json.dumps(dict(which.params)),
    }
    walk = _through_gathered if along.variant in _GATHERED else _along
    return (yield from walk(along, wanted, SearchResult(limit), "down" if down else "up"))


def _along(along: ListPlan, wanted: dict[str, str | None], found: SearchResult, direction: str) -> Steps[SearchResult]:
    """Examine jobs in their order."""
    edge = "before" if direction == "down" else "after"
    while not found.is_over:
        here = {} if found.last is None else {edge: found.last}
        part = yield _reading(along, "answer_searched", direction, {**wanted, **here, "limit": PART})
        found.look(part)
        if len(part) < PART and not found.is_over:
            found.last = None
            break
    return found


def _through_gathered(
    along: ListPlan, wanted: dict[str, str | None], found: SearchResult, direction: str
) -> Steps[SearchResult]:
    """Gather the ids once, and examine their jobs."""
    gathered = [job_id for (job_id,) in (yield _reading(along, "answer_ids", direction, {"limit": MOST + 1}))]
    for start in range(0, len(gathered), PART):
        if found.is_over:
            return found
        ids = gathered[start : start + PART]
        of_these = ListPlan("", ("filter_job_id",), {**along.values, "filter_job_id": ids})
        found.look((yield _reading(of_these, "answer_searched", direction, {**wanted, "limit": PART})))
    if not found.is_over and len(gathered) <= MOST:
        found.last = None
    return found


def _reading(along: ListPlan, answer: str, direction: str, more: dict[str, object]) -> Statement:
    order = f"order_{'walked' if along.walks else 'created'}_{direction}"
    return Statement(along.reading(direction), {**along.values, **more}, parts=(*along.parts, answer), order=order)


def _small(text: str) -> str:
    """Return a text with its ASCII letters in lower case: both databases agree on these."""
    return text.encode().lower().decode()
