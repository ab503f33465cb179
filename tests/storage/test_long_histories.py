"""prune_attempts: a job that runs again and again keeps its last attempts, not all of them."""

from __future__ import annotations

import json

import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.instant import DAY
from penstock.domain.job import Claimed
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs
from tests.storage.kit import Kit
from tests.storage.tables import dump, query

pytestmark = pytest.mark.usefixtures("sound")

KEPT = 100


def run_often(kit: Kit, times: int, waiting: list[str], *, lines: int = 1) -> list[str]:
    """Jobs that are put off each time, all by one worker, each with lines in its log."""
    worker = kit.worker(lease=30 * DAY)
    for _ in range(times):
        claimed = kit.claim(worker, limit=len(waiting))
        for each in claimed:
            kit.run(jobs.save_logs(kit.held(each), [LogLine("info", f"{each.fence}.{n}") for n in range(lines)]))
        kit.settle_all([kit.ending(each, Trigger.SNOOZE, delay=0) for each in claimed])
        kit.advance(1)
        kit.run(jobs.promote())
    return waiting


def forget(kit: Kit) -> int:
    """Remove what may go; in how many calls."""
    calls, after = 1, kit.run(admin.prune_attempts())
    while after is not None:
        calls, after = calls + 1, kit.run(admin.prune_attempts(after=after))
        assert calls < 100
    return calls


def fences(kit: Kit, job_id: str) -> list[int]:
    return [each.fence for each in kit.run(admin.attempts(job_id))]


def logged(kit: Kit, job_id: str) -> set[int]:
    return {each.fence for each in kit.run(admin.logs(job_id, limit=100_000))}


def test_a_job_that_is_put_off_for_ever_keeps_its_last_attempts_with_their_logs(kit: Kit) -> None:
    (job_id,) = run_often(kit, 320, [kit.create()])
    before = kit.job(job_id)

    forget(kit)

    assert fences(kit, job_id) == list(range(221, 321))
    assert logged(kit, job_id) == set(range(221, 321))
    assert kit.job(job_id) == before
    told = [each for each in kit.run(feed.of_job(job_id, limit=5000)) if each.type == "job.pruned"]
    assert [json.loads(each.data_text or "") for each in told] == [
        {"attempts": 100},
        {"attempts": 200},
        {"attempts": 220},
    ]


def test_what_is_kept_stays_as_it_is(kit: Kit) -> None:
    ids = run_often(kit, KEPT, [kit.create(), kit.create()])
    kit.claim(limit=1)
    before = dump(kit.store)

    assert kit.run(admin.prune_attempts()) is None

    assert dump(kit.store) == before
    assert {len(fences(kit, each)) for each in ids} == {KEPT}


@pytest.mark.parametrize("cancelling", [False, True])
def test_the_attempt_that_runs_is_left_alone(kit: Kit, cancelling: bool) -> None:
    (job_id,) = run_often(kit, 120, [kit.create()])
    (claimed,) = kit.claim()
    held = kit.held(claimed)
    kit.run(jobs.save_logs(held, [LogLine("info", "mine")]))
    kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
    kit.run(jobs.save_progress([(held, 50.0, "half", "load")]))
    if cancelling:
        kit.run(control.cancel([job_id]))
    before = kit.job(job_id)

    forget(kit)

    assert kit.job(job_id) == before
    assert fences(kit, job_id) == list(range(21, 121))
    assert logged(kit, job_id) == set(range(21, 122))
    assert [each.result_text for each in kit.run(jobs.phases(job_id))] == ["1"]
    kit.run(jobs.save_logs(held, [LogLine("info", "and on")]))
    assert kit.settle(claimed).applied == [job_id]
    assert len(fences(kit, job_id)) == KEPT + 1


def test_one_that_is_retried_or_released_without_end_keeps_its_last_attempts_too(kit: Kit) -> None:
    job_id = kit.create(max_attempts=10_000)
    worker = kit.worker(lease=30 * DAY)
    for number in range(230):
        (claimed,) = kit.claim(worker)
        kit.settle(claimed, Trigger.FAIL if number % 2 else Trigger.RELEASE, **({"delay": 0} if number % 2 else {}))
        kit.advance(1)
        kit.run(jobs.promote())
    attempts = kit.job(job_id).attempts

    forget(kit)

    assert fences(kit, job_id) == list(range(131, 231))
    assert kit.job(job_id).attempts == attempts == 115


def test_what_a_job_tried_goes_with_the_attempt_and_what_is_completed_stays(kit: Kit) -> None:
    job_id = kit.create(max_attempts=10_000)
    worker = kit.worker(lease=30 * DAY)
    for number in range(1, 241):
        (claimed,) = kit.claim(worker)
        held = kit.held(claimed)
        if number == 1:
            kit.run(jobs.save_phase(held, "load", 0, "completed", result="1"))
        kit.run(jobs.save_phase(held, "work", 1, "failed", error="no network"))
        kit.settle(claimed, Trigger.FAIL, delay=0)
        kit.advance(1)
        kit.run(jobs.promote())

    forget(kit)

    attempts = kit.run(admin.attempts(job_id))
    assert [(each.fence, [phase.name for phase in each.phases]) for each in attempts] == [
        (fence, ["work"]) for fence in range(141, 241)
    ]
    assert [(each.name, each.result_text, each.fence) for each in kit.run(jobs.phases(job_id))] == [
        ("load", "1", 1), ("work", None, 240),
    ]  # fmt: skip
    assert query(kit.store, "SELECT count(*) FROM {s}phase") == [(KEPT + 1,)]


def test_many_lines_of_an_attempt_go_in_parts(kit: Kit) -> None:
    (job_id,) = run_often(kit, 101, [kit.create()], lines=1)
    (claimed,) = kit.claim()
    for _ in range(3):
        kit.run(jobs.save_logs(kit.held(claimed), [LogLine("info", "line")] * 600))
    kit.settle(claimed, Trigger.SNOOZE, delay=0)
    kit.advance(1)
    kit.run(jobs.promote())
    run_often(kit, 110, [job_id])

    assert forget(kit) > 3

    assert logged(kit, job_id) == set(fences(kit, job_id)) == set(range(113, 213))


def test_of_many_jobs_each_call_takes_some(kit: Kit) -> None:
    ids = sorted(run_often(kit, 105, [kit.create() for _ in range(7)], lines=0))

    after = kit.run(admin.prune_attempts(limit=3))

    assert after == ids[2]
    assert [len(fences(kit, each)) for each in ids] == [KEPT] * 3 + [105] * 4
    assert kit.run(admin.prune_attempts(limit=4, after=after)) is None
    assert [len(fences(kit, each)) for each in ids] == [KEPT] * 7


def test_the_events_of_removed_attempts_stay_as_long_as_other_events_and_then_go(kit: Kit) -> None:
    ids = run_often(kit, 150, [kit.create(), kit.create()])
    job_id = ids[0]
    tip = kit.run(feed.tip())
    whole = kit.events(job_id)
    forget(kit)
    assert kit.events(job_id) == [*whole, "job.pruned"]
    while kit.run(feed.prune(DAY)):
        pass
    assert kit.run(feed.read(tip)).events[-1].type == "job.pruned"

    kit.advance(2 * 86_400)
    tip = kit.run(feed.tip())
    while kit.run(feed.prune(DAY)):
        pass

    left = kit.run(feed.of_job(job_id, limit=5000))
    assert left[0].type == "job.enqueued"
    assert {each.fence for each in left} == {None, *range(51, 151)}
    assert [each.type for each in left].count("job.started") == KEPT
    assert "job.pruned" not in {each.type for each in left}
    assert kit.run(feed.read(tip)).events == []


def test_a_job_that_is_deleted_after_attempts_of_it_went_leaves_nothing(kit: Kit) -> None:
    ids = run_often(kit, 130, [kit.create(), kit.create()])
    forget(kit)
    claimed: list[Claimed] = kit.claim(limit=2)
    kit.settle_all([kit.ending(each) for each in claimed])
    assert {kit.status(each) for each in ids} == {Status.SUCCEEDED}
    kit.advance(60)
    assert len(kit.run(control.delete(ids))) == 2

    kit.advance(40 * 86_400)
    while kit.run(feed.prune(DAY)):
        pass

    assert query(kit.store, "SELECT kind FROM {s}event WHERE kind LIKE 'job.%'") == []
    assert query(kit.store, "SELECT count(*) FROM {s}attempt") == [(0,)]
