"""Bundles: one row for the same event of many jobs, of which readers of the feed and of a job see single events."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.domain.errors import FeedGone
from penstock.domain.event import Event
from penstock.domain.instant import DAY
from penstock.domain.job import Claimed
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, query

ENDED = ["job.enqueued", "job.started", "job.succeeded"]


@pytest.fixture(autouse=True)
def found_by_their_jobs(store: Any) -> Any:
    """Whatever a test did, no bundle names a job that cannot find it."""
    yield
    assert store.run(admin.check_integrity()) == []


def created(kit: Kit, count: int, **options: Any) -> list[str]:
    return [each.job_id for each in kit.run(jobs.create([kit.draft(**options) for _ in range(count)]))]


def claimed(kit: Kit, count: int) -> list[Claimed]:
    """So many jobs that were created at once and claimed at once, a second later."""
    created(kit, count)
    kit.advance(1)
    found = kit.claim(limit=count)
    assert len(found) == count
    kit.advance(1)
    return found


def ended(kit: Kit, count: int) -> list[str]:
    """So many jobs that were created, claimed and settled at once."""
    found = claimed(kit, count)
    kit.settle_all([kit.ending(each) for each in found])
    kit.advance(1)
    return [each.job_id for each in found]


def bundles(kit: Kit) -> list[tuple[str, int | None]]:
    return query(kit.store, "SELECT kind, fence FROM {s}event WHERE jobs IS NOT NULL ORDER BY seq")


def told(kit: Kit, cursor: str, limit: int = 500) -> list[Event]:
    """Everything behind a cursor about jobs, page by page."""
    events: list[Event] = []
    while True:
        news = kit.run(feed.read(cursor, limit))
        assert len(news.events) <= limit
        events += news.events
        cursor = news.cursor
        if not news.more:
            return [each for each in events if each.job_id is not None]


def test_what_a_statement_tells_of_many_jobs_is_one_row(kit: Kit) -> None:
    ended(kit, 5)

    assert bundles(kit) == [("job.enqueued", None), ("job.started", 1), ("job.succeeded", 1)]
    assert query(kit.store, "SELECT count(*) FROM {s}event WHERE job_id IS NOT NULL") == [(0,)]


def test_one_job_has_rows_of_its_own(kit: Kit) -> None:
    job_id = kit.job_in(Status.SUCCEEDED)

    assert bundles(kit) == []
    assert kit.events(job_id) == ENDED


def test_jobs_that_differ_are_told_of_together_too(kit: Kit) -> None:
    made = kit.run(jobs.create([kit.draft(tags=(f"t{n}",), unique=f"u{n}") for n in range(3)]))

    assert bundles(kit) == [("job.enqueued", None)]
    assert [kit.events(each.job_id) for each in made] == [["job.enqueued"]] * 3


def test_many_jobs_are_told_of_in_several_rows(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    ids = created(kit, 2003)
    found = kit.claim(limit=2003)
    kit.settle_all([kit.ending(each) for each in found])

    events = told(kit, origin, 700)

    sizes = "cardinality(jobs)" if kit.store.dialect == "postgres" else "json_array_length(jobs)"
    assert query(kit.store, f"SELECT max({sizes}) <= 1000, count(*) FROM {{s}}event WHERE jobs IS NOT NULL")[0][0]
    assert [each.job_id for each in events[:2003]] == ids
    assert {each.job_id for each in events[2003:4006]} == {each.job_id for each in events[4006:]} == set(ids)
    assert len(events) == 6009
    numbers = [each.seq for each in events]
    assert numbers == sorted(set(numbers))


def test_attempts_with_other_fences_are_told_of_apart(kit: Kit) -> None:
    first = claimed(kit, 2)
    kit.settle_all([kit.ending(each, Trigger.RELEASE) for each in first])
    created(kit, 3)

    again = kit.claim(limit=10)

    assert sorted(bundles(kit)[-2:]) == [("job.started", 1), ("job.started", 2)]
    fences = {each.job_id: each.fence for each in again}
    for job_id, fence in fences.items():
        assert [each.fence for each in kit.run(feed.of_job(job_id)) if each.type == "job.started"][-1] == fence


def test_a_cancelled_job_among_those_that_succeed_is_told_of_as_cancelled(kit: Kit) -> None:
    found = claimed(kit, 5)
    kit.run(control.cancel([found[0].job_id, found[1].job_id]))

    kit.settle_all([kit.ending(each) for each in found])

    ends = [kit.events(each.job_id)[-1] for each in found]
    assert ends == ["job.cancelled"] * 2 + ["job.succeeded"] * 3


def test_reserved_jobs_that_start_together_are_told_of_together(kit: Kit) -> None:
    created(kit, 3)
    reserved = kit.claim(limit=3, start=False)
    assert bundles(kit) == [("job.enqueued", None)]
    kit.advance(1)

    kit.run(jobs.start([kit.held(each) for each in reserved]))

    assert bundles(kit) == [("job.enqueued", None), ("job.started", 1)]
    assert [kit.events(each.job_id) for each in reserved] == [["job.enqueued", "job.started"]] * 3


def test_pages_of_any_size_cut_bundles_and_give_each_event_once(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    ended(kit, 7)
    single = kit.create()
    ended(kit, 4)
    whole = told(kit, origin)

    assert len(whole) == 34
    assert [each.job_id for each in whole].count(single) == 3
    for limit in (1, 2, 3, 5, 7, 8, 34, 35):
        assert told(kit, origin, limit) == whole


def test_a_reader_far_behind_is_led_through_bundles_in_steps(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WINDOW", 3)
    origin = kit.run(feed.origin())
    for count in (2, 5, 1, 3, 4, 2, 6):
        created(kit, count)
    whole = told(kit, origin)

    assert len(whole) == 23
    for limit in (1, 4, 50):
        assert told(kit, origin, limit) == whole


def test_every_event_of_a_bundle_has_the_cursor_behind_it(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    created(kit, 6)
    created(kit, 3)
    whole = told(kit, origin)

    for size in (4, 500):
        news = kit.run(feed.read(origin, size))
        for reached, (event, behind) in enumerate(feed.with_cursors(origin, news), 1):
            assert event == whole[reached - 1]
            for limit in (1, 2, 500):
                assert told(kit, behind, limit) == whole[reached:]


def test_the_events_of_a_job_come_in_pages_from_rows_and_bundles(kit: Kit) -> None:
    job_id, *_ = ended(kit, 3)
    kit.run(control.delete([job_id]))
    events = kit.run(feed.of_job(job_id))

    assert [each.type for each in events] == [*ENDED, "job.deleted"]
    assert {each.job_id for each in events} == {job_id}
    assert [each.fence for each in events] == [None, 1, 1, None]
    for count in range(5):
        after = events[count - 1].seq if count else 0
        assert kit.run(feed.of_job(job_id, after=after)) == events[count:]
        assert kit.run(feed.of_job(job_id, after=after, limit=1)) == events[count : count + 1]
    assert events == [each for each in told(kit, kit.run(feed.origin())) if each.job_id == job_id]


def test_a_job_finds_what_bundles_told_of_it_however_its_attempts_ended(kit: Kit) -> None:
    kit.define("work", max_attempts=10)
    found = claimed(kit, 5)
    endings = [Trigger.SUCCEED, Trigger.FAIL, Trigger.LOSE, Trigger.RELEASE, Trigger.SNOOZE]
    kit.settle_all([kit.ending(*pair) for pair in zip(found, endings, strict=True)])
    lasts = ["job.succeeded", "job.retrying", "job.lost", "job.released", "job.snoozed"]
    begin = ["job.enqueued", "job.started"]
    assert [kit.events(each.job_id) for each in found] == [[*begin, last] for last in lasts]

    kit.advance(3600)
    kit.run(jobs.promote())
    again = kit.claim(limit=10)
    held = [kit.held(each) for each in again]
    kit.run(jobs.start(held))
    kit.advance(1)
    kit.settle_all([kit.ending(each) for each in again])

    rest = ["job.started", "job.succeeded"]
    for each, last in zip(found[1:], lasts[1:], strict=True):
        assert kit.events(each.job_id) == [*begin, last, *rest]


def test_a_job_of_a_lost_worker_finds_what_bundles_told_of_it(kit: Kit) -> None:
    found = claimed(kit, 3)
    kit.advance(60)

    kit.run(jobs.reclaim(0, 0.5))

    assert [kit.events(each.job_id) for each in found] == [["job.enqueued", "job.started", "job.lost"]] * 3


def test_a_job_that_is_tried_again_by_hand_keeps_what_bundles_told_of_it(kit: Kit) -> None:
    found = claimed(kit, 3)
    kit.settle_all([kit.ending(each, Trigger.FAIL, retryable=False) for each in found])
    kit.advance(1)
    kit.run(control.retry([each.job_id for each in found]))
    before = kit.events(found[0].job_id)
    assert before[:3] == ["job.enqueued", "job.started", "job.failed"]

    kit.claim(limit=3, start=False)

    assert kit.events(found[0].job_id) == before


def test_an_archive_gets_what_bundles_told_of_a_job(kit: Kit) -> None:
    ids = ended(kit, 3)
    kit.advance(8 * 86_400)
    kit.run(admin.retire(delete=False))
    kit.advance(8 * 86_400)

    remains = kit.run(admin.take_for_archive())

    assert {each.job.id for each in remains} == set(ids)
    for each in remains:
        assert list(each.events) == kit.run(feed.of_job(each.job.id))
        assert [event.type for event in each.events] == [*ENDED, "job.stale"]


def test_what_a_bundle_told_of_a_deleted_job_stays_until_its_history_goes(kit: Kit) -> None:
    gone, kept, young = ended(kit, 3)
    origin = kit.run(feed.origin())
    kit.run(control.delete([gone]))
    assert kit.events(gone) == [*ENDED, "job.deleted"]
    kit.advance(86_401)
    kit.run(control.delete([young]))
    whole = told(kit, origin)

    removed = kit.run(feed.prune(DAY))

    workers = len(query(kit.store, "SELECT 1 FROM {s}worker"))
    assert removed == 4 + workers
    assert kit.events(gone) == []
    assert (kit.events(kept), kit.events(young)) == (ENDED, [*ENDED, "job.deleted"])
    assert told(kit, kit.run(feed.origin())) == [each for each in whole if each.job_id != gone]
    assert len(bundles(kit)) == 3


def test_a_bundle_goes_with_the_last_of_its_jobs(kit: Kit) -> None:
    ids = ended(kit, 4)
    for job_id in ids:
        assert bundles(kit) != []
        kit.run(control.delete([job_id]))
        kit.advance(86_401)
        kit.run(feed.prune(DAY))
        assert kit.events(job_id) == []

    assert query(kit.store, "SELECT count(*) FROM {s}event") == [(0,)]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_events_in_bundles_are_removed_in_batches_until_none_is_left(kit: Kit, limit: int) -> None:
    ids = ended(kit, 5)
    kit.run(control.delete(ids))
    total = len(told(kit, kit.run(feed.origin()))) + len(query(kit.store, "SELECT 1 FROM {s}worker"))
    kit.advance(86_401)
    removed = []

    while batch := kit.run(feed.prune(DAY, limit=limit)):
        removed.append(batch)

    assert sum(removed) == total == 21
    assert all(batch <= limit for batch in removed)
    assert query(kit.store, "SELECT count(*) FROM {s}event") == [(0,)]


def test_more_bundles_than_are_touched_at_once_go_in_several_steps(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.commands.pruning._TIMES", 4)
    for _ in range(5):
        kit.run(control.delete(ended(kit, 2)))
    kit.advance(86_401)
    steps = 0

    while kit.run(feed.prune(DAY)):
        steps += 1

    assert steps > 1
    assert query(kit.store, "SELECT count(*) FROM {s}event") == [(0,)]


def test_an_id_that_was_deleted_twice_leaves_nothing_in_a_bundle(kit: Kit) -> None:
    drafts = [kit.draft() for _ in range(2)]
    ids = [draft.id for draft in drafts]
    for _ in range(2):
        kit.run(jobs.create(drafts))
        kit.run(control.cancel(ids))
        kit.run(control.delete(ids))
        kit.advance(1)
    history = ["job.enqueued", "job.cancelled", "job.deleted"] * 2
    assert [kit.events(job_id) for job_id in ids] == [history] * 2
    kit.advance(86_401)

    removed = [kit.run(feed.prune(DAY, limit=5)) for _ in range(4)]

    assert sum(removed) == 12
    assert query(kit.store, "SELECT count(*) FROM {s}event") == [(0,)]


def test_readers_before_what_was_removed_from_a_bundle_are_told(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    ids = created(kit, 4)
    kit.run(control.cancel([ids[2]]))
    kit.run(control.delete([ids[2]]))
    before, inside, behind = (kit.run(feed.read(origin, limit)).cursor for limit in (2, 3, 5))
    tip = kit.run(feed.tip())
    kit.advance(86_401)
    assert kit.run(feed.prune(DAY)) == 3

    for cursor in (origin, before, inside, behind):
        with pytest.raises(FeedGone):
            kit.run(feed.read(cursor))
    assert told(kit, tip) == []


def test_a_reader_that_has_seen_what_was_removed_from_a_bundle_goes_on_inside_of_it(kit: Kit) -> None:
    origin = kit.run(feed.origin())
    gone, *others = ended(kit, 3)
    inside = kit.run(feed.read(origin, 5))
    assert (inside.events[-1].type, inside.events[-1].job_id) == ("job.started", gone)
    kit.run(control.delete([gone]))
    rest = told(kit, inside.cursor)
    kit.advance(86_401)
    assert kit.run(feed.prune(DAY, limit=3)) == 3  # of a worker, and two events of the job that is gone

    assert told(kit, inside.cursor) == rest
    assert [each.job_id for each in rest] == [*others, gone, *others, gone]


def test_what_a_job_cannot_find_is_unsound(kit: Kit) -> None:
    job_id, _ = created(kit, 2)
    change(kit.store, f"UPDATE {{s}}job SET created_at = created_at + 1 WHERE id = '{job_id}'")

    (broken,) = kit.run(admin.check_integrity())

    assert (broken.rule, broken.rows) == ("Every event of a bundle is found by its job.", (job_id,))
    change(kit.store, f"UPDATE {{s}}job SET created_at = created_at - 1 WHERE id = '{job_id}'")
