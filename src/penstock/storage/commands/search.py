"""Searches for a text in errors and for values of parameters, which no index helps with.

The jobs that all other conditions leave are looked through in order of creation, part by part, and only so many of
them: the caller is told how many these were, and goes on after them if it wants to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Rows, Statement, Steps
from penstock.storage.commands.list_planner import AFTER_ALL, BEFORE_ALL, ListPlan, plan_list

MOST = 10_000
"""As many jobs one search looks through."""
MOST_PASSED = 50_000
"""As many it passes at most, those that its other conditions leave out included."""
MOST_BYTES = 64_000_000
"""A search ends after the part in which so many bytes of errors and parameters have been looked through."""
PART = 500
"""As many jobs one statement looks through."""
_GATHERED = {"_among", "_by_status"}
"""Ways on which a statement costs the same however few jobs it gives."""


@dataclass(slots=True)
class Found:
    """What a search has found, and how far it has looked."""

    limit: int
    ids: list[str] = field(default_factory=list)
    searched: int = 0
    """How many jobs it has looked through."""
    last: str | None = None
    """After which job a further search goes on; None: there are no more."""
    passed: int = 0
    bytes: int = 0
    is_full: bool = False
    """Whether more jobs fit than are wanted."""

    @property
    def is_over(self) -> bool:
        return self.is_full or self.searched >= MOST or self.passed >= MOST_PASSED or self.bytes >= MOST_BYTES

    def look(self, part: Rows) -> None:
        """Take the jobs that fit."""
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


def search(which: JobFilter, limit: int, place: str | None = None, *, down: bool = True) -> Steps[Found]:
    """The first `limit` jobs after `place` that fit, in order of creation; `down`: the newest come first."""
    after, before = (BEFORE_ALL, place or AFTER_ALL) if down else (place or BEFORE_ALL, AFTER_ALL)
    along = yield from plan_list(which, "createdAt", after, before, down=down, moves=True)
    wanted = {
        "error": None if which.error is None else _small(which.error),
        "params": None if which.params is None else json.dumps(dict(which.params)),
    }
    walk = _through_gathered if along.variant in _GATHERED else _along
    return (yield from walk(along, wanted, Found(limit), "down" if down else "up"))


def _along(along: ListPlan, wanted: dict[str, str | None], found: Found, direction: str) -> Steps[Found]:
    """Pass jobs in their order."""
    edge = "before" if direction == "down" else "after"
    while not found.is_over:
        here = {} if found.last is None else {edge: found.last}
        part = yield _reading(along, "answer_searched", direction, {**wanted, **here, "limit": PART})
        found.look(part)
        if len(part) < PART and not found.is_over:
            found.last = None
            break
    return found


def _through_gathered(along: ListPlan, wanted: dict[str, str | None], found: Found, direction: str) -> Steps[Found]:
    """Gather the ids once, and pass the jobs that have them."""
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
    """A text with its ASCII letters small: both databases agree on these."""
    return text.encode().lower().decode()
