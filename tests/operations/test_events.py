"""events and aevents: what happened, one thing after the other."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock import FeedGone, InvalidInput, NotFound, Penstock, StoreUnavailable
from penstock.domain.event import Event
from penstock.domain.instant import DAY
from penstock.domain.plan import Plan
from penstock.storage.commands import feed
from tests.applications import NewApp
from tests.definitions import shapes
from tests.operations.hand import Hand

UNKNOWN = "0199a000-0000-7000-8000-000000000000"


def test_events_come_from_the_moment_of_the_call_on(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    work.enqueue("before")

    events = app.events.follow(timeout=0)
    job = work.enqueue("after")

    assert _told(events) == [("job.enqueued", job.id)]


def test_what_another_process_does_is_heard(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    events = here.events.follow(timeout=30)

    def work() -> None:
        there.job("work")(shapes.plain).enqueue("ada")

    thread = threading.Thread(target=work)
    thread.start()
    event = next(events)
    thread.join()

    assert event.type == "job.enqueued"


def test_a_cursor_goes_on_behind_the_last_event_that_was_given(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    events = app.events.follow(timeout=0)
    first, *others = (work.enqueue(str(number)).id for number in range(5))

    assert next(events).job_id == first
    went_on = app.events.follow(after=events.cursor, timeout=0)

    assert [event.job_id for event in went_on] == others
    assert list(app.events.follow(after=went_on.cursor, timeout=0)) == []


def test_every_event_has_a_cursor_of_its_own_however_many_come_at_once(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    events = app.events.follow(timeout=0)
    app.enqueue_many([work.order(str(number)) for number in range(20)])

    expected: list[Event] = []
    cursors: list[str] = []
    for event in events:
        expected.append(event)
        cursors.append(events.cursor)

    assert len(expected) == 20
    for number, cursor in enumerate(cursors, 1):
        assert list(app.events.follow(after=cursor, timeout=0)) == expected[number:]


def test_what_comes_behind_the_middle_of_a_page_is_not_forgotten(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    events = app.events.follow(timeout=0)
    ids = [work.enqueue(str(number)).id for number in range(3)]
    next(events)
    ids.append(work.enqueue("later").id)

    went_on = app.events.follow(after=events.cursor, timeout=0)

    assert [event.job_id for event in went_on] == ids[1:]


def test_what_is_committed_late_comes_behind_a_cursor_in_the_middle_of_a_page(postgres_app: Penstock) -> None:
    work = postgres_app.job("work")(shapes.plain)
    postgres_app.definitions.register()
    events = postgres_app.events.follow(timeout=0)
    store: Any = postgres_app.store

    with store.connect() as connection, connection.transaction():
        late = work.options(connection=connection).enqueue("late").id
        ids = [work.enqueue(str(number)).id for number in range(3)]
        assert next(events).job_id == ids[0]
    went_on = postgres_app.events.follow(after=events.cursor, timeout=0)

    assert [event.job_id for event in went_on] == [*ids[1:], late]


def test_the_origin_gives_everything_that_is_kept(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    ids = [work.enqueue(str(number)).id for number in range(600)]

    events = app.events.follow(after="origin", timeout=0)

    assert [event.job_id for event in events] == ids


def test_a_loop_that_ran_out_of_time_can_be_gone_on_with(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    events = memory_app.events.follow(timeout=0)

    assert list(events) == []
    job = work.enqueue("ada")

    assert _told(events) == [("job.enqueued", job.id)]


def test_an_iteration_ends_when_nothing_came_for_its_time(memory_app: Penstock) -> None:
    assert list(memory_app.events.follow(timeout=0.05)) == []


def test_an_iteration_can_go_on_after_the_store_was_away(memory_app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    work = memory_app.job("work")(shapes.plain)
    events = memory_app.events.follow(timeout=0)
    job = work.enqueue("ada")

    def away(plan: Plan[Any], **more: Any) -> Any:
        raise StoreUnavailable("gone for lunch")

    with monkeypatch.context() as patch:
        patch.setattr(memory_app.store, "run", away)
        with pytest.raises(StoreUnavailable):
            next(events)

    assert _told(events) == [("job.enqueued", job.id)]


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("job.succeeded", ["job.succeeded"]),
        (["job.succeeded", "job.enqueued"], ["job.enqueued", "job.succeeded"]),
        ("job.*", ["job.enqueued", "job.started", "job.succeeded"]),
        ("worker.*", ["worker.started"]),
        ("*", ["job.enqueued", "worker.started", "job.started", "job.succeeded"]),
        ("own.thing", []),
    ],
)
def test_types_choose_the_events(memory_app: Penstock, types: Any, expected: list[str]) -> None:
    work = memory_app.job("work")(shapes.plain)
    events = memory_app.events.follow(type=types, timeout=0)

    job = work.enqueue("ada")
    Hand(memory_app).succeed(job.id)

    assert [event.type for event in events] == expected


def test_a_cursor_moves_past_events_that_nobody_wants(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    events = memory_app.events.follow(type="job.failed", timeout=0)
    before = events.cursor
    work.enqueue("ada")

    assert list(events) == []

    assert events.cursor != before
    assert list(memory_app.events.follow(after=events.cursor, timeout=0)) == []


def test_the_events_of_one_job_come_from_its_first_one_on(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    job, other = work.enqueue("ada"), work.enqueue("bob")
    hand = Hand(app)
    hand.succeed(job.id)

    events = app.events.follow(job_id=job.id, timeout=0)

    assert _told(events) == [(kind, job.id) for kind in ("job.enqueued", "job.started", "job.succeeded")]
    assert other.id not in {event.job_id for event in events}


def test_the_events_of_one_job_go_on_behind_a_cursor(app: Penstock) -> None:
    job = app.job("work")(shapes.plain).enqueue("ada")
    events = app.events.follow(job_id=job.id, timeout=0)
    next(events)
    app.jobs.cancel(job.id)

    went_on = app.events.follow(after=events.cursor, job_id=job.id, timeout=0)

    assert [event.type for event in went_on] == ["job.cancelled"]


def test_a_job_that_never_was_has_no_events_to_wait_for(app: Penstock) -> None:
    with pytest.raises(NotFound, match=UNKNOWN):
        app.events.follow(job_id=UNKNOWN)


def test_a_snapshot_shows_the_jobs_that_have_not_ended(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    waiting, ended = work.enqueue("ada"), work.enqueue("bob")
    app.jobs.cancel(ended.id)

    events = app.events.follow(snapshot=True, timeout=0)
    meanwhile = work.enqueue("eve")

    assert {job.id for job in events.snapshot} == {waiting.id, meanwhile.id}
    assert _told(events) == [("job.enqueued", meanwhile.id)]


def test_a_snapshot_of_one_job_is_that_job(memory_app: Penstock) -> None:
    job = memory_app.job("work")(shapes.plain).enqueue("ada")
    memory_app.jobs.cancel(job.id)

    events = memory_app.events.follow(snapshot=True, job_id=job.id)

    assert [(each.id, each.status) for each in events.snapshot] == [(job.id, "cancelled")]
    assert list(memory_app.events.follow(job_id=job.id).snapshot) == []


def test_a_reader_whose_events_were_deleted_is_told(app: Penstock) -> None:
    job = app.job("work")(shapes.plain).enqueue("ada")
    app.jobs.cancel(job.id)
    cursor = app.events.follow(after="origin").cursor
    app.jobs.delete(job.id)
    app.store.run(feed.prune(0), now=_later(app))

    with pytest.raises(FeedGone):
        next(app.events.follow(after=cursor))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"after": 5}, "`after` is a cursor, not 5"),
        ({"after": "1@2", "snapshot": True}, "give `after` or `snapshot`, not both"),
        ({"type": []}, "No event type was given"),
        ({"type": "job.fail"}, "There is no event 'job.fail'. Did you mean 'job.failed'?"),
        ({"type": "job*"}, "'job*' is no event type"),
        ({"type": "*.failed"}, "'*.failed' is no event type"),
        ({"type": "schedule.x.*"}, "There is no event 'schedule.x.*'"),
        ({"type": [5]}, "type must be a list of texts"),
        ({"timeout": -1}, "timeout must be between 0 seconds and 100 years"),
        ({"job_id": UNKNOWN, "after": "1@2"}, "'1@2' is not a cursor of one job's events"),
    ],
)
def test_what_cannot_be_followed_is_refused(memory_app: Penstock, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        memory_app.events.follow(**given)

    assert problem in str(raised.value)


async def test_events_can_be_followed_in_an_event_loop(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    events = await app.events.afollow(snapshot=True, timeout=0)
    ids = [(await work.aenqueue(str(number))).id for number in range(3)]

    first = await anext(events)
    went_on = await app.events.afollow(after=events.cursor, timeout=0)

    assert first.job_id == ids[0]
    assert [event.job_id async for event in went_on] == ids[1:]
    assert {job.id async for job in events.snapshot} == set(ids)
    await app.aclose()


def _told(events: Any) -> list[tuple[str, str | None]]:
    return [(event.type, event.job_id) for event in events]


def _later(app: Penstock) -> int:
    """A time at which what happened now is old."""
    newest = max(event.at for event in app.events.follow(after="origin", timeout=0))
    return int(newest.timestamp() * 1_000_000) + DAY
