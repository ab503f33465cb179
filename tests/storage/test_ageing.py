"""Waiting is worth something against priority: how much is a setting that every process of a store shares."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.domain.worker_config import SETTING, WorkerConfig
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit

MINUTES = 60
STEP = int(WorkerConfig().ageing)


def set_ageing(kit: Kit, seconds: float) -> None:
    kit.run(admin.put_setting(SETTING, json.dumps({"ageing": seconds}), by="ann"))


@pytest.mark.parametrize(("waited", "first"), [(2 * STEP - 1, "urgent"), (2 * STEP + 1, "old")])
def test_ten_minutes_of_waiting_are_worth_one_step_of_priority(kit: Kit, waited: int, first: str) -> None:
    made = {"old": kit.create(priority=8)}
    kit.advance(waited)
    made["urgent"] = kit.create(priority=10)

    assert [each.job_id for each in kit.claim(limit=1)] == [made[first]]


@pytest.mark.parametrize(("seconds", "waited", "first"), [
    (60, 119, "urgent"), (60, 121, "old"), (0, 300 * 86_400, "urgent"), (86_400, 40 * STEP, "urgent"),
    (0.000001, 1, "old"),
])  # fmt: skip
def test_the_stored_setting_says_what_waiting_is_worth(kit: Kit, seconds: float, waited: int, first: str) -> None:
    set_ageing(kit, seconds)
    made = {"old": kit.create(priority=8)}
    kit.advance(waited)
    made["urgent"] = kit.create(priority=10)

    assert [each.job_id for each in kit.claim(limit=1)] == [made[first]]


def test_a_job_that_was_scheduled_ages_from_the_instant_it_was_due(kit: Kit) -> None:
    scheduled = kit.create(priority=8, delay=60_000_000)
    kit.advance(60 + 2 * STEP + 1)
    kit.create(priority=10)
    kit.run(jobs.promote())

    assert [each.job_id for each in kit.claim(limit=1)] == [scheduled]


@pytest.mark.parametrize("priority", [0, 10, 19])
def test_no_job_starves_while_more_urgent_ones_come_faster_than_they_are_claimed(kit: Kit, priority: int) -> None:
    waiting, claimed = kit.create(priority=priority), set[str]()
    most = 2 * (20 - priority) + 2

    rounds = 0
    while waiting not in claimed and rounds <= most:
        kit.create(priority=20)
        kit.create(priority=20)
        claimed |= {each.job_id for each in kit.claim(limit=1)}
        kit.advance(STEP)
        rounds += 1

    assert waiting in claimed


def test_with_strict_priorities_the_same_job_waits_for_ever(kit: Kit) -> None:
    set_ageing(kit, 0)
    waiting, claimed = kit.create(priority=19), set[str]()

    for _ in range(60):
        kit.create(priority=20)
        kit.create(priority=20)
        claimed |= {each.job_id for each in kit.claim(limit=1)}
        kit.advance(STEP)

    assert waiting not in claimed


def _again(kit: Kit, job: str, how: str) -> None:
    if how == "promoted":
        kit.advance(1)
        kit.run(jobs.promote())
    elif how == "rescheduled":
        kit.run(control.reschedule(job, delay=0))
    elif how == "reprioritised":
        kit.run(control.reprioritise([job], 8))


@pytest.mark.parametrize(("how", "draft"), [
    ("promoted", {"delay": 1_000_000}), ("rescheduled", {"delay": 1_000_000}), ("reprioritised", {}), ("left", {}),
])  # fmt: skip
def test_a_change_of_the_setting_holds_for_jobs_that_are_queued_from_then_on(
    kit: Kit, how: str, draft: dict[str, Any]
) -> None:
    set_ageing(kit, 0)
    first = kit.create(priority=8, **draft)
    set_ageing(kit, 60)
    _again(kit, first, how)
    kit.advance(121)
    urgent = kit.create(priority=10)

    # Under the old setting its rank is far in front: it was queued when one step outweighed everything.
    claimed = kit.claim(limit=2)
    assert [each.job_id for each in claimed] == [first, urgent]
    assert (claimed[1].rank - claimed[0].rank < 10**12) == (how != "left")


def test_a_configuration_without_the_setting_leaves_the_default(kit: Kit) -> None:
    set_ageing(kit, 0)
    kit.run(admin.put_setting(SETTING, '{"slots": 3}', by="ann"))
    old = kit.create(priority=8)
    kit.advance(2 * STEP + 1)
    kit.create(priority=10)

    assert [each.job_id for each in kit.claim(limit=1)] == [old]


def test_what_penstock_keeps_for_itself_is_not_among_the_settings(kit: Kit) -> None:
    set_ageing(kit, 60)

    found = kit.run(admin.settings())

    assert set(found) == {SETTING}


def test_the_longest_wait_of_each_priority_is_found_where_priorities_overlap(kit: Kit) -> None:
    first = kit.now
    kit.create(priority=10)
    kit.advance(30 * MINUTES)
    kit.create(priority=12)
    kit.advance(30 * MINUTES)
    kit.create(priority=10)
    kit.create(priority=12)

    found = {each.priority: each.oldest_due_at for each in kit.run(admin.totals()).ready}

    assert {priority: round(at.timestamp() * 1e6) - first for priority, at in found.items() if at} == {
        10: 0, 12: 30 * MINUTES * 1_000_000,
    }  # fmt: skip
