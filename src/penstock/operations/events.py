"""Reads durable events: of the whole feed, or of one job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from difflib import get_close_matches

from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.event import TYPES, Event, News
from penstock.domain.hints import Hint
from penstock.operations.event_listeners import FIRST_LOOK, LONGEST_LOOK, Pattern
from penstock.operations.job_reading import GONE
from penstock.operations.session import ApplicationSession, Pause, Talk, not_inside_a_job
from penstock.storage.commands import feed
from penstock.surface import enqueue_options as given
from penstock.surface.events import ORIGIN, EventPage, FindCursor, NextEvents

_PAGE = 500
_OURS = ("job.", "schedule.", "worker.")
_Page = tuple[list[tuple[Event, str]], str, bool]
"""Events, each with the cursor after it; the cursor after all that was read; whether to read again immediately."""


def find_cursor(session: ApplicationSession, asked: FindCursor) -> Talk[str]:
    if session.errands is not None:
        raise not_inside_a_job(f"app.{asked.call}")
    if asked.type is not None:
        patterns(asked.type)
    after = asked.after
    if asked.job_id is None:
        if after in (None, "", ORIGIN):
            found: str = yield feed.origin() if after else feed.tip()
            return found
        return str(after)
    job_id = given.job_id(asked.job_id)
    if after not in (None, ORIGIN):
        return str(_number(after))
    first: list[Event] = yield feed.of_job(job_id, 0, 1)
    if not first:
        raise NotFound("job", job_id, hint=GONE)
    return "0"


def next_events(_: ApplicationSession, asked: NextEvents) -> Talk[EventPage]:
    wanted = None if asked.type is None else patterns(asked.type)
    job_id = None if asked.job_id is None else given.job_id(asked.job_id)
    end = None if asked.seconds is None else time.monotonic() + asked.seconds
    pause, cursor = FIRST_LOOK, asked.cursor
    while True:
        found, cursor, more = yield from (_of_feed(cursor) if job_id is None else _of_job(job_id, cursor))
        events = tuple(each for each in found if wanted is None or any(one.fits(each[0]) for one in wanted))
        if events:
            return EventPage(events, cursor)
        if more:
            continue
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            return EventPage((), cursor)
        yield Pause(min(pause, left))
        pause = min(LONGEST_LOOK, pause * 1.5)


def _of_feed(cursor: str) -> Talk[_Page]:
    news: News = yield feed.read(cursor, _PAGE)
    return list(feed.with_cursors(cursor, news)), news.cursor, news.more


def _of_job(job_id: str, cursor: str) -> Talk[_Page]:
    """Events of one job, whose cursors are their numbers."""
    events: list[Event] = yield feed.of_job(job_id, int(cursor), _PAGE)
    last = str(events[-1].seq) if events else cursor
    return [(event, str(event.seq)) for event in events], last, len(events) == _PAGE


def _number(after: str | None) -> int:
    if after is None or not (after.isascii() and after.isdigit()) or len(after) > 18:
        raise InvalidInput(
            f"{after!r:.100} is not a cursor of one job's events.", hint="Cursors of the whole feed are others."
        )
    return int(after)


def patterns(types: str | Sequence[str]) -> list[Pattern]:
    """The event types that are wanted, as users write them."""
    names = given.several_texts([types] if isinstance(types, str) else types, "type")
    if not names:
        raise InvalidInput(
            "No event type was given.",
            hint=Hint(
                "Leave `type` out to get every one.",
                cli="Leave --type out to get every one.",
                http="Leave `type` out to get every one.",
            ),
        )
    return [pattern(each) for each in names]


def pattern(name: object) -> Pattern:
    """An event type as users write it; of those that are penstock's own, one that does not exist is refused."""
    text = given.short_text(name, "type")
    if text is None:
        raise InvalidInput("An event's type is a text.", hint='Write "job.failed", "job.*" or "*".')
    start = text.removesuffix("*")
    if "*" in start or (text.endswith("*") and start and not start.endswith(".")):
        raise InvalidInput(f"{text!r:.80} is no event type.", hint='Write "job.failed", "job.*" or "*".')
    found = Pattern(start, whole=start == text)
    if start.startswith(_OURS) and not any(found.means(each) for each in TYPES):
        near = get_close_matches(text, TYPES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(TYPES)}."
        raise InvalidInput(f"There is no event {text!r:.80}.", hint=hint)
    return found
