"""Lists of jobs, page by page; a part of the admin port.

A page's cursor names the last job of the page by what the list is sorted by, so that pages neither repeat nor skip
a job when others come or go.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from penstock.core.errors import InvalidInput
from penstock.core.ids import is_id
from penstock.core.instant import from_datetime
from penstock.core.job import Count, Job, JobFilter, Page
from penstock.core.plan import Statement, Steps, reads
from penstock.stores.verbs import rows
from penstock.stores.verbs.filters import filters

MOST = 500
"""The longest page."""

_WORDS = {"createdAt": "created", "finishedAt": "finished", "priority": "priority"}


@dataclass(frozen=True, slots=True)
class _Sort:
    """What a list is sorted by."""

    field: str
    way: str

    @property
    def order(self) -> str:
        return f"order_{_WORDS[self.field]}_{self.way}"

    @property
    def position(self) -> str:
        return f"past_{_WORDS[self.field]}_{self.way}"


@reads
def count(which: JobFilter, cap: int = 10_000) -> Steps[Count]:
    if cap < 1:
        raise InvalidInput(f"The cap of a count must be at least 1, not {cap}.")
    parts, values = filters(which)
    ((found,),) = yield Statement("count_jobs", {**values, "cap": cap + 1}, parts=parts)
    return Count(min(found, cap), capped=found > cap)


@reads
def page(which: JobFilter, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None) -> Steps[Page]:
    """`createdAt` is the order of the ids, which tell the time at which they were made and need no index more.

    Jobs that have not ended are left out of lists by `finishedAt`.
    """
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"A page holds 1 to {MOST} jobs, not {limit}.")
    by = _sort(sort)
    parts, values = filters(which)
    if by.field == "finishedAt":
        parts += ("filter_finished",)
    if cursor is not None:
        parts += (by.position,)
        values["past_key"], values["past_id"] = _position(cursor, sort)
    values["limit"] = limit + 1
    found = [rows.job(row) for row in (yield Statement("read_jobs", values, parts=parts, order=by.order))]
    if len(found) <= limit:
        return Page(found, None)
    return Page(found[:limit], _cursor(sort, by, found[limit - 1]))


def _sort(sort: str) -> _Sort:
    field = sort.removeprefix("-")
    if field not in _WORDS:
        raise InvalidInput(
            f"Jobs cannot be sorted by {sort!r}.", hint=f"Use {', '.join(_WORDS)}, with - in front for descending."
        )
    return _Sort(field, "down" if sort.startswith("-") else "up")


def _cursor(sort: str, by: _Sort, last: Job) -> str:
    key: int | None = None
    if by.field == "priority":
        key = last.priority
    elif by.field == "finishedAt" and last.finished_at is not None:
        key = from_datetime(last.finished_at, "finishedAt")
    text = json.dumps([sort, key, last.id], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str, sort: str) -> tuple[int | None, str]:
    """The last job that a cursor names: what it is sorted by, and its id."""
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
