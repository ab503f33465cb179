"""Rate limits: how often jobs of a definition, or of one of its keys, may start."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed, QueuePosition
from penstock.storage.commands import control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import query

pytestmark = pytest.mark.usefixtures("sound")


def claim(kit: Kit, limit: int = 100, definition: str = "work", **options: Any) -> list[Claimed]:
    """What a worker gets that is ready for limits."""
    lanes = [lane for (lane,) in query(kit.store, f"SELECT lane FROM {{s}}definition WHERE key = '{definition}'")]
    return kit.claim(limit=limit, lanes=lanes, limited=lanes, **options)


def test_no_more_jobs_start_than_the_rate_allows(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(3, period=60))
    kit.run(jobs.create([kit.draft() for _ in range(10)]))

    assert len(claim(kit)) == 3
    assert claim(kit) == []
    kit.advance(19.9)
    assert claim(kit) == []
    kit.advance(0.2)
    assert len(claim(kit)) == 1
    kit.advance(600)

    assert len(claim(kit)) == 3


def test_a_rate_is_spent_by_what_was_claimed_and_not_by_what_was_asked_for(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(3, period=60))
    kit.create()

    assert len(claim(kit, limit=100)) == 1
    kit.run(jobs.create([kit.draft() for _ in range(5)]))

    assert len(claim(kit, limit=100)) == 2


@pytest.mark.parametrize(("count", "period"), [(1, 0.5), (7, 1), (3, 0.1), (1000, 1)])
def test_over_a_long_time_a_rate_is_kept_whatever_the_steps(kit: Kit, count: int, period: float) -> None:
    kit.define(rate_limit=RateLimit(count, period=period))
    kit.run(jobs.create([kit.draft() for _ in range(4 * count)]))

    started = 0
    for _ in range(20):
        started += len(claim(kit))
        kit.advance(period / 10)

    assert count <= started <= 3 * count


def test_versions_of_a_definition_share_its_rate(kit: Kit) -> None:
    lanes = [kit.define(version=version, rate_limit=RateLimit(3, period=60)) for version in (1, 2)]
    kit.run(jobs.create([replace(kit.draft(), lane=lanes[n % 2]) for n in range(10)]))

    assert len(claim(kit)) == 3
    assert claim(kit) == []


def test_rate_and_concurrency_hold_together(kit: Kit) -> None:
    kit.define(concurrency=2, rate_limit=RateLimit(3, period=60))
    kit.run(jobs.create([kit.draft() for _ in range(10)]))

    first = claim(kit)
    assert len(first) == 2
    for each in first:
        kit.settle(each)
    assert len(claim(kit)) == 1
    kit.advance(600)

    assert len(claim(kit)) == 1


def test_a_rate_by_key_counts_each_key_apart(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(2, period=60, per_key=True))
    keys = ["anna"] * 5 + ["bert"] * 5
    names = {kit.create(concurrency_key=key): key for key in keys}

    first = claim(kit)

    assert Counter(names[each.job_id] for each in first) == {"anna": 2, "bert": 2}
    assert claim(kit) == []


def test_a_rate_by_key_limits_nothing_for_jobs_without_one(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=60, per_key=True))
    kit.run(jobs.create([kit.draft() for _ in range(5)]))

    assert len(claim(kit)) == 5


def test_jobs_put_off_by_the_rate_of_their_key_start_when_it_has_tokens_again(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=10, per_key=True))
    made = [kit.create(concurrency_key="anna") for _ in range(4)]

    started = []
    for _ in range(40):
        kit.run(jobs.promote())
        started += [(each.job_id, kit.now) for each in claim(kit)]
        kit.advance(1)

    assert [job_id for job_id, _ in started] == made
    assert all(later - earlier >= 10 * SECOND for (_, earlier), (_, later) in pairwise(started))


def test_a_job_put_off_by_the_rate_of_its_key_delays_nobody(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=60, per_key=True))
    kit.run(jobs.create([kit.draft(concurrency_key="busy", priority=20) for _ in range(20)]))
    idle = kit.create(concurrency_key="idle")

    taken = [each.job_id for each in claim(kit, limit=10)]

    assert taken[1:] == [idle]
    assert [each for _ in range(5) for each in claim(kit, limit=10)] == []


@pytest.mark.parametrize("paused", ["work", "*"])
@pytest.mark.parametrize("per_key", [False, True])
def test_no_token_is_spent_while_nothing_may_start(kit: Kit, paused: str, per_key: bool) -> None:
    kit.define(rate_limit=RateLimit(2, period=60, per_key=per_key))
    made = [kit.create(concurrency_key="anna") for _ in range(6)]
    kit.run(control.pause(paused, Pause("deploy", "anna", kit.now), by="anna"))

    for _ in range(5):
        assert claim(kit) == []
        kit.advance(7)
        kit.run(jobs.promote())
    kit.run(control.pause(paused, None, by="anna"))

    assert [each.job_id for each in claim(kit)] == made[:2]


def test_a_rate_by_key_holds_over_versions(kit: Kit) -> None:
    lanes = [kit.define(version=version, rate_limit=RateLimit(2, period=60, per_key=True)) for version in (1, 2)]
    drafts = [replace(kit.draft(concurrency_key=f"k{n % 3}"), lane=lanes[n % 2]) for n in range(24)]
    kit.run(jobs.create(drafts))
    keys = {draft.id: draft.concurrency_key for draft in drafts}
    worker = kit.worker()

    taken = [each for _ in range(8) for each in kit.run(jobs.claim(worker, lanes, 4, limited=lanes))]

    assert Counter(keys[each.job_id] for each in taken) == {"k0": 2, "k1": 2, "k2": 2}


def test_a_rate_by_key_holds_for_a_worker_that_goes_on_from_a_place(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=60, per_key=True))
    kit.run(jobs.create([kit.draft(concurrency_key="a") for _ in range(3)]))
    (first,) = claim(kit, limit=1)
    in_front = kit.create(concurrency_key="b", priority=20)

    assert claim(kit, limit=1, after={first.lane: QueuePosition(first.rank, first.job_id)}) == []
    assert [each.job_id for each in claim(kit, limit=1)] == [in_front]


def test_a_count_that_an_operator_set_is_no_rate_once_the_code_has_no_period(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=60))
    kit.run(control.override("work", {"rate_count": 2}, by="ann"))
    kit.define()
    kit.run(jobs.create([kit.draft() for _ in range(5)]))

    assert len(claim(kit)) == 5
    kit.define(rate_limit=RateLimit(1, period=60))
    kit.run(jobs.create([kit.draft() for _ in range(5)]))

    assert len(claim(kit)) == 2


def test_a_rate_that_an_operator_raised_holds_at_once(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, period=86_400))
    kit.run(jobs.create([kit.draft() for _ in range(20)]))
    assert len(claim(kit)) == 1

    kit.run(control.override("work", {"rate_count": 10, "rate_period": SECOND}, by="anna"))
    kit.advance(1)

    assert len(claim(kit)) == 10
