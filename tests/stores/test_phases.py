"""save_phase and phases: named parts of a job whose results are kept."""

from __future__ import annotations

import pytest

from penstock.core.errors import Conflict, LeaseLost
from penstock.core.instant import to_datetime
from penstock.core.job import Held
from penstock.core.transitions import Trigger
from penstock.stores.verbs import jobs
from tests.stores.kit import Kit
from tests.stores.tables import dump

pytestmark = pytest.mark.usefixtures("sound")


@pytest.fixture
def held(kit: Kit) -> Held:
    claimed = kit.running()
    return kit.held(claimed)


def test_a_phase_runs_and_is_completed(kit: Kit, held: Held) -> None:
    began = kit.now
    kit.run(jobs.save_phase(held, "load", 0, "running", progress=10, message="reading"))
    kit.advance(5)

    kit.run(jobs.save_phase(held, "load", 0, "completed", progress=100, result='{"rows": 3}'))

    (phase,) = kit.run(jobs.phases(held.job_id))
    assert (phase.name, phase.position, phase.status, phase.progress) == ("load", 0, "completed", 100)
    assert (phase.result, phase.message, phase.error, phase.fence) == ('{"rows": 3}', "reading", None, 1)
    assert (phase.started_at, phase.completed_at) == (to_datetime(began), to_datetime(kit.now))
    assert kit.events(held.job_id)[-1] == "job.phase.completed"


def test_phases_come_in_their_order(kit: Kit, held: Held) -> None:
    for name, position in (("upload", 2), ("load", 0), ("work", 1)):
        kit.run(jobs.save_phase(held, name, position, "running"))

    assert [phase.name for phase in kit.run(jobs.phases(held.job_id))] == ["load", "work", "upload"]


@pytest.mark.parametrize("status", ["running", "completed", "failed"])
def test_a_completed_phase_keeps_its_result(kit: Kit, held: Held, status: str) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
    before = dump(kit.store)

    with pytest.raises(Conflict) as caught:
        kit.run(jobs.save_phase(held, "load", 0, status, result="2"))

    assert caught.value.job_id == held.job_id
    assert dump(kit.store) == before


def test_a_completed_phase_survives_the_attempt_and_is_never_written_again(kit: Kit, held: Held) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
    kit.settle(held, Trigger.RELEASE)
    (again,) = kit.claim()

    with pytest.raises(Conflict):
        kit.run(jobs.save_phase(kit.held(again), "load", 0, "completed", result="2"))

    (phase,) = kit.run(jobs.phases(held.job_id))
    assert (phase.result, phase.fence) == ("1", 1)


def test_a_failed_phase_begins_anew_in_the_next_attempt(kit: Kit, held: Held) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "failed", error="no network"))
    (failed,) = kit.run(jobs.phases(held.job_id))
    kit.settle(held, Trigger.RELEASE)
    (again,) = kit.claim()
    kit.advance(5)

    kit.run(jobs.save_phase(kit.held(again), "load", 0, "running"))

    (phase,) = kit.run(jobs.phases(held.job_id))
    assert (failed.status, failed.error, failed.completed_at) == ("failed", "no network", None)
    assert (phase.status, phase.error, phase.fence, phase.started_at) == ("running", None, 2, to_datetime(kit.now))


def test_an_attempt_that_lost_its_job_cannot_complete_a_phase(kit: Kit, held: Held) -> None:
    kit.settle(held, Trigger.RELEASE)

    with pytest.raises(LeaseLost) as caught:
        kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))

    assert (caught.value.job_id, caught.value.fence) == (held.job_id, held.fence)
    assert kit.run(jobs.phases(held.job_id)) == []


def test_a_job_without_phases_has_none(kit: Kit) -> None:
    assert kit.run(jobs.phases(kit.create())) == []
    assert kit.run(jobs.phases(kit.new_id())) == []
