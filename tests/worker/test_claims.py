"""From where on a worker claims: from the front, unless that has become slow."""

from __future__ import annotations

import pytest

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed, QueuePosition
from penstock.storage import ports
from penstock.storage.postgres.store import PostgresStore
from penstock.worker import claim_positions
from penstock.worker.claim_positions import ClaimPosition, RecentClaims
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pool
from tests.services import PostgresServer
from tests.storage.kit import Kit


def _jobs(lane: int, *ranks: int) -> list[Claimed]:
    facts = {"fence": 1, "attempt": 1, "max_attempts": 1, "lost": 0, "params": "{}"}
    nothing = dict.fromkeys(("reference_type", "reference_id", "traceparent", "schedule", "scheduled_for"))
    return [Claimed(job_id=f"{lane}-{rank}", lane=lane, rank=rank, **facts, **nothing) for rank in ranks]  # type: ignore[arg-type]


def test_quick_claims_begin_at_the_front() -> None:
    mark = ClaimPosition()
    for now in (0.0, 0.1, 0.2):
        assert mark.start(now) == {}
        mark.note(_jobs(1, 1, 2), full=True, took=0.002, from_front=True)


def test_after_a_slow_one_the_next_go_on_behind_it_for_a_second() -> None:
    mark = ClaimPosition()
    mark.start(10.0)
    mark.note([*_jobs(1, 5, 6), *_jobs(2, 7)], full=True, took=0.2, from_front=True)

    assert mark.start(10.3) == {1: QueuePosition(6, "1-6"), 2: QueuePosition(7, "2-7")}

    mark.note(_jobs(1, 8), full=True, took=0.001, from_front=False)
    assert mark.start(10.6) == {1: QueuePosition(8, "1-8"), 2: QueuePosition(7, "2-7")}
    assert mark.start(11.0) == {}


@pytest.mark.parametrize(
    ("quickest", "took", "is_slow"),
    [(0.003, 0.010, True), (0.003, 0.0085, False), (0.001, 0.007, False), (0.008, 0.020, False), (0.012, 0.026, True)],
)
def test_a_claim_is_slow_beside_the_quickest_of_its_kind(quickest: float, took: float, is_slow: bool) -> None:
    mark = ClaimPosition()
    mark.start(10.0)
    mark.note(_jobs(1, *range(100)), full=True, took=quickest, from_front=True)
    assert mark.start(10.0) == {}

    mark.note(_jobs(1, *range(100, 200)), full=True, took=took, from_front=True)

    assert bool(mark.start(10.1)) == is_slow


def test_a_claim_of_few_jobs_is_not_slow_because_one_of_many_took_less_for_each() -> None:
    mark = ClaimPosition()
    mark.start(10.0)
    mark.note(_jobs(1, *range(100)), full=True, took=0.003, from_front=True)

    mark.note(_jobs(1, 100), full=True, took=0.002, from_front=True)

    assert mark.start(10.1) == {}


def test_where_nothing_is_left_behind_the_front_is_looked_at_again() -> None:
    mark = ClaimPosition()
    mark.start(10.0)
    mark.note(_jobs(1, 5), full=True, took=0.2, from_front=True)
    assert mark.start(10.1)

    mark.note([], full=False, took=0.001, from_front=False)

    assert mark.start(10.2) == {}


def _long_trail(now: float) -> RecentClaims:
    """Of a pool that has just claimed very many jobs."""
    recent = RecentClaims()
    recent.start(now)
    for _ in range(10):
        recent.note_front([*_jobs(1, *range(10**9, 10**9 + 600)), *_jobs(2, 2 * 10**9)], full=False)
    return recent


def test_who_has_claimed_few_looks_from_the_front() -> None:
    recent = RecentClaims()
    for now in (1000.0, 1000.1, 1000.2):
        assert recent.start(now) == {}
        recent.note_front(_jobs(1, 1, 2), full=False)


def test_after_many_the_last_places_and_the_front_take_turns() -> None:
    recent, first = _long_trail(1000.0), "00000000-0000-0000-0000-000000000000"

    places = recent.start(1001.0)

    assert places == {
        1: QueuePosition(10**9 + 599 - 5 * SECOND, first),
        2: QueuePosition(2 * 10**9 - 5 * SECOND, first),
    }
    assert recent.skipped_front
    assert recent.start(1001.1) == {}
    recent.note_front([], full=False)
    assert not recent.skipped_front
    assert recent.start(1001.2) == places


def test_while_others_wait_in_front_nobody_is_preferred() -> None:
    recent = _long_trail(1000.0)
    recent.note_front(_jobs(1, 10**9), full=True)

    assert recent.start(1001.0) == {}


def test_a_trail_is_forgotten_after_some_minutes() -> None:
    recent = _long_trail(1000.0)
    assert recent.start(1170.0)
    recent.note_front([], full=False)

    assert recent.start(1181.0) == {}


async def test_who_came_just_now_is_found_beside_a_long_trail_and_then_who_is_more_urgent(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_positions, "_MANY", 5)
    url = postgres.create_database()
    store = PostgresStore(url, migrate=True)
    store.open()
    kit = Kit(store)
    lane, worker = kit.define(), kit.worker()
    found = ClaimRequests(store, ports.jobs, LiveConfig(store, ports.admin, WorkerSettings(), lambda: None))
    pool = Pool(slots=10, ahead=0)
    pool.lanes = [lane]
    try:
        first = [kit.create() for _ in range(8)]
        assert [each.job_id for each in (await found.take(worker, pool))[0]] == first
        plain, urgent = kit.create(), kit.create(priority=20)

        taken, more = await found.take(worker, pool)
        assert ([each.job_id for each in taken], more, found.owed > 0) == ([plain], False, True)
        taken, more = await found.take(worker, pool)
        assert ([each.job_id for each in taken], more, found.owed) == ([urgent], False, 0)

        assert await found.take(worker, pool) == ([], False)
        assert found.owed == 0, "where nothing came just now, the front was looked at at once"
    finally:
        await store.aclose()
        postgres.drop_database(url)
