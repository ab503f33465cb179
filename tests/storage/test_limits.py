"""Limits: how many jobs of a definition or of a concurrency key run at once, and how often they start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import change, query

pytestmark = pytest.mark.usefixtures("sound")


def claim(kit: Kit, limit: int = 100, definition: str = "work") -> list[Claimed]:
    """What a worker gets that is ready for limits."""
    lanes = [lane for (lane,) in query(kit.store, f"SELECT lane FROM {{s}}definition WHERE key = '{definition}'")]
    return kit.claim(limit=limit, lanes=lanes, limited=lanes)


def running(kit: Kit) -> int:
    return int(query(kit.store, "SELECT count(*) FROM {s}job WHERE worker IS NOT NULL")[0][0])


# Concurrency of a definition


def test_no_more_jobs_of_a_definition_run_than_its_concurrency(kit: Kit) -> None:
    kit.define(concurrency=3)
    kit.run(jobs.create([kit.draft() for _ in range(10)]))

    first = claim(kit)
    assert len(first) == 3
    assert claim(kit) == []
    kit.settle(first[0])
    kit.settle(first[1], Trigger.FAIL)

    assert len(claim(kit)) == 2
    assert running(kit) == 3


@pytest.mark.parametrize(
    "trigger", [Trigger.SUCCEED, Trigger.ASK_REVIEW, Trigger.SNOOZE, Trigger.RELEASE, Trigger.LOSE]
)
def test_every_ending_frees_the_slot_of_the_definition(kit: Kit, trigger: Trigger) -> None:
    kit.define(concurrency=1)
    kit.run(jobs.create([kit.draft() for _ in range(2)]))
    (first,) = claim(kit)

    kit.settle(first, trigger)

    assert len(claim(kit)) == 1


def test_a_cancelling_job_keeps_its_slot_until_it_has_ended(kit: Kit) -> None:
    kit.define(concurrency=1)
    kit.run(jobs.create([kit.draft() for _ in range(2)]))
    (first,) = claim(kit)
    kit.run(control.cancel([first.job_id]))

    assert claim(kit) == []
    kit.settle(first)

    assert len(claim(kit)) == 1


def test_the_best_ranked_jobs_get_the_slots(kit: Kit) -> None:
    kit.define(concurrency=2)
    made = [kit.create(priority=priority) for priority in (3, 9, 1, 7)]

    assert [each.job_id for each in claim(kit)] == [made[1], made[3]]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_versions_of_a_definition_share_its_concurrency(kit: Kit, concurrency: int) -> None:
    lanes = [kit.define(version=version, concurrency=concurrency) for version in (1, 2, 3)]
    kit.run(jobs.create([replace(kit.draft(), lane=lanes[n % 3]) for n in range(12)]))
    worker = kit.worker()

    counted = []
    for _ in range(3):
        taken = kit.run(jobs.claim(worker, lanes, 100, limited=lanes))
        counted.append((len(taken), running(kit)))
        kit.run(jobs.settle(worker, [kit.ending(each) for each in taken]))

    assert counted == [(concurrency, concurrency)] * 3


def test_every_version_of_a_limited_definition_gets_its_turn(kit: Kit) -> None:
    lanes = [kit.define(version=version, concurrency=2) for version in (1, 2)]
    kit.run(jobs.create([replace(kit.draft(), lane=lanes[n % 2]) for n in range(10)]))
    worker = kit.worker()

    seen = Counter[int]()
    while taken := kit.run(jobs.claim(worker, lanes, 100, limited=lanes)):
        seen.update(each.lane for each in taken)
        kit.run(jobs.settle(worker, [kit.ending(each) for each in taken]))

    assert seen == {lanes[0]: 5, lanes[1]: 5}


def test_limited_and_free_definitions_are_claimed_together_within_one_limit(kit: Kit) -> None:
    limited = [kit.define(f"limited{n}", concurrency=n + 1) for n in range(2)]
    free = kit.define("free")
    for name in ("limited0", "limited1", "free"):
        kit.run(jobs.create([kit.draft(name) for _ in range(5)]))

    first = kit.run(jobs.claim(kit.worker(), [*limited, free], 100, limited=limited))

    assert Counter(each.lane for each in first) == {limited[0]: 1, limited[1]: 2, free: 5}


def test_the_limit_of_a_claim_holds_over_limited_and_free_definitions(kit: Kit) -> None:
    limited = kit.define("limited", concurrency=5)
    free = kit.define("free")
    for name in ("limited", "free"):
        kit.run(jobs.create([kit.draft(name) for _ in range(5)]))

    assert len(kit.run(jobs.claim(kit.worker(), [limited, free], 4, limited=[limited]))) == 4
    assert running(kit) == 4


def test_a_definition_with_limits_is_claimed_only_by_those_who_are_ready_for_them(kit: Kit) -> None:
    lanes = [kit.define("slots", concurrency=1), kit.define("rates", rate_limit=RateLimit(1)), kit.define("free")]
    made = [kit.create(name) for name in ("slots", "rates", "free")]

    assert [each.job_id for each in kit.run(jobs.claim(kit.worker(), lanes, 10))] == [made[2]]
    both = kit.run(jobs.claim(kit.worker(), lanes, 10, limited=lanes[:2]))

    assert [each.job_id for each in both] == made[:2]


def test_a_lane_named_as_limited_whose_definition_has_no_limit_is_claimed_all_the_same(kit: Kit) -> None:
    lane = kit.define()
    kit.run(jobs.create([kit.draft() for _ in range(3)]))

    assert len(kit.run(jobs.claim(kit.worker(), [lane], 10, limited=[lane]))) == 3


def test_a_lane_that_is_only_named_as_limited_is_not_claimed(kit: Kit) -> None:
    lanes = [kit.define("mine", concurrency=1), kit.define("other", concurrency=1)]
    made = [kit.create("mine"), kit.create("other")]

    taken = kit.run(jobs.claim(kit.worker(), lanes[:1], 10, limited=lanes))

    assert [each.job_id for each in taken] == made[:1]


def test_a_paused_definition_with_limits_waits(kit: Kit) -> None:
    kit.define(concurrency=1)
    kit.create()
    change(kit.store, f"UPDATE {{s}}control SET pause_at = {kit.now} WHERE key = 'work'")

    assert claim(kit) == []


def test_an_operators_limit_holds_in_place_of_the_codes(kit: Kit) -> None:
    kit.define(concurrency=1)
    kit.run(jobs.create([kit.draft() for _ in range(9)]))

    kit.run(control.override("work", {"concurrency": 2}, by="anna"))
    assert len(claim(kit)) == 2
    kit.run(control.override("work", {}, by="anna"))

    assert claim(kit) == []


# Concurrency of a key


def test_no_more_jobs_of_a_key_are_admitted_than_its_limit(kit: Kit) -> None:
    kit.define(key_concurrency=2)
    made = [kit.create(concurrency_key="anna") for _ in range(5)] + [kit.create(concurrency_key="bert")]

    assert [kit.job(job_id).blocked for job_id in made] == [False, False, True, True, True, False]
    assert [each.job_id for each in kit.claim()] == [made[0], made[1], made[5]]
    assert kit.claim() == []
    assert kit.job(made[2]).concurrency_key == "anna"


def test_blocked_jobs_stand_outside_the_claim_and_delay_nobody(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    kit.run(jobs.create([kit.draft(concurrency_key="busy", priority=20) for _ in range(50)]))
    free = [kit.create(), kit.create(concurrency_key="idle")]

    taken = [each.job_id for each in kit.claim(limit=3)]

    assert taken[1:] == free


def test_a_batch_admits_the_best_ranked_of_each_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    drafts = [kit.draft(concurrency_key=key, priority=priority) for priority in (3, 9, 5) for key in ("a", "b")]

    kit.run(jobs.create(drafts))

    admitted = [draft.id for draft in drafts if not kit.job(draft.id).blocked]
    assert admitted == [drafts[2].id, drafts[3].id]


def test_a_key_without_a_limit_blocks_nobody(kit: Kit) -> None:
    kit.define(key_concurrency=0)
    kit.run(jobs.create([kit.draft(concurrency_key="anna") for _ in range(20)]))

    assert len(kit.claim(limit=100)) == 20


def test_the_same_key_of_another_definition_is_another_key(kit: Kit) -> None:
    for name in ("mail", "print"):
        kit.define(name, key_concurrency=1)
        kit.create(name, concurrency_key="anna")

    assert len(kit.claim()) == 2


def test_versions_of_a_definition_share_a_key(kit: Kit) -> None:
    lanes = [kit.define(version=version, key_concurrency=1) for version in (1, 2)]
    kit.run(jobs.create([replace(kit.draft(concurrency_key="anna"), lane=lane) for lane in lanes]))

    assert len(kit.claim(lanes=lanes)) == 1


def _ended(trigger: Trigger, **facts: object) -> Callable[[Kit, Claimed], object]:
    return lambda kit, claimed: kit.settle(claimed, trigger, **facts)


def _cancelled(kit: Kit, claimed: Claimed) -> None:
    kit.run(control.cancel([claimed.job_id]))
    kit.settle(claimed, Trigger.FAIL)


def _lost(kit: Kit, claimed: Claimed) -> None:
    kit.advance(60)
    assert kit.run(jobs.reclaim(0, 0.5)).lost == [claimed.job_id]


FREEING = {
    "success": _ended(Trigger.SUCCEED),
    "failure": _ended(Trigger.FAIL, retryable=False),
    "backoff": _ended(Trigger.FAIL),
    "snooze": _ended(Trigger.SNOOZE, delay=SECOND),
    "review": _ended(Trigger.ASK_REVIEW),
    "cancel": _cancelled,
    "loss": _lost,
}


@pytest.mark.parametrize("how", FREEING)
def test_whatever_frees_a_slot_of_a_key_admits_the_next(kit: Kit, how: str) -> None:
    kit.define(key_concurrency=1)
    claimed = kit.running(concurrency_key="anna")
    waiting = [kit.create(concurrency_key="anna") for _ in range(2)]
    assert kit.job(waiting[0]).blocked

    FREEING[how](kit, claimed)

    assert [kit.job(job_id).blocked for job_id in waiting] == [False, True]
    assert [each.job_id for each in kit.claim()] == waiting[:1]


def test_a_released_job_and_those_behind_it_keep_to_the_limit_of_the_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    claimed = kit.running(concurrency_key="anna")
    other = kit.create(concurrency_key="anna")

    kit.settle(claimed, Trigger.RELEASE)

    assert sorted(kit.job(job_id).blocked for job_id in (claimed.job_id, other)) == [False, True]
    assert len(kit.claim()) == 1


def test_cancelling_an_admitted_job_that_waits_admits_the_next(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    first, second = (kit.create(concurrency_key="anna") for _ in range(2))

    kit.run(control.cancel([first]))

    assert not kit.job(second).blocked


def test_cancelling_a_blocked_job_admits_nobody(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    running_one = kit.running(concurrency_key="anna")
    second, third = (kit.create(concurrency_key="anna") for _ in range(2))

    kit.run(control.cancel([second]))

    assert kit.status(second) is Status.CANCELLED
    assert kit.job(third).blocked
    kit.settle(running_one)
    assert not kit.job(third).blocked


def test_putting_off_an_admitted_job_admits_the_next(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    first, second = (kit.create(concurrency_key="anna") for _ in range(2))

    kit.run(control.reschedule(first, delay=60 * SECOND))
    assert not kit.job(second).blocked
    kit.run(control.reschedule(first))

    assert kit.job(first).blocked


def test_an_approved_job_waits_for_a_slot_of_its_key_again(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    reviewed = kit.running(concurrency_key="anna")
    kit.settle(reviewed, Trigger.ASK_REVIEW)
    other = kit.running(concurrency_key="anna")

    kit.run(control.approve(reviewed.job_id, by="anna", finished=False))
    assert kit.job(reviewed.job_id).blocked
    kit.settle(other)

    assert not kit.job(reviewed.job_id).blocked


def test_a_job_retried_by_hand_waits_for_a_slot_of_its_key(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    failed = kit.running(concurrency_key="anna")
    kit.settle(failed, Trigger.FAIL, retryable=False)
    kit.running(concurrency_key="anna")

    kit.run(control.retry([failed.job_id]))

    assert kit.job(failed.job_id).blocked


def test_deleting_an_ended_job_leaves_its_key_as_it_was(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    ended = kit.running(concurrency_key="anna")
    kit.settle(ended)
    kit.running(concurrency_key="anna")
    waiting = kit.create(concurrency_key="anna")

    kit.run(control.delete([ended.job_id]))

    assert kit.job(waiting).blocked


def test_a_job_given_back_because_the_worker_did_not_know_it_frees_its_slot(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    worker = kit.worker()
    first, second = (kit.create(concurrency_key="anna") for _ in range(2))
    kit.claim(worker)

    assert kit.run(jobs.release_unheld(worker, [])) == [first]

    assert sorted(kit.job(job_id).blocked for job_id in (first, second)) == [False, True]


def test_a_sweep_admits_what_stands_blocked_although_there_is_room(kit: Kit) -> None:
    kit.define(key_concurrency=2)
    made = [kit.create(concurrency_key="anna") for _ in range(4)]
    change(kit.store, "UPDATE {s}job SET blocked = true")

    assert kit.run(jobs.repair_limits()) is None

    assert [kit.job(job_id).blocked for job_id in made] == [False, False, True, True]


def test_a_sweep_goes_on_behind_the_keys_it_has_looked_at(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    for key in ("anna", "bert", "carla"):
        for _ in range(2):
            kit.create(concurrency_key=key)
    stuck = kit.create(concurrency_key="dora")
    change(kit.store, f"UPDATE {{s}}job SET blocked = true WHERE id = '{stuck}'")

    seen = []
    after: str | None = ""
    while after is not None:
        after = kit.run(jobs.repair_limits(2, after))
        seen.append(after)

    assert seen == ["work|bert", "work|dora", None]
    assert not kit.job(stuck).blocked


def test_a_sweep_leaves_alone_what_is_rightly_blocked(kit: Kit) -> None:
    kit.define(key_concurrency=1)
    made = [kit.create(concurrency_key="anna") for _ in range(3)]

    kit.run(jobs.repair_limits())

    assert [kit.job(job_id).blocked for job_id in made] == [False, True, True]


def test_a_raised_limit_admits_more_and_a_lowered_one_lets_what_is_admitted_go_on(kit: Kit) -> None:
    kit.define(key_concurrency=2)
    made = [kit.create(concurrency_key="anna") for _ in range(5)]

    kit.run(control.override("work", {"key_concurrency": 3}, by="anna"))
    kit.run(jobs.repair_limits())
    assert [kit.job(job_id).blocked for job_id in made] == [False, False, False, True, True]
    kit.run(control.override("work", {"key_concurrency": 1}, by="anna"))
    kit.run(jobs.repair_limits())

    assert [kit.job(job_id).blocked for job_id in made] == [False, False, False, True, True]


def test_a_definition_at_its_limit_does_not_keep_others_waiting(kit: Kit) -> None:
    kit.define("limited", concurrency=1)
    for _ in range(3):
        kit.create("limited", priority=20)
    for _ in range(9):
        kit.create("free", priority=5)
    limited, free = kit.define("limited", concurrency=1), kit.define("free")

    claimed = kit.claim(limit=10, lanes=[limited, free], limited=[limited])

    assert [each.lane for each in claimed] == [limited, *[free] * 9]
