"""claim: the best-ranked jobs become a worker's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.domain.definition import Definition, Pause
from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.job import Claimed, QueuePosition
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")


def test_a_claimed_job_is_the_workers_and_carries_what_it_needs(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    job_id = kit.create(
        params='{"n": 1}', priority=7, max_attempts=5, reference_type="order", reference_id="17",
        traceparent="00-1-2-01", schedule="nightly", scheduled_for=kit.now,
    )  # fmt: skip

    (claimed,) = kit.claim(worker)

    assert claimed == Claimed(
        job_id=job_id, lane=claimed.lane, fence=1, attempt=1, max_attempts=5, lost=0, params='{"n": 1}',
        reference_type="order", reference_id="17", traceparent="00-1-2-01", schedule="nightly",
        scheduled_for=kit.now, rank=claimed.rank,
    )  # fmt: skip
    job = kit.job(job_id)
    assert (job.status, job.worker_id, job.attempts, job.fence) == (Status.RUNNING, worker, 1, 1)
    assert job.started_at == to_datetime(kit.now)
    assert kit.events(job_id) == ["job.enqueued", "job.started"]


def test_a_claimed_job_is_not_claimed_again(kit: Kit) -> None:
    kit.running()

    assert kit.claim() == []


def test_higher_priority_goes_first_over_all_lanes(kit: Kit) -> None:
    made = [
        kit.create(definition, priority=priority)
        for definition, priority in [("a", 1), ("b", 20), ("c", 10), ("a", 15), ("b", 0), ("c", 20), ("a", 10)]
    ]

    claimed = kit.claim()

    assert [each.job_id for each in claimed] == [made[n] for n in (1, 5, 3, 2, 6, 0, 4)]


def test_equal_priority_goes_by_age_over_all_lanes(kit: Kit) -> None:
    made = []
    for n in range(12):
        made.append(kit.create(f"d{n % 3}"))
        kit.advance(1 if n % 2 else 0)

    assert [each.job_id for each in kit.claim(limit=12)] == made


def test_several_claims_follow_one_order(kit: Kit) -> None:
    made = [(20 - n * 7 % 21, kit.create(f"d{n % 4}", priority=20 - n * 7 % 21)) for n in range(42)]
    worker = kit.worker()

    claimed = [each.job_id for _ in range(14) for each in kit.claim(worker, limit=3)]

    assert claimed == [job_id for _, job_id in sorted(made, key=lambda each: (-each[0], each[1]))]


# How many


@pytest.mark.parametrize("limit", [1, 3, 9])
def test_a_claim_never_takes_more_than_its_limit(kit: Kit, limit: int) -> None:
    kit.run(jobs.create([kit.draft(f"d{n % 3}") for n in range(30)]))

    taken = kit.claim(limit=limit)

    assert len(taken) == limit
    assert query(kit.store, "SELECT count(*) FROM {s}job WHERE status = {running}") == [(limit,)]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_claim_of_nothing_takes_nothing(kit: Kit, limit: int) -> None:
    kit.create()

    assert kit.claim(limit=limit) == []


def test_a_claim_without_lanes_takes_nothing(kit: Kit) -> None:
    kit.create()

    assert kit.run(jobs.claim(kit.worker(), [], 10)) == []


def test_many_lanes_are_drained_in_order_with_never_more_than_the_limit(kit: Kit) -> None:
    """So many lanes that each gives only a few of its jobs to one claim."""
    lanes = kit.run(admin.register([Definition(f"d{n}") for n in range(300)]))
    some = kit.draft()
    drafts = [replace(some, id=kit.new_id(), lane=lanes[f"d{n % 300}", 1]) for n in range(300)]
    drafts += [replace(some, id=kit.new_id(), lane=lanes["d7", 1], priority=priority) for priority in (0, 20) * 30]
    kit.run(jobs.create(drafts))
    worker = kit.worker()

    rounds = []
    while taken := kit.run(jobs.claim(worker, list(lanes.values()), 50)):
        assert len(taken) <= 50
        rounds += taken

    assert len(rounds) == 360
    ranked = {each.id: (-each.priority, each.id) for each in drafts}
    assert all(ranked[one.job_id] < ranked[other.job_id] for one, other in pairwise(rounds))


# Which


def test_only_the_lanes_that_the_worker_names_are_claimed(kit: Kit) -> None:
    kit.create("other")
    lane = kit.define("mine")
    mine = kit.create("mine")

    assert [each.job_id for each in kit.claim(lanes=[lane])] == [mine]


def test_versions_of_a_definition_stand_side_by_side(kit: Kit) -> None:
    lanes = {version: kit.define(version=version) for version in (1, 2)}
    made = {version: replace(kit.draft(), lane=lane) for version, lane in lanes.items()}
    kit.run(jobs.create(list(made.values())))

    assert [(each.job_id, each.lane) for each in kit.claim(lanes=[lanes[2]])] == [(made[2].id, lanes[2])]
    assert [(each.job_id, each.lane) for each in kit.claim(lanes=[lanes[1]])] == [(made[1].id, lanes[1])]
    assert [kit.job(draft.id).definition_version for draft in made.values()] == [1, 2]


@pytest.mark.parametrize("status", [each for each in Status if each not in (Status.QUEUED, Status.STALE)])
def test_only_queued_jobs_are_claimed(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)

    assert kit.claim() == []

    assert kit.status(job_id) is status


def test_a_lane_that_nobody_knows_gives_nothing(kit: Kit) -> None:
    job_id = kit.create()

    assert [each.job_id for each in kit.claim(lanes=[4711, *kit._lanes.values()])] == [job_id]


# Pauses


def test_a_paused_definition_waits_and_the_others_go_on(kit: Kit) -> None:
    waits = kit.create("paused")
    goes = kit.create("other")
    kit.run(control.pause("paused", Pause("deploy", "anna", kit.now), by="anna"))

    assert [each.job_id for each in kit.claim()] == [goes]
    kit.run(control.pause("paused", None, by="anna"))

    assert [each.job_id for each in kit.claim()] == [waits]


def test_a_paused_system_gives_nothing(kit: Kit) -> None:
    made = [kit.create("one"), kit.create("two")]
    kit.run(control.pause("*", Pause("deploy", "anna", kit.now), by="anna"))

    assert kit.claim() == []
    kit.run(control.pause("*", None, by="anna"))

    assert [each.job_id for each in kit.claim()] == made


@pytest.mark.parametrize("key", ["work", "*"])
def test_a_pause_ends_by_itself_at_its_time(kit: Kit, key: str) -> None:
    job_id = kit.create()
    kit.run(control.pause(key, Pause("deploy", "anna", kit.now, until=kit.now + 60 * SECOND), by="anna"))

    kit.advance(59.999999)
    assert kit.claim() == []
    kit.advance(0.000001)

    assert [each.job_id for each in kit.claim()] == [job_id]


def test_jobs_of_a_paused_definition_that_run_go_on(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(control.pause("work", Pause("deploy", "anna", kit.now), by="anna"))

    assert kit.settle(claimed).applied == [claimed.job_id]


# Leases


def test_a_worker_whose_lease_has_ended_gets_nothing(kit: Kit) -> None:
    kit.create()
    worker = kit.worker(lease=15 * SECOND)
    kit.advance(15)
    before = dump(kit.store)

    with pytest.raises(LeaseLost, match=worker):
        kit.claim(worker)

    assert dump(kit.store) == before


def test_a_lease_is_good_until_its_last_moment(kit: Kit) -> None:
    job_id = kit.create()
    worker = kit.worker(lease=15 * SECOND)

    kit.advance(14.999999)

    assert [each.job_id for each in kit.claim(worker)] == [job_id]


@pytest.mark.parametrize("limited", [False, True])
def test_a_worker_that_is_not_registered_gets_nothing(kit: Kit, limited: bool) -> None:
    lane = kit.define(concurrency=1 if limited else 0)
    kit.create()

    with pytest.raises(LeaseLost):
        kit.claim(kit.new_id(), limited=[lane] if limited else [])


def test_a_worker_that_has_stopped_gets_nothing(kit: Kit) -> None:
    kit.create()
    worker = kit.worker()
    kit.run(jobs.end_worker(worker))

    with pytest.raises(LeaseLost):
        kit.claim(worker)


def test_a_worker_whose_lease_has_ended_is_told_so_even_when_there_is_nothing_to_do(kit: Kit) -> None:
    kit.define()
    worker = kit.worker()
    assert kit.claim(worker) == []

    kit.advance(60)

    with pytest.raises(LeaseLost):
        kit.claim(worker)


# Fences and attempts


def test_fence_and_attempt_rise_with_each_claim(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL)
    kit.advance(10)
    kit.run(jobs.promote())

    (again,) = kit.claim()

    assert (again.job_id, again.fence, again.attempt) == (claimed.job_id, 2, 2)


def test_the_fence_rises_also_where_the_attempt_was_given_back(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)

    (again,) = kit.claim()

    assert (again.fence, again.attempt) == (2, 1)


def test_the_fence_rises_on_over_a_retry_by_hand(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.FAIL, retryable=False)
    kit.run(control.retry([claimed.job_id]))

    (again,) = kit.claim()

    assert (again.fence, again.attempt, kit.job(again.job_id).generation) == (2, 1, 2)


def test_a_job_with_a_loss_behind_it_is_not_started_by_its_claim(kit: Kit) -> None:
    lost = kit.running()
    kit.settle(lost, Trigger.LOSE)
    kit.advance(2)
    kit.run(jobs.promote())
    fresh = kit.create()

    claimed = kit.claim(start=True)

    assert {each.job_id for each in claimed} == {lost.job_id, fresh}
    assert (kit.job(lost.job_id).started_at, kit.events(lost.job_id)[-1]) == (None, "job.lost")
    assert (kit.job(fresh).started_at, kit.events(fresh)[-1]) == (to_datetime(kit.now), "job.started")


def test_a_retry_by_hand_forgets_the_losses_and_starts_with_its_claim(kit: Kit) -> None:
    lost = kit.running()
    kit.settle(lost, Trigger.LOSE)
    kit.run(control.cancel([lost.job_id]))
    kit.run(control.retry([lost.job_id]))

    kit.claim()

    assert kit.job(lost.job_id).started_at is not None


def test_a_worker_gets_the_tags_and_the_concurrency_key(kit: Kit) -> None:
    kit.create(tags=("red", "blue"), concurrency_key="anna|bert")
    kit.create()

    claimed = sorted(kit.claim(), key=lambda each: each.job_id)

    assert [(each.tags, each.concurrency_key) for each in claimed] == [('["red", "blue"]', "anna|bert"), (None, None)]


def test_a_claim_ahead_does_not_start_the_attempt(kit: Kit) -> None:
    job_id = kit.create()

    (claimed,) = kit.claim(start=False)

    job = kit.job(job_id)
    assert (claimed.fence, claimed.attempt) == (1, 1)
    assert (job.status, job.started_at) == (Status.RUNNING, None)
    assert kit.events(job_id) == ["job.enqueued"]


def test_a_claim_ahead_forgets_when_the_last_attempt_started(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)

    kit.claim(start=False)

    assert kit.job(claimed.job_id).started_at is None


def test_what_ends_between_two_claims_does_not_come_back(kit: Kit) -> None:
    cancelled = kit.create()
    left = kit.create()
    kit.run(control.cancel([cancelled]))

    assert [each.job_id for each in kit.claim()] == [left]


def test_a_claim_from_a_place_on_looks_only_at_what_stands_behind_it(kit: Kit) -> None:
    first = [kit.create("a", priority=5) for _ in range(4)]
    other = kit.create("b", priority=1)
    begun = kit.claim(limit=2)
    assert [each.job_id for each in begun] == first[:2]
    urgent = kit.create("a", priority=20)
    place = QueuePosition(begun[-1].rank, begun[-1].job_id)

    claimed = kit.claim(after={begun[-1].lane: place})

    # The other lane has no place, so it is looked at from the front.
    assert [each.job_id for each in claimed] == [*first[2:], other]
    assert [each.job_id for each in kit.claim()] == [urgent]


def test_a_block_of_one_lane_is_claimed_in_one_go_beside_many_others(kit: Kit) -> None:
    """Jobs that were created in blocks, each of one definition, come in the order of the blocks, without gaps."""
    made = [kit.create(f"job{block}") for block in range(12) for _ in range(30)]

    assert [each.job_id for each in kit.claim(limit=30)] == made[:30]
    assert [each.job_id for each in kit.claim(limit=40)] == made[30:70]
