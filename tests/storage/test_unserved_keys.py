"""Jobs that no live worker can run do not keep a concurrency key from jobs that one can run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


class Versions:
    """A definition in two versions of which live workers serve some."""

    def __init__(self, kit: Kit, **limits: Any) -> None:
        self._kit = kit
        self.lanes = {version: kit.define(version=version, **{"key_concurrency": 1, **limits}) for version in (1, 2)}

    def create(self, version: int, key: str = "anna", **options: Any) -> str:
        draft = self._kit.draft(concurrency_key=key, **options)
        return self._kit.run(jobs.create([replace(draft, lane=self.lanes[version])]))[0].job_id

    def worker(self, *versions: int) -> str:
        return self._kit.worker(lanes=tuple(self.lanes[version] for version in versions))

    def sweep(self) -> None:
        if self._kit.run(jobs.has_unserved_admitted()):
            assert self._kit.run(jobs.block_unserved()) is None

    def blocked(self, *made: str) -> list[bool]:
        return [self._kit.job(job_id).blocked for job_id in made]


def test_a_job_that_no_worker_can_run_gives_its_key_to_one_that_a_worker_can_run(kit: Kit) -> None:
    versions = Versions(kit)
    versions.worker(1)
    new, old = versions.create(2), versions.create(1)
    assert versions.blocked(new, old) == [False, True]

    versions.sweep()

    assert versions.blocked(new, old) == [True, False]


def test_jobs_of_a_served_lane_follow_each_other_without_another_sweep(kit: Kit) -> None:
    versions = Versions(kit)
    worker = versions.worker(1)
    new = [versions.create(2) for _ in range(3)]
    old = [versions.create(1) for _ in range(3)]
    versions.sweep()

    ran = []
    while claimed := kit.claim(worker, lanes=[versions.lanes[1]]):
        ran += [each.job_id for each in claimed]
        kit.settle(claimed[0])

    assert ran == old
    assert versions.blocked(*new) == [False, True, True]


def test_a_job_that_gave_way_is_admitted_at_its_rank_when_a_worker_can_run_it(kit: Kit) -> None:
    versions = Versions(kit)
    worker = versions.worker(1)
    new = versions.create(2)
    old = [versions.create(1) for _ in range(3)]
    versions.sweep()
    (claimed,) = kit.claim(worker, lanes=[versions.lanes[1]])

    versions.worker(2)
    versions.sweep()
    assert not kit.run(jobs.has_unserved_admitted())
    kit.settle(claimed)

    assert versions.blocked(new, *old[1:]) == [False, True, True]


def test_a_job_that_waits_for_its_next_attempt_gives_way_when_its_workers_have_ended(kit: Kit) -> None:
    versions = Versions(kit)
    first = versions.worker(1)
    old = versions.create(1)
    (claimed,) = kit.claim(first, lanes=[versions.lanes[1]])
    new = versions.create(2)
    kit.settle(claimed, Trigger.FAIL)
    kit.run(jobs.end_worker(first))
    versions.worker(2)
    assert versions.blocked(new) == [False]
    kit.advance(11)
    kit.run(jobs.promote())
    later = versions.create(1)

    versions.sweep()

    assert versions.blocked(old, new, later) == [True, False, True]


def test_nothing_gives_way_while_no_version_is_served(kit: Kit) -> None:
    versions = Versions(kit)
    kit.worker(lanes=(kit.define("other"),))
    new, old = versions.create(2), versions.create(1)

    assert not kit.run(jobs.has_unserved_admitted())
    kit.run(jobs.block_unserved())

    assert versions.blocked(new, old) == [False, True]


def test_nothing_gives_way_to_a_job_that_no_worker_can_run(kit: Kit) -> None:
    versions = Versions(kit)
    versions.worker(1)
    first, second = versions.create(2), versions.create(2)
    alone = versions.create(2, "bert")

    versions.sweep()

    assert versions.blocked(first, second, alone) == [False, True, False]


def test_a_job_that_runs_keeps_its_key_when_no_worker_serves_its_version_any_more(kit: Kit) -> None:
    versions = Versions(kit)
    worker = versions.worker(1, 2)
    new = versions.create(2)
    kit.claim(worker, lanes=[versions.lanes[2]])
    kit.run(jobs.heartbeat(worker, 10**9, lanes=[versions.lanes[1]]))
    old = versions.create(1)

    versions.sweep()

    assert kit.status(new) is Status.RUNNING
    assert versions.blocked(old) == [True]


def test_a_key_gives_no_more_places_than_served_jobs_wait_for_it(kit: Kit) -> None:
    versions = Versions(kit, key_concurrency=3)
    versions.worker(1)
    new = [versions.create(2) for _ in range(3)]
    old = versions.create(1)

    versions.sweep()

    assert versions.blocked(*new, old) == [False, False, True, False]


def test_a_lowered_limit_holds_for_the_places_that_are_given(kit: Kit) -> None:
    versions = Versions(kit, key_concurrency=3)
    worker = versions.worker(1)
    for _ in range(3):
        versions.create(2)
    for _ in range(3):
        versions.create(1)
    kit.run(control.override("work", {"key_concurrency": 1}, by="anna"))

    versions.sweep()

    assert len(kit.claim(worker, lanes=[versions.lanes[1]])) == 1


def test_a_sweep_goes_on_behind_the_keys_it_has_looked_at(kit: Kit) -> None:
    versions = Versions(kit)
    versions.worker(1)
    new = [versions.create(2, key) for key in ("anna", "bert", "carla")]
    old = [versions.create(1, key) for key in ("anna", "bert", "carla")]

    assert kit.run(jobs.block_unserved(2)) == "work|bert"
    assert versions.blocked(*new, *old) == [True, True, False, False, False, True]
    assert kit.run(jobs.block_unserved(2, "work|bert")) is None

    assert versions.blocked(*new, *old) == [True, True, True, False, False, False]


def test_a_job_that_the_rate_of_its_key_has_put_off_gives_way_when_no_worker_can_run_it(kit: Kit) -> None:
    versions = Versions(kit, rate_limit=RateLimit(1, 10, per_key=True))
    worker = versions.worker(1)
    lanes = [versions.lanes[1]]
    made = [versions.create(1) for _ in range(2)]
    (claimed,) = kit.claim(worker, lanes=lanes, limited=lanes)
    kit.settle(claimed)
    assert kit.claim(worker, lanes=lanes, limited=lanes) == []
    assert kit.status(made[1]) is Status.SCHEDULED
    kit.run(jobs.end_worker(worker))
    kit.advance(30)
    kit.run(jobs.promote())
    second = versions.worker(2)
    new = versions.create(2)
    assert versions.blocked(made[1], new) == [False, True]

    versions.sweep()

    assert versions.blocked(made[1], new) == [True, False]
    lanes = [versions.lanes[2]]
    assert [each.job_id for each in kit.claim(second, lanes=lanes, limited=lanes)] == [new]


def test_a_concurrency_of_the_definition_is_not_kept_by_jobs_that_no_worker_can_run(kit: Kit) -> None:
    versions = Versions(kit, key_concurrency=0, concurrency=1)
    worker = versions.worker(1)
    versions.create(2)
    old = versions.create(1)
    lanes = [versions.lanes[1]]

    assert [each.job_id for each in kit.claim(worker, lanes=lanes, limited=lanes)] == [old]


def test_keys_whose_lanes_are_all_served_have_nothing_to_give(kit: Kit) -> None:
    versions = Versions(kit)
    versions.worker(1, 2)
    for version in (2, 1):
        versions.create(version)

    assert not kit.run(jobs.has_unserved_admitted())
    assert kit.run(admin.unserved()) == []
