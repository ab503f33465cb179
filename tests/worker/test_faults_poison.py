"""One job that kills what runs it, every time, among many that were claimed ahead: it alone ends as failed."""

from __future__ import annotations

import pytest

from tests.conftest import Figures
from tests.storage.tables import change
from tests.worker.faults import enqueue_many, kept_running, statuses
from tests.worker.fleet import Stage


@pytest.mark.parametrize(
    ("word", "reason"), [("kill_zygote", "ZygoteLost"), ("kill_supervisor", "WorkerLost")], ids=["zygote", "worker"]
)
def test_a_poison_job_alone_ends_failed(stage: Stage, word: str, reason: str, figures: Figures) -> None:
    present = kept_running(stage, "--slots", "4", "--ahead", "500")
    stage.app.definitions.pause("script", "until all are there")
    jobs = enqueue_many(stage, [[]] * 250 + [[[word]]] + [[]] * 249)
    poison, others = jobs[250], jobs[:250] + jobs[251:]
    stage.app.definitions.resume("script")

    def all_ended() -> bool:
        present()
        return set(statuses(stage)) <= {"succeeded", "failed"}

    stage.eventually(all_ended, "all jobs have ended", 100)

    ended = poison.refresh()
    assert (ended.status, ended.lost, ended.error_type) == ("failed", 3, reason)
    assert [each.cause for each in stage.attempts(poison)] == ["lost"] * 3
    neighbours = [job.refresh() for job in others]
    assert [job.status for job in neighbours] == ["succeeded"] * 499
    lost = [sum(each.cause == "lost" for each in stage.attempts(job)) for job in others]
    assert max(lost) < 3
    figures(
        f"engine_poison_{word}", store=stage.url.partition(":")[0], neighbours_lost=sum(map(bool, lost)),
        most=max(lost),
    )  # fmt: skip


def test_a_job_on_its_last_chance_keeps_no_other_from_running_elsewhere(stage: Stage) -> None:
    stage.worker("--slots", "4")
    stage.app.definitions.pause("script", "until all are there")
    suspect = stage.enqueue("script", [["note", "at work"], ["sleep", 60]])
    change(stage.app.store, "UPDATE {s}job SET lost = 2")
    others = [stage.enqueue("script") for _ in range(2)]
    stage.app.definitions.resume("script")
    stage.noted(suspect, "at work")
    others += [stage.enqueue("script") for _ in range(2)]

    stage.worker("--slots", "4")

    assert [stage.end(each, 15).status for each in others] == ["succeeded"] * 4
    assert suspect.refresh().status == "running"
    assert {each.worker_id for job in others for each in stage.attempts(job) if each.cause == "returned"} == {
        next(row.id for row in stage.app.workers.list() if row.pid == stage.workers[1].pid)
    }


def test_a_job_that_waits_to_run_alone_keeps_no_other_from_running_elsewhere(stage: Stage) -> None:
    stage.worker("--slots", "4")
    busy = stage.enqueue("script", [["note", "at work"], ["sleep", 60]])
    stage.noted(busy, "at work")
    stage.app.definitions.pause("script", "until all are there")
    suspect = stage.enqueue("script")
    change(stage.app.store, f"UPDATE {{s}}job SET lost = 2 WHERE id = '{suspect.id}'")
    others = [stage.enqueue("script") for _ in range(2)]
    stage.app.definitions.resume("script")
    stage.until(suspect, "running")

    stage.worker("--slots", "4")

    assert [stage.end(each, 15).status for each in others] == ["succeeded"] * 2
    assert busy.refresh().status == "running"
