"""Short histories that the state machine meets too rarely to be relied upon for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.domain.instant import SECOND
from penstock.domain.states import Trigger
from penstock.storage.commands import control
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.compared_stores import ComparedStore
from tests.storage.kit import LEASE
from tests.storage.state_machine import StoreMachine


class Machine(StoreMachine):
    @staticmethod
    def open_stores() -> list[ComparedStore]:
        store = SqliteStore(":memory:")
        return [ComparedStore("SQLite in memory", store, store.close)]


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    machine.begin()
    yield machine
    machine.all_are_alike()
    machine.teardown()


def test_more_workers_are_lost_at_once_than_one_reclaim_frees(machine: Machine) -> None:
    for _ in range(14):
        machine.new_worker(LEASE)
    machine.world.now += LEASE + 2 * SECOND

    machine.rescue(0.5)
    machine.rescue(0.5)

    assert all(worker.ended for worker in machine.world.workers.values())


def test_a_key_moves_to_the_unique_job_that_answers_for_a_deleted_one(machine: Machine) -> None:
    draft = machine.draft(0, unique="only", idempotency_key="key")
    machine.make([draft])
    machine.cancel_all([draft.id])
    _delete(machine, draft.id)
    holder = machine.draft(0, unique="only")
    machine.make([holder])

    machine.make([draft])
    machine.make([machine.draft(0, idempotency_key="key")])

    assert machine.world.keys[draft.definition, "key"][0] == holder.id


def test_attempts_at_a_deleted_job_are_not_handed_in_beside_those_of_its_next_life(machine: Machine) -> None:
    first = machine.claims[-1]
    draft = next(each for each in machine.drafts if each.id == first.job_id)
    machine.end([machine.ending(first, Trigger.RELEASE, True, None)])
    second = next(each for each in machine.take_anything(5) if each.job_id == draft.id)
    machine.end([machine.ending(second, Trigger.SUCCEED, True, None)])
    machine.all_are_alike()
    _delete(machine, draft.id)
    machine.all_are_alike()

    machine.make([draft])
    machine.take_anything(5)

    assert [each.fence for each in machine.claims if each.job_id == draft.id] == [1]


def _delete(machine: Machine, job_id: str) -> None:
    machine.same(lambda: machine.control.delete([job_id]), lambda _: control.delete([job_id]))
