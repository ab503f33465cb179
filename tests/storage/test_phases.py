"""save_phase and phases: named parts of a job whose results are kept; and what each attempt did in them."""

from __future__ import annotations

import pytest

from penstock.domain.errors import Conflict, LeaseLost
from penstock.domain.instant import to_datetime
from penstock.domain.job import Held
from penstock.domain.states import Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

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
    assert (phase.result_text, phase.message, phase.error, phase.fence) == ('{"rows": 3}', "reading", None, 1)
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
    assert (phase.result_text, phase.fence) == ("1", 1)


def test_a_failed_phase_begins_anew_in_the_next_attempt(kit: Kit, held: Held) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "failed", error="no network"))
    (failed,) = kit.run(jobs.phases(held.job_id))
    kit.settle(held, Trigger.RELEASE)
    (again,) = kit.claim()
    kit.advance(5)

    kit.run(jobs.save_phase(kit.held(again), "load", 0, "running"))

    (phase,) = kit.run(jobs.phases(held.job_id))
    assert (failed.status, failed.error, failed.completed_at) == ("failed", "no network", None)
    assert failed.finished_at == to_datetime(kit.now - 5_000_000)
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


def tries(kit: Kit, job_id: str) -> list[list[tuple[str, str, str | None]]]:
    """What each attempt that has ended did: name, status and error of its phases."""
    attempts = kit.run(admin.attempts(job_id))
    return [[(phase.name, phase.status, phase.error) for phase in each.phases] for each in attempts]


def fail(kit: Kit, held: Held) -> Held:
    """End an attempt with an error; the next one."""
    kit.settle(held, Trigger.FAIL, delay=0)
    kit.advance(1)
    kit.run(jobs.promote())
    (again,) = kit.claim()
    return kit.held(again)


def test_each_attempt_keeps_its_own_tries_of_the_phases(kit: Kit) -> None:
    first = kit.held(kit.running(max_attempts=3))
    kit.run(jobs.save_phase(first, "load", 0, "completed", result="1"))
    kit.run(jobs.save_phase(first, "send", 1, "running", progress=30, message="connecting"))
    kit.run(jobs.save_phase(first, "send", 1, "failed", progress=40, error="no network"))
    second = fail(kit, first)
    began = kit.now
    kit.run(jobs.save_phase(second, "send", 1, "running"))
    kit.advance(2)
    kit.run(jobs.save_phase(second, "send", 1, "failed", error="refused"))
    third = fail(kit, second)
    kit.run(jobs.save_phase(third, "send", 1, "completed", result="2"))
    kit.settle(third)

    assert tries(kit, first.job_id) == [
        [("load", "completed", None), ("send", "failed", "no network")],
        [("send", "failed", "refused")],
        [("send", "completed", None)],
    ]
    one, two, _ = kit.run(admin.attempts(first.job_id))
    assert (one.phases[1].progress, one.phases[1].message, one.phases[1].fence) == (40, "connecting", 1)
    assert (two.phases[0].message, two.phases[0].started_at) == (None, to_datetime(began))
    assert two.phases[0].finished_at == to_datetime(began + 2_000_000)
    assert {phase.result_text for each in (one, two) for phase in each.phases} == {None}
    assert [(each.name, each.result_text, each.fence) for each in kit.run(jobs.phases(first.job_id))] == [
        ("load", "1", 1), ("send", "2", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["running", "failed", "cancelled", "completed"])
def test_a_result_is_not_written_again_in_a_later_attempt(kit: Kit, held: Held, status: str) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
    again = fail(kit, held)
    before = dump(kit.store)

    with pytest.raises(Conflict):
        kit.run(jobs.save_phase(again, "load", 0, status, result="1" if status == "completed" else None))

    assert dump(kit.store) == before


def test_a_retry_that_forgets_a_result_keeps_that_the_phase_was_tried(kit: Kit) -> None:
    claimed = kit.running(max_attempts=1)
    held = kit.held(claimed)
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
    kit.run(jobs.save_phase(held, "send", 1, "failed", error="no network"))
    kit.settle(claimed, Trigger.FAIL)

    kit.run(control.retry([held.job_id], from_position=0))

    assert kit.run(jobs.phases(held.job_id)) == []
    assert tries(kit, held.job_id) == [[("load", "completed", None), ("send", "failed", "no network")]]
    (again,) = kit.claim()
    kit.run(jobs.save_phase(kit.held(again), "load", 0, "completed", result="2"))
    assert [(each.name, each.result_text) for each in kit.run(jobs.phases(held.job_id))] == [("load", "2")]
    assert kit.run(jobs.phases_of([held.job_id])) == {held.job_id: kit.run(jobs.phases(held.job_id))}


def test_what_was_tried_is_deleted_with_the_job(kit: Kit, held: Held) -> None:
    kit.run(jobs.save_phase(held, "load", 0, "failed", error="no network"))
    kit.settle(held)

    kit.run(control.delete([held.job_id]))

    assert query(kit.store, "SELECT count(*) FROM {s}phase") == [(0,)]
