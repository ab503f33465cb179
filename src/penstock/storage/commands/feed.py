"""The feed port: reading events by cursor.

A row of the feed is one event, or a bundle: the same event of many jobs that one statement wrote. Readers get single
events; the number of one is its row's times 1024, and in a bundle its place is added.

A cursor says which events its reader has seen: on SQLite those up to a number, on PostgreSQL those of the
transactions that a snapshot holds for ended, because numbers are committed out of order there. When more events are
there than fit, it also says up to which moment the reader is being served, and the last number it was given:

    REVISION@SEEN                  all of SEEN
    REVISION@SEEN/TARGET/LAST      all of SEEN, and of what came between SEEN and TARGET the events up to LAST

REVISION counts how often events had been removed at that time; while it stays, nothing can be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from penstock.domain.errors import FeedGone, Hint, InvalidInput
from penstock.domain.event import Event, News
from penstock.domain.ids import is_id
from penstock.domain.plan import Statement, Steps, reads
from penstock.storage.commands import rows
from penstock.storage.commands.pruning import NUMBERS as NUMBERS
from penstock.storage.commands.pruning import prune as prune

WINDOW = 10_000
"""The most rows that are sorted for a page; a reader that lags further is served in steps."""

_MOMENT = r"(\d{1,19}(?::\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?)?)"
_FORM = re.compile(rf"(\d{{1,9}})@{_MOMENT}(?:/{_MOMENT}/(\d{{1,18}}))?", re.ASCII)


@reads
def tip() -> Steps[str]:
    ((revision, moment),) = yield Statement("feed_tip")
    return str(_Cursor(revision, moment))


@reads
def origin() -> Steps[str]:
    ((revision, moment),) = yield Statement("feed_origin")
    return str(_Cursor(revision, moment))


@reads
def read(cursor: str, limit: int = 500) -> Steps[News]:
    if limit < 1:
        raise InvalidInput(f"The limit of a read of the feed must be at least 1, not {limit}.")
    place = _parsed(cursor)
    page = yield from _page(cursor, place, limit)
    if place.target is None and page.looked_at > WINDOW:
        found = yield Statement("cut_feed", {"base": place.seen, "most": WINDOW})
        place = replace(place, target=(found and found[0][0]) or page.now)
        page = yield from _page(cursor, place, limit)
    events = page.events[:limit]
    target = place.target or page.now
    if len(page.events) > limit:
        after = _Cursor(page.revision, place.seen, target, events[-1].seq)
        return News(events, str(after), more=True)
    return News(events, str(_Cursor(page.revision, target)), more=target != page.now)


def with_cursors(cursor: str, news: News) -> Iterator[tuple[Event, str]]:
    """Yield each event of `read(cursor)` with the cursor directly after it."""
    if not news.events:
        return
    before, after = _parsed(cursor), _parsed(news.cursor)
    target = after.seen if after.target is None else after.target
    for event in news.events[:-1]:
        yield event, str(_Cursor(after.revision, before.seen, target, event.seq))
    yield news.events[-1], news.cursor


def is_whole(cursor: str) -> bool:
    """Return whether a cursor is at the end of a span, not within one."""
    return _parsed(cursor).target is None


def covers(cursor: str, other: str) -> bool:
    """Return whether one whole cursor includes everything of another."""
    here, there = _moment(_parsed(cursor).seen), _moment(_parsed(other).seen)
    return there.end <= here.end and all(each in there.still_open for each in here.still_open if each < there.end)


def up_to(cursor: str, end: str) -> str | None:
    """Return the cursor of a reader that continues from one whole cursor up to another.

    None when there is nothing between them."""
    start, moment = _parsed(cursor), _parsed(end).seen
    return None if start.seen == moment else str(replace(start, target=moment, last=0))


def seen_until(cursor: str) -> tuple[int, int]:
    """Return the number of the newest seen event of a SQLite store, and the revision of the cursor."""
    place = _parsed(cursor)
    if ":" in place.seen:
        raise _not_a_cursor(cursor)
    return max(int(place.seen), place.last), place.revision


@reads
def of_job(job_id: str, after: int = 0, limit: int = 500) -> Steps[list[Event]]:
    if not is_id(job_id):
        return []
    found = yield Statement("job_events", {"id": job_id, "after": after, "limit": limit})
    return [rows.stored_event(row) for row in found]


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The position of a reader."""

    revision: int
    seen: str
    target: str | None = None
    last: int = 0

    def __str__(self) -> str:
        rest = "" if self.target is None else f"/{self.target}/{self.last}"
        return f"{self.revision}@{self.seen}{rest}"


@dataclass(frozen=True, slots=True)
class _Page:
    """One answer of `read_feed`: up to one event more than requested."""

    revision: int
    looked_at: int
    now: str
    events: list[Event]


def _parsed(cursor: str) -> _Cursor:
    found = _FORM.fullmatch(cursor)
    if found is None:
        raise _not_a_cursor(cursor)
    revision, seen, target, last = found.groups()
    if not all(_sound(moment) for moment in (seen, target) if moment is not None):
        raise _not_a_cursor(cursor)
    return _Cursor(int(revision), seen, target, int(last or 0))


@dataclass(frozen=True, slots=True)
class _Moment:
    """All transactions before `end` were seen, except those still open."""

    end: int
    still_open: frozenset[int] = frozenset()


def _moment(text: str) -> _Moment:
    _, colon, rest = text.partition(":")
    if not colon:
        return _Moment(int(text) + 1)
    end, _, still_open = rest.partition(":")
    return _Moment(int(end), frozenset(int(each) for each in still_open.split(",") if each))


def _sound(moment: str) -> bool:
    """Whether a moment is a seq, or a snapshot that PostgreSQL would have written: first, end, those open between."""
    first, colon, rest = moment.partition(":")
    if not colon:
        return True
    end, _, still_open = rest.partition(":")
    numbers = [int(first), *(int(each) for each in still_open.split(",") if each)]
    rising = all(one < other for one, other in pairwise(numbers[1:]))
    return 0 < int(first) <= int(end) < 2**63 and rising and all(int(first) <= each < int(end) for each in numbers[1:])


def _page(cursor: str, place: _Cursor, limit: int) -> Steps[_Page]:
    values = {
        "revision": place.revision, "base": place.seen, "target": place.target, "last": place.last,
        "limit": limit + 1, "most": WINDOW + 1 if place.target is None else None,
    }  # fmt: skip
    found = yield Statement("read_feed", values)
    valid, gone, revision, looked_at, now = found[0][:5]
    if not valid:
        raise _not_a_cursor(cursor)
    if gone:
        raise FeedGone(
            f"Events after the cursor {cursor[:100]!r} were deleted already.",
            hint="Read the current state again, and continue from the feed's tip.",
        )
    return _Page(revision, looked_at, now, [rows.stored_event(row[5:]) for row in found if row[5] is not None])


def _not_a_cursor(cursor: str) -> InvalidInput:
    return InvalidInput(
        f"{cursor[:100]!r} is not a cursor of this feed.",
        hint=Hint(
            "Use one that tip, origin or read has returned.",
            cli="Use `nextCursor` of a list with --json, or origin for all that is kept.",
            http="Use `nextCursor` of a list or the id of an event of a stream, or `origin` for all that is kept.",
        ),
    )
