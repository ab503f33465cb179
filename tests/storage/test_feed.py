"""The feed: tip, origin, read, of_job and prune."""

from __future__ import annotations

import pytest

from penstock.domain.errors import FeedGone, InvalidInput
from penstock.domain.event import Event
from penstock.domain.instant import DAY, to_datetime
from penstock.domain.states import Status
from penstock.storage.commands import control, feed, jobs
from tests.storage.kit import START, Kit


def follow(kit: Kit, cursor: str, limit: int = 500) -> tuple[list[Event], str]:
    """Everything after the cursor, page by page."""
    events: list[Event] = []
    while True:
        news = kit.run(feed.read(cursor, limit))
        assert len(news.events) <= limit
        events += news.events
        cursor = news.cursor
        if not news.more:
            return events, cursor


def deleted_job(kit: Kit) -> str:
    job_id = kit.job_in(Status.SUCCEEDED)
    kit.run(control.delete([job_id]))
    return job_id


def test_the_tip_is_followed_by_what_comes_later_and_by_nothing_else(kit: Kit) -> None:
    kit.create()
    tip = kit.run(feed.tip())
    later = kit.create()

    events, _ = follow(kit, tip)

    assert [(event.type, event.job_id) for event in events] == [("job.enqueued", later)]


def test_the_origin_is_followed_by_everything(kit: Kit) -> None:
    first, second = kit.create(), kit.create()

    events, _ = follow(kit, kit.run(feed.origin()))

    assert [event.job_id for event in events] == [first, second]


def test_an_event_tells_what_was_written(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed)
    tip = kit.run(feed.tip())
    kit.run(jobs.emit(held, "mail.sent", '{"to": "ä\\"x"}'))

    ((event,), _) = follow(kit, tip)

    assert (event.type, event.job_id, event.fence, event.data_text) == (
        "mail.sent",
        held.job_id,
        held.fence,
        '{"to": "ä\\"x"}',
    )
    assert event.subject is None
    assert event.at == to_datetime(START)
    assert kit.run(feed.of_job(held.job_id))[-1] == event


def test_an_event_that_is_about_no_job_names_its_subject(kit: Kit) -> None:
    kit.define()
    tip = kit.run(feed.tip())
    worker = kit.worker()

    ((event,), _) = follow(kit, tip)

    assert (event.type, event.subject, event.job_id) == ("worker.started", worker, None)


def test_nothing_new_is_an_empty_page_with_a_cursor_that_goes_on(kit: Kit) -> None:
    news = kit.run(feed.read(kit.run(feed.tip())))
    assert (news.events, news.more) == ([], False)

    job_id = kit.create()

    assert [event.job_id for event in kit.run(feed.read(news.cursor)).events] == [job_id]


def test_pages_of_any_size_give_each_event_once_and_in_order(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    created = [kit.create() for _ in range(10)]

    for limit in (1, 2, 3, 7, 10, 500):
        events, cursor = follow(kit, origin, limit)

        assert [event.job_id for event in events] == created
        assert kit.run(feed.read(cursor)).events == []


def test_the_same_cursor_can_be_read_again(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    for _ in range(5):
        kit.create()
    middle = kit.run(feed.read(origin, 2)).cursor

    assert kit.run(feed.read(origin, 2)) == kit.run(feed.read(origin, 2))
    assert kit.run(feed.read(middle, 2)) == kit.run(feed.read(middle, 2))


def test_what_is_written_between_two_pages_comes_after_them(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    before = [kit.create() for _ in range(4)]
    first = kit.run(feed.read(origin, 3))
    later = kit.create()

    events, _ = follow(kit, first.cursor, 3)

    assert [event.job_id for event in first.events + events] == [*before, later]


def test_more_says_whether_there_was_more_than_fitted(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    for _ in range(4):
        kit.create()

    assert kit.run(feed.read(origin, 3)).more
    assert not kit.run(feed.read(origin, 4)).more


def test_a_reader_far_behind_is_led_on_in_steps(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WINDOW", 6)
    origin = kit.run(feed.origin())
    created = [kit.create() for _ in range(40)]

    for limit in (1, 4, 50):
        events, _ = follow(kit, origin, limit)

        assert [event.job_id for event in events] == created


def test_a_transaction_larger_than_a_step_is_served_in_pages_too(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WINDOW", 6)
    origin = kit.run(feed.origin())
    small = [kit.create() for _ in range(25)]
    kit.run(control.cancel(small))
    after = [kit.create() for _ in range(9)]

    events, _ = follow(kit, origin, limit=4)

    assert [event.job_id for event in events] == [*small, *small, *after]


NO_CURSORS = (
    "", "0", "@", "0@", "x@1", "0@x", "0@-1", "0@1/2", "0@1//3", "0@1/2/x", "0@1:2", "0@5:2:", "0@1:9:4,3", "0@12/x/1",
    "0@1:9:0", "0@0:0:", "0@'; --", "-1@1", "0@1\n", "٣@١", "0@99999999999999999999", "0@" + "9" * 5000,
)  # fmt: skip


def test_what_is_not_a_cursor_is_refused_by_name(kit: Kit) -> None:
    for cursor in NO_CURSORS:
        with pytest.raises(InvalidInput, match="is not a cursor") as refusal:
            kit.run(feed.read(cursor))

        assert repr(cursor[:100]) in refusal.value.message


def test_the_cursor_of_another_kind_of_store_is_refused(kit: Kit) -> None:
    foreign = "0@5" if kit.store.dialect == "postgres" else "0@5:9:6"

    with pytest.raises(InvalidInput, match="is not a cursor"):
        kit.run(feed.read(foreign))


def test_a_cursor_from_the_future_of_a_store_that_was_set_back_is_gone(kit: Kit) -> None:
    kit.create()
    ahead = "0@999999999999:999999999999:" if kit.store.dialect == "postgres" else "0@999999999999"

    with pytest.raises(FeedGone, match="999999999999"):
        kit.run(feed.read(ahead))


def test_a_page_holds_at_least_one_event(kit: Kit) -> None:
    with pytest.raises(InvalidInput, match="at least 1"):
        kit.run(feed.read(kit.run(feed.tip()), 0))


def test_the_events_of_a_job_come_in_order_and_in_pages(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed)
    events = kit.run(feed.of_job(claimed.job_id))

    assert [event.type for event in events] == ["job.enqueued", "job.started", "job.succeeded"]
    assert kit.run(feed.of_job(claimed.job_id, limit=2)) == events[:2]
    assert kit.run(feed.of_job(claimed.job_id, after=events[1].seq)) == events[2:]


def test_a_job_that_does_not_exist_has_no_events(kit: Kit) -> None:
    assert kit.run(feed.of_job(kit.new_id())) == []
    assert kit.run(feed.of_job("no id at all")) == []


def test_the_events_of_a_deleted_job_are_removed_together_when_its_deletion_is_old(kit: Kit) -> None:
    gone = deleted_job(kit)
    kept = kit.job_in(Status.SUCCEEDED)
    kit.advance(86_401)
    young = deleted_job(kit)

    assert kit.run(feed.prune(DAY)) > 0

    assert kit.events(gone) == []
    assert kit.events(kept) == ["job.enqueued", "job.started", "job.succeeded"]
    assert kit.events(young)[-1] == "job.deleted"


def test_old_events_about_no_job_are_removed(kit: Kit) -> None:
    kit.define()
    origin = kit.run(feed.origin())
    kit.worker()
    kit.advance(86_401)
    kit.worker()

    assert kit.run(feed.prune(DAY)) == 1

    events, _ = follow(kit, kit.run(feed.origin()))
    assert [event.type for event in events] == ["worker.started"]
    with pytest.raises(FeedGone):
        kit.run(feed.read(origin))


def test_events_are_removed_in_batches_until_none_is_left(kit: Kit) -> None:
    gone = [deleted_job(kit) for _ in range(3)]
    kit.advance(86_401)
    events, _ = follow(kit, kit.run(feed.origin()))
    removed = []

    while batch := kit.run(feed.prune(DAY, limit=5)):
        removed.append(batch)

    assert sum(removed) == len(events)
    assert all(batch <= 5 for batch in removed)
    assert [kit.events(job_id) for job_id in gone] == [[], [], []]


def test_a_reader_that_had_not_seen_what_was_removed_must_begin_again(kit: Kit) -> None:
    before = kit.run(feed.tip())
    deleted_job(kit)
    kit.advance(86_401)
    kit.run(feed.prune(DAY))

    with pytest.raises(FeedGone, match="deleted already") as gone:
        kit.run(feed.read(before))

    assert "tip" in gone.value.hint


def test_a_reader_that_had_seen_what_was_removed_goes_on(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    deleted_job(kit)
    seen = [kit.run(feed.tip()), follow(kit, origin)[1]]
    kit.advance(86_401)
    kit.run(feed.prune(DAY))
    later = kit.create()

    for cursor in seen:
        assert [event.job_id for event in follow(kit, cursor)[0]] == [later]


def test_the_origin_moves_with_what_is_removed(kit: Kit) -> None:
    early = kit.create("early")
    deleted_job(kit)
    kit.advance(86_401)
    kit.run(feed.prune(DAY))
    late = kit.create("late")

    events, _ = follow(kit, kit.run(feed.origin()), limit=1)

    assert [event.job_id for event in events] == [early, late]


def test_a_reader_halfway_through_what_is_removed_must_begin_again(kit: Kit) -> None:
    kit.create("early")
    deleted_job(kit)
    halfway = kit.run(feed.read(kit.run(feed.origin()), 2)).cursor
    kit.advance(86_401)
    kit.run(feed.prune(DAY))

    with pytest.raises(FeedGone):
        kit.run(feed.read(halfway, 2))


def test_a_reader_halfway_but_past_what_was_removed_goes_on(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    gone = deleted_job(kit)
    rest = [kit.create("late") for _ in range(3)]
    removed = len(kit.run(feed.of_job(gone))) + 1  # and the event of the worker that ran it
    halfway = kit.run(feed.read(origin, removed + 1))
    kit.advance(86_401)
    assert kit.run(feed.prune(DAY)) == removed

    assert halfway.more
    assert [event.job_id for event in follow(kit, halfway.cursor)[0]] == rest[1:]


def test_nothing_old_enough_is_nothing_to_remove(kit: Kit) -> None:
    deleted_job(kit)

    assert kit.run(feed.prune(DAY)) == 0


def test_the_events_of_an_id_that_was_deleted_twice_are_counted_once(kit: Kit) -> None:
    draft = kit.draft()
    for _ in range(2):
        kit.run(jobs.create([draft]))
        kit.run(control.cancel([draft.id]))
        kit.run(control.delete([draft.id]))
    kit.advance(60)

    assert kit.run(feed.prune(1_000_000, limit=4)) == 4
    assert kit.run(feed.prune(1_000_000)) == 2
    assert kit.events(draft.id) == []


def test_every_event_of_a_page_has_the_cursor_behind_it(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    expected = [kit.create() for _ in range(7)]
    everything, cursor, reached = [event.job_id for event in follow(kit, origin)[0]], origin, 0
    assert everything == expected

    for size in (3, 1, 500):
        news = kit.run(feed.read(cursor, size))
        for event, behind in feed.with_cursors(cursor, news):
            reached += 1
            assert event.job_id == everything[reached - 1]
            for limit in (1, 500):
                assert [each.job_id for each in follow(kit, behind, limit)[0]] == everything[reached:]
        cursor = news.cursor

    assert reached == 7
    assert list(feed.with_cursors(cursor, kit.run(feed.read(cursor)))) == []
