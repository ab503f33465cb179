"""Lists of jobs, page by page; a part of the admin port.

A page's cursor names the last job of the page by what the list is sorted by, so that pages neither repeat nor skip
a job when others come or go.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.ids import is_id
from penstock.domain.instant import HOUR, MINUTE, from_datetime
from penstock.domain.job import Job
from penstock.domain.job_list import Count, JobFilter, Page
from penstock.domain.plan import Rows, Statement, Steps, reads
from penstock.storage.commands import rows
from penstock.storage.commands.list_planner import AFTER_ALL, BEFORE_ALL, SIDE_BY_SIDE, ListPlan, plan_list
from penstock.storage.commands.search import search

MOST = 500
"""The longest page."""

LOOKED_UP = 3000
"""The fewest jobs that a count examines, where another row must be read for each."""

_SPANS = (10 * MINUTE, HOUR, 8 * HOUR)
"""The first time spans of ended jobs that are walked, where most may not match."""
_WORDS = {"createdAt": "created", "finishedAt": "finished", "priority": "priority"}
_WALKED = {"createdAt": "walked", "priority": "walked_priority"}


@dataclass(frozen=True, slots=True)
class _Sort:
    """What a list is sorted by."""

    field: str
    way: str

    def order(self, walked: str | None) -> str:
        """`walked`: the order in which the walked index returns jobs."""
        return f"order_{self._word(walked)}_{self.way}"

    def position(self, walked: str | None) -> str:
        return f"past_{self._word(walked)}_{self.way}"

    def _word(self, walked: str | None) -> str:
        return (_WALKED if walked == self.field else _WORDS)[self.field]


@reads
def count(which: JobFilter, cap: int = 10_000) -> Steps[Count]:
    if cap < 1:
        raise InvalidInput(f"The cap of a count must be at least 1, not {cap}.")
    if which.searches:
        found = yield from search(which, cap)
        return Count(len(found.ids), capped=found.last is not None)
    along = yield from plan_list(which, None)
    look = _look(along, cap)
    counted = Statement(f"count_jobs{along.variant}", {**along.values, "look": look}, parts=along.parts)
    ((found, looked_at),) = yield counted
    return Count(min(found, cap, look - 1), capped=looked_at == look or found > cap)


@reads
def page(which: JobFilter, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None) -> Steps[Page]:
    """`createdAt` is the order of the ids, which contain their time and need no further index.

    Jobs that have not ended are left out of lists by `finishedAt`. A page of a search may have fewer jobs than `limit`
    although more match: its cursor names the last examined job.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"A page holds 1 to {MOST} jobs, not {limit}.")
    by = _sort(sort)
    place = None if cursor is None else _position(cursor, sort)
    if which.searches:
        return (yield from _searched(which, limit, sort, by, place))
    along = yield from plan_list(which, by.field, *_bounds(by, place), down=by.way == "down")
    more: dict[str, object] = {"limit": limit + 1}
    parts: tuple[str, ...] = ("filter_finished",) if by.field == "finishedAt" and along.variant != "_by_end" else ()
    if place is not None and by.field != "createdAt":
        parts += (by.position(along.walks),)
        more["past_key"], more["past_id"] = place
    if along.walks_past:
        read = yield from _in_spans(along, by, parts, more)
    else:
        read = yield _reading(along, by, parts, more)
    found = [rows.job(row) for row in read]
    if len(found) <= limit:
        return Page(found, None)
    return Page(found[:limit], _cursor(sort, _key(by, found[limit - 1]), found[limit - 1].id))


def _searched(which: JobFilter, limit: int, sort: str, by: _Sort, place: tuple[int | None, str] | None) -> Steps[Page]:
    if by.field != "createdAt":
        raise InvalidInput(
            f"A search by error or params cannot be sorted by {sort}: it looks through jobs in order of creation.",
            hint=Hint(
                'Pass sort="createdAt", or sort="-createdAt" for the newest first.',
                cli="Use `--sort createdAt`, or `--sort -createdAt` for the newest first.",
                http="Send `sort=createdAt`, or `sort=-createdAt` for the newest first.",
            ),
        )
    found = yield from search(which, limit, None if place is None else place[1], down=by.way == "down")
    cursor = None if found.last is None else _cursor(sort, None, found.last)
    if not found.ids:
        return Page([], cursor, found.searched)
    along = yield from plan_list(JobFilter(job_id=tuple(found.ids)), by.field)
    read = yield _reading(along, by, (), {"limit": limit})
    return Page([rows.job(row) for row in read], cursor, found.searched)


def _look(along: ListPlan, cap: int) -> int:
    """Return how many jobs a count examines, so that it ends in time even if few match."""
    if along.looks_up:
        return max(cap * 3 // 10, min(cap, LOOKED_UP)) + 1
    # Some may not match, and still the cap is reached.
    look = cap + cap // 10 + 1
    return look * SIDE_BY_SIDE if along.variant == "" and along.parts else look


def _reading(along: ListPlan, by: _Sort, parts: tuple[str, ...], more: Mapping[str, object]) -> Statement:
    order = by.order(along.walks)
    return Statement(along.reading(by.way), {**along.values, **more}, parts=along.parts + parts, order=order)


def _in_spans(along: ListPlan, by: _Sort, parts: tuple[str, ...], more: Mapping[str, object]) -> Steps[Rows]:
    """Read ended jobs span by span, each longer than the last, until a page is full.

    Every lane and outcome is walked until it fills a page, and most of that is discarded: without a span each walk
    would skip many jobs that do not match.
    """
    first = yield _reading(replace(along, parts=()), by, parts, {**more, "limit": 1})
    if not first:
        return []
    ended = rows.job(first[0]).finished_at
    edge = 0 if ended is None else from_datetime(ended, "finishedAt")
    for length in _SPANS:
        low, high = (edge, edge + length) if by.way == "up" else (edge - length, edge)
        within = {**more, "ended_from": low, "ended_to": high}
        found = yield _reading(along, by, (*parts, "within_finished"), within)
        if len(found) == more["limit"]:
            return found
    if along.other is None:
        return (yield _reading(along, by, parts, more))
    return (yield _reading(along.other, by, (*parts, "filter_finished"), more))


def _sort(sort: str) -> _Sort:
    field = sort.removeprefix("-")
    if field not in _WORDS:
        raise InvalidInput(
            f"Jobs cannot be sorted by {sort!r}.", hint=f"Use {', '.join(_WORDS)}, with - in front for descending."
        )
    return _Sort(field, "down" if sort.startswith("-") else "up")


def _bounds(by: _Sort, place: tuple[int | None, str] | None) -> tuple[str, str]:
    """Return the range of ids in which a list continues."""
    if place is None or by.field != "createdAt":
        return BEFORE_ALL, AFTER_ALL
    return (place[1], AFTER_ALL) if by.way == "up" else (BEFORE_ALL, place[1])


def _key(by: _Sort, last: Job) -> int | None:
    """Return the sort key of a page's last job, where that is not its id."""
    if by.field == "priority":
        return last.priority
    if by.field == "finishedAt" and last.finished_at is not None:
        return from_datetime(last.finished_at, "finishedAt")
    return None


def _cursor(sort: str, key: int | None, job_id: str) -> str:
    text = json.dumps([sort, key, job_id], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str, sort: str) -> tuple[int | None, str]:
    """Return the sort key and the id of the last job in a cursor."""
    padding = "=" * (-len(cursor) % 4)
    try:
        text = base64.b64decode(cursor + padding, altchars=b"-_", validate=True)
        of_sort, key, job_id = json.loads(text)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise _not_a_cursor(cursor) from None
    if of_sort != sort and of_sort in (way + field for field in _WORDS for way in ("", "-")):
        raise InvalidInput(
            f"The cursor {cursor[:100]!r} belongs to a list sorted by {of_sort}, not by {sort}.",
            hint="Begin again without a cursor.",
        )
    fits = key is None if sort.endswith("createdAt") else type(key) is int and abs(key) < 2**53
    if of_sort != sort or not fits or not isinstance(job_id, str) or not is_id(job_id):
        raise _not_a_cursor(cursor)
    return key, job_id


def _not_a_cursor(cursor: str) -> InvalidInput:
    return InvalidInput(f"{cursor[:100]!r} is not a cursor of this list.", hint="Use the one that the last page gave.")
