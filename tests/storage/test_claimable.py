"""claimable: whether something of what was there at a time is left to be claimed."""

from __future__ import annotations

from penstock.domain.definition import Pause
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import control, jobs
from tests.storage.kit import START, Kit


def test_what_was_created_by_then_counts_and_what_came_later_does_not(kit: Kit) -> None:
    lane = kit.define()
    assert not _claimable(kit, lane)
    kit.advance(1)
    kit.create()

    assert not _claimable(kit, lane)
    assert _claimable(kit, lane, by=kit.now)
    assert not _claimable(kit, lane + 1, by=kit.now)


def test_what_runs_has_ended_or_is_due_later_cannot_be_claimed(kit: Kit) -> None:
    lane = kit.define()
    for status in (Status.RUNNING, Status.SUCCEEDED, Status.SCHEDULED, Status.CANCELLED):
        kit.job_in(status)
        assert not _claimable(kit, lane, by=kit.now), status


def test_another_attempt_of_what_was_there_counts(kit: Kit) -> None:
    lane = kit.define()
    claimed = kit.running()
    kit.advance(1)
    kit.settle(claimed, Trigger.FAIL)
    kit.advance(60)

    kit.run(jobs.promote())

    assert _claimable(kit, lane)


def test_a_child_of_what_was_there_counts_and_a_grandchild_does_not(kit: Kit) -> None:
    lane = kit.define()
    parent = kit.running()
    kit.advance(1)
    child = kit.create(parent=parent.job_id)
    assert _claimable(kit, lane)

    kit.claim()
    kit.create(parent=child)

    assert not _claimable(kit, lane)


def test_what_is_paused_or_blocked_cannot_be_claimed(kit: Kit) -> None:
    lane = kit.define(key_concurrency=1)
    for _ in range(2):
        kit.create(concurrency_key="k")
    kit.claim()
    assert not _claimable(kit, lane), "the second one is blocked"
    kit.create()
    assert _claimable(kit, lane)

    for key in ("work", "*"):
        kit.run(control.pause(key, Pause("quiet", "ann", kit.now, kit.now + 5_000_000), by="ann"))
        assert not _claimable(kit, lane), key
        kit.run(control.pause(key, None, by="ann"))
    kit.run(control.pause("work", Pause("quiet", "ann", kit.now, kit.now + 5_000_000), by="ann"))
    kit.advance(6)
    assert _claimable(kit, lane), "the pause is over"


def _claimable(kit: Kit, lane: int, by: int = START) -> bool:
    return kit.run(jobs.claimable([lane], by))
