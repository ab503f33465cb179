"""Cursors of two readers of the feed: whether one has seen all that the other has, and what lies between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.event import Event
from penstock.storage.commands import feed, jobs
from tests.storage.conftest import open_store
from tests.storage.kit import Kit


@pytest.fixture(params=("postgres-16", "postgres-18"))
def postgres_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store(request.param, request, tmp_path):
        yield Kit(store)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ("0@5", "0@5", True),
        ("0@5", "0@4", True),
        ("0@4", "0@5", False),
        ("0@10:10:", "0@10:10:", True),
        ("0@12:12:", "0@10:10:", True),
        ("0@10:10:", "0@12:12:", False),
        ("0@10:14:10,12", "0@10:14:10,12", True),
        ("0@10:14:10,12", "0@10:14:10,11,12", True),
        ("0@10:14:10,12", "0@10:14:10", False),
        ("0@10:14:10,12", "0@10:12:10", True),
        ("0@14:14:", "0@10:14:10,12", True),
        ("3@10:14:10,12", "1@11:14:12", False),
    ],
)
def test_a_cursor_covers_another_when_it_has_seen_all_of_it(here: str, there: str, expected: bool) -> None:
    assert feed.covers(here, there) is expected


def test_a_reader_goes_from_one_cursor_to_another_and_no_further(kit: Kit) -> None:
    begin = kit.run(feed.tip())
    between = [kit.create() for _ in range(5)]
    end = kit.run(feed.tip())
    kit.create()

    place = feed.up_to(begin, end)
    found: list[Event] = []
    while place is not None and not feed.is_whole(place):
        news = kit.run(feed.read(place, 2))
        found += news.events
        place = news.cursor

    assert [each.job_id for each in found] == between
    assert place is not None
    assert feed.up_to(place, end) is None


# SQLite has one writer at a time: nothing is open there while others write.
def test_what_was_open_at_one_cursor_and_ended_at_the_other_lies_between(postgres_kit: Kit) -> None:
    kit = postgres_kit
    store: Any = kit.store
    kit.define("work")
    draft = kit.draft()
    with store.connect() as connection, connection.transaction():
        store.run_on(connection, jobs.create([draft]))
        seen = kit.create()
        begin = kit.run(feed.tip())
    end = kit.run(feed.tip())

    assert feed.covers(end, begin)
    assert not feed.covers(begin, end)
    place = feed.up_to(begin, end)
    assert place is not None
    assert [each.job_id for each in kit.run(feed.read(place)).events] == [draft.id]
    assert seen != draft.id
