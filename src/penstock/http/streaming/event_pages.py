"""Pages of events as JSON, each event with its current job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.app import Penstock
from penstock.domain.event import DELETED, Event
from penstock.domain.job import Job
from penstock.http.job_output import JobOutput
from penstock.http.streaming.sse import event_data, message
from penstock.operations.event_listeners import Pattern
from penstock.storage.commands import admin, feed


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The events that a client asked for; None: all."""

    types: tuple[Pattern, ...] | None = None
    definition: str | None = None
    job_ids: frozenset[str] | None = None
    numbered: bool = False
    """Whether the cursor of an event is its number, as for the events of one job."""

    def may_match(self, event: Event) -> bool:
        """Return whether the event matches, as far as that is known without its job."""
        if self.job_ids is not None and event.job_id not in self.job_ids:
            return False
        return self.types is None or any(each.fits(event) for each in self.types)

    def matches(self, item: Item) -> bool:
        return self.may_match(item.event) and self.definition in (None, item.definition)


ALL_EVENTS = EventFilter()


@dataclass(frozen=True, slots=True)
class Item:
    """One event, ready to be sent."""

    event: Event
    cursor: str
    """The cursor after this event."""
    definition: str | None
    text: str

    def frame(self, numbered: bool) -> bytes:
        return message(self.text, event=self.event.type, id=str(self.event.seq) if numbered else self.cursor)


@dataclass(frozen=True, slots=True)
class EventPage:
    """The matching events of one read, and the cursor after it."""

    items: list[Item]
    cursor: str
    more: bool
    """More events exist: read again immediately."""


class EventPages:
    """Reads events with their jobs: one read for the events of a page, one for all its jobs."""

    def __init__(self, app: Penstock, job_output: JobOutput) -> None:
        self._app = app
        self._job_output = job_output

    async def tip(self) -> str:
        return await self._app.store.arun(feed.tip())

    async def origin(self) -> str:
        return await self._app.store.arun(feed.origin())

    async def after(self, cursor: str, limit: int, wanted: EventFilter = ALL_EVENTS) -> EventPage:
        """Return a page of the feed of all events."""
        news = await self._app.store.arun(feed.read(cursor, limit))
        items = await self._items(list(feed.with_cursors(cursor, news)), wanted)
        return EventPage(items, news.cursor, news.more)

    async def of_job(self, job_id: str, after: int, limit: int, wanted: EventFilter = ALL_EVENTS) -> EventPage:
        """Return a page of the events of one job, after a number."""
        events = await self._app.store.arun(feed.of_job(job_id, after, limit))
        items = await self._items([(event, str(event.seq)) for event in events], wanted)
        return EventPage(items, str(events[-1].seq if events else after), len(events) == limit)

    async def jobs(self, jobs: Sequence[Job]) -> list[str]:
        """Return jobs as JSON text with secrets masked."""
        await self._job_output.learn(jobs)
        phases = await self._job_output.phases(jobs)
        return [self._job_output.job(each, phases=phases[each.id]) for each in jobs]

    async def _items(self, found: Sequence[tuple[Event, str]], wanted: EventFilter) -> list[Item]:
        chosen = [each for each in found if wanted.may_match(each[0])]
        ids = dict.fromkeys(event.job_id for event, _ in chosen if event.job_id is not None)
        jobs = await self._app.store.arun(admin.get(list(ids))) if ids else []
        texts = dict(zip((each.id for each in jobs), await self.jobs(jobs), strict=True))
        keys = {each.id: each.definition_key for each in jobs}
        items = (_item(event, cursor, keys, texts) for event, cursor in chosen)
        return [each for each in items if wanted.definition in (None, each.definition)]


def _item(event: Event, cursor: str, keys: dict[str, str], texts: dict[str, str]) -> Item:
    job_id = event.job_id or ""
    definition = keys.get(job_id)
    if definition is None and event.type == DELETED:
        definition = json.loads(event.data_text or "{}").get("definitionKey")
    return Item(event, cursor, definition, event_data(event, texts.get(job_id)))


class EventBatch:
    """Events for all clients; clients with the same filter share the bytes."""

    def __init__(self, items: Iterable[Item], cursor: str) -> None:
        self.items: tuple[Item, ...] = tuple(items)
        self.cursor = cursor
        self._job_ids = {each.event.job_id for each in self.items}
        self._portions: dict[EventFilter, Portion] = {}

    def portion(self, wanted: EventFilter) -> Portion:
        """Return the part for one client."""
        if wanted.job_ids is not None and wanted.job_ids.isdisjoint(self._job_ids):
            return Portion((), b"", self.cursor)
        found = self._portions.get(wanted)
        if found is None:
            found = portion_of((each for each in self.items if wanted.matches(each)), self.cursor, wanted)
            self._portions[wanted] = found
        return found


@dataclass(frozen=True, slots=True)
class Portion:
    """Events for one client, and the cursor after them."""

    items: tuple[Item, ...]
    frames: bytes
    cursor: str


def portion_of(items: Iterable[Item], cursor: str, wanted: EventFilter) -> Portion:
    chosen = tuple(items)
    return Portion(chosen, b"".join(each.frame(wanted.numbered) for each in chosen), cursor)
