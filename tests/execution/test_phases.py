"""Phases: what is finished stays finished, through crashes, restarts and reviews."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from penstock import JobHandle
from penstock.domain.attempt import Phase
from penstock.storage.commands import jobs
from tests.worker.fleet import Stage

pytestmark = pytest.mark.xdist_group("engine-phases")

ODD = {"text": "ä\u2028\U0001f30a\"'\\", "large": 2**53 + 1, "small": 1e-300, "nested": [[], {}, None, True]}


def phased(stage: Stage, **scripts: list[list[Any]]) -> JobHandle[Any]:
    return stage.app.enqueue("phased", {"scripts": scripts})


def phases(stage: Stage, job: JobHandle[Any]) -> dict[str, Phase]:
    return {phase.name: phase for phase in stage.app.store.run(jobs.phases(job.id))}


def test_the_result_is_the_last_phases_and_each_sees_what_went_before(shared_stage: Stage) -> None:
    job = phased(shared_stage, first=[["return", 1]], second=[["return", 2]], third=[["return", 3]])

    ended = shared_stage.end(job)

    assert (ended.status, ended.result, ended.attempts) == ("succeeded", 3, 1)
    assert shared_stage.journal(job, "second")[0]["results"] == {"first": 1}
    assert shared_stage.journal(job, "third")[0]["results"] == {"first": 1, "second": 2}
    assert {name: (each.status, each.result) for name, each in phases(shared_stage, job).items()} == {
        "first": ("completed", 1),
        "second": ("completed", 2),
        "third": ("completed", 3),
    }
    assert shared_stage.kinds(job) == [
        "job.enqueued",
        "job.started",
        *["job.phase.completed"] * 3,
        "job.succeeded",
    ]


def test_a_job_killed_in_its_second_phase_resumes_there_after_a_restart_of_everything(stage: Stage) -> None:
    worker = stage.worker()
    job = phased(
        stage, first=[["return", ODD]], second=[["crash_before", 2], ["note", "at work"], ["sleep_before", 3, 60]]
    )
    stage.noted(job, "at work")
    kept = phases(stage, job)["first"].result

    worker.send(signal.SIGKILL)
    worker.wait()
    stage.worker()
    ended = stage.end(job)

    assert ended.status == "succeeded"
    assert len(stage.journal(job, "first")) == 1
    assert [line["results"] for line in stage.journal(job, "second")] == [{"first": ODD}] * 3
    assert phases(stage, job)["first"].result == kept
    assert [each.cause for each in stage.attempts(job)] == ["signalled", "lost", "returned"]


def test_results_of_phases_may_be_longer_together_than_a_frame_of_a_job(shared_stage: Stage) -> None:
    job = shared_stage.app.enqueue("wide")

    ended = shared_stage.end(job)

    assert (ended.status, ended.result, ended.attempts) == ("succeeded", 1500000, 2)


def test_the_phase_in_which_a_job_failed_is_kept(shared_stage: Stage) -> None:
    job = phased(shared_stage, first=[["return", 1]], second=[["fail", "no good"]])

    ended = shared_stage.end(job)

    found = phases(shared_stage, job)
    assert (ended.status, ended.current_phase, ended.error) == ("failed", "second", "no good")
    assert found["first"].status == "completed"
    assert set(found) == {"first", "second"}
    failed = phases(shared_stage, job)["second"]
    assert (failed.status, failed.error) == ("failed", "no good")


def test_each_attempt_tells_what_it_did_in_its_phases(shared_stage: Stage) -> None:
    steps: list[list[Any]] = [["say_progress", 40, "halfway"], ["raise_before", 2, "no good"], ["return", 2]]
    job = shared_stage.app.enqueue("phased", {"scripts": {"first": [["return", 1]], "second": steps}}, max_attempts=2)

    assert shared_stage.end(job).status == "succeeded"

    failed, ended = shared_stage.app.attempts(job.id)
    assert [(each.name, each.status, each.progress, each.message, each.error) for each in failed.phases] == [
        ("first", "completed", 100, None, None), ("second", "failed", 40, "halfway", "no good"),
    ]  # fmt: skip
    assert [(each.name, each.status, each.error) for each in ended.phases] == [
        ("second", "completed", None), ("third", "completed", None),
    ]  # fmt: skip
    assert all(each.finished_at and each.started_at and each.finished_at >= each.started_at for each in failed.phases)


def test_a_phase_that_its_attempt_did_not_finish_ended_with_the_attempt(shared_stage: Stage) -> None:
    job = shared_stage.app.enqueue(
        "phased",
        {"scripts": {"first": [["return", 1]], "second": [["crash_before", 2], ["return", 2]]}},
        max_attempts=2,
    )

    assert shared_stage.end(job).status == "succeeded"

    crashed, _ = shared_stage.app.attempts(job.id)
    _, second = crashed.phases
    assert (second.name, second.status, second.error) == ("second", "failed", crashed.error)
    assert second.finished_at is not None


def test_the_attempts_at_a_plain_job_have_the_phase_run(shared_stage: Stage) -> None:
    job = shared_stage.app.enqueue(
        "script", {"script": [["raise_before", 2, "no good"], ["return", 2]]}, max_attempts=2
    )

    assert shared_stage.end(job).status == "succeeded"

    failed, ended = shared_stage.app.attempts(job.id)
    assert [(each.name, each.status, each.error) for each in failed.phases] == [("run", "failed", "no good")]
    assert [(each.name, each.status, each.started_at, each.finished_at) for each in ended.phases] == [
        ("run", "completed", ended.started_at, ended.finished_at)
    ]


def test_a_failed_job_that_is_retried_by_hand_goes_on_where_it_failed(shared_stage: Stage) -> None:
    job = phased(shared_stage, first=[["return", 1]], second=[["fail_before", 2, "no good"], ["return", 2]])
    shared_stage.end(job)

    job.retry()
    ended = shared_stage.end(job)

    assert ended.status == "succeeded"
    assert len(shared_stage.journal(job, "first")) == 1
    assert len(shared_stage.journal(job, "second")) == 2


def test_a_failed_job_can_be_retried_from_an_earlier_phase(shared_stage: Stage) -> None:
    job = phased(shared_stage, first=[["return", 1]], second=[["fail_before", 2, "no good"], ["return", 2]])
    shared_stage.end(job)

    job.retry(from_phase="first")
    ended = shared_stage.end(job)

    assert ended.status == "succeeded"
    assert len(shared_stage.journal(job, "first")) == 2


def test_times_of_phases_are_those_at_which_they_began_and_ended(shared_stage: Stage) -> None:
    steps: list[list[Any]] = [["note", "begins"], ["sleep", 0.4], ["note", "ends"]]
    job = phased(shared_stage, first=steps, second=steps, third=steps)

    assert shared_stage.end(job).status == "succeeded"

    begins = [line["at"] for line in shared_stage.journal(job, "begins")]
    ends = [line["at"] for line in shared_stage.journal(job, "ends")]
    spans = [(kept.started_at, kept.completed_at) for kept in phases(shared_stage, job).values()]
    kept = [(start.timestamp(), end.timestamp()) for start, end in spans if start is not None and end is not None]
    assert [end - start >= after - before for (start, end), before, after in zip(kept, begins, ends, strict=True)] == [
        True, True, True
    ]  # fmt: skip
    between = [(kept[n + 1][0] - kept[n][1], begins[n + 1] - ends[n]) for n in (0, 1)]
    assert all(0 <= told <= measured for told, measured in between), between
    started, finished = job.job.started_at, job.job.finished_at
    assert started is not None
    assert finished is not None
    assert started.timestamp() - 1 <= kept[0][0]
    assert kept[-1][1] <= finished.timestamp() + 1


def test_lines_of_a_log_have_the_times_at_which_they_were_written(shared_stage: Stage) -> None:
    step: list[list[Any]] = [["note", "before"], ["log", "info", "a line"], ["note", "after"], ["sleep", 0.02]]
    job = shared_stage.enqueue("script", step * 5)

    assert shared_stage.end(job).status == "succeeded"

    kept = [line.at.timestamp() for line in shared_stage.logs(job)]
    before = [line["at"] for line in shared_stage.journal(job, "before")]
    after = [line["at"] for line in shared_stage.journal(job, "after")]
    assert len(set(kept)) == 5
    assert all(kept[n + 1] - kept[n] >= before[n + 1] - after[n] for n in range(4)), (kept, before, after)


def test_a_child_cannot_give_its_words_times_outside_of_its_attempt(shared_stage: Stage) -> None:
    frames = [
        f'{{"say":"log","level":"info","message":"{n}","details":null,"phase":null,"at":{at}}}'
        for n, at in enumerate((0, -5, 10**18, "true", '"soon"', 1.5))
    ]
    packed = b"".join(len(frame).to_bytes(4, "big") + frame.encode() for frame in frames)
    job = shared_stage.enqueue("script", [["write_line", packed.hex()], ["return", 1]])

    ended = shared_stage.end(job)

    assert ended.status == "succeeded"
    assert ended.started_at is not None
    assert ended.finished_at is not None
    kept = [line.at.timestamp() for line in shared_stage.logs(job)]
    assert len(kept) == 6
    assert ended.started_at.timestamp() - 1 <= min(kept) <= max(kept) <= ended.finished_at.timestamp() + 1


def test_a_phase_that_ends_counts_as_a_whole_one(shared_stage: Stage) -> None:
    job = phased(shared_stage, first=[["return", 1]], third=[["note", "at work"], ["sleep", 60]])
    shared_stage.noted(job, "at work")

    shared_stage.eventually(lambda: round(job.refresh().progress or 0, 3) == 66.667, "two of three phases are done")

    job.cancel()
    assert round(shared_stage.end(job).progress or 0, 3) == 66.667


@pytest.mark.parametrize("key", ["phased", "noop"])
def test_a_job_that_succeeded_has_come_all_the_way(shared_stage: Stage, key: str) -> None:
    job = phased(shared_stage) if key == "phased" else shared_stage.app.enqueue(key)

    assert shared_stage.end(job).status == "succeeded"

    assert job.refresh().progress == 100.0
    found = shared_stage.app.jobs(status="succeeded", limit=500).jobs
    assert [each.progress for each in found if each.id == job.id] == [100.0]


@pytest.mark.parametrize("how", [[["sleep", 60]], [["c_sleep", 60]]], ids=["it stops", "it is killed"])
def test_a_phase_in_which_a_job_was_cancelled_reads_cancelled(shared_stage: Stage, how: list[list[Any]]) -> None:
    job = phased(shared_stage, second=[["note", "at work"], *how])
    shared_stage.noted(job, "at work")

    job.cancel()
    ended = shared_stage.end(job)

    assert ended.status == "cancelled"
    assert {name: each.status for name, each in phases(shared_stage, job).items()} == {
        "first": "completed", "second": "cancelled"
    }  # fmt: skip


def test_progress_of_a_phase_is_a_part_of_the_whole(shared_stage: Stage) -> None:
    job = phased(shared_stage, second=[["say_progress", 50, "half way"], ["note", "said"], ["sleep", 60]])
    shared_stage.noted(job, "said")

    shared_stage.eventually(lambda: job.refresh().progress == 50.0, "the progress is written down")

    assert (job.job.progress_message, job.job.current_phase) == ("half way", "second")
    job.cancel()
    assert shared_stage.end(job).status == "cancelled"


class TestAllPhases:
    """What `app.phases` shows, from the creation of a job to its end."""

    def shown(self, shared_stage: Stage, job: JobHandle[Any]) -> dict[str, str]:
        return {each.name: each.status for each in shared_stage.app.phases(job.id)}

    def test_those_that_have_not_begun_are_pending(self, shared_stage: Stage) -> None:
        job = phased(shared_stage, second=[["note", "at work"], ["sleep", 60]])
        shared_stage.noted(job, "at work")

        shared_stage.eventually(
            lambda: self.shown(shared_stage, job) == {"first": "completed", "second": "running", "third": "pending"},
            "all three are shown",
        )

        job.cancel()
        shared_stage.end(job)
        assert self.shown(shared_stage, job) == {"first": "completed", "second": "cancelled", "third": "pending"}

    def test_a_phase_that_raises_when_it_is_cancelled_reads_cancelled(self, shared_stage: Stage) -> None:
        job = phased(shared_stage, second=[["note", "at work"], ["swallow_cancel_and_raise", 60]])
        shared_stage.noted(job, "at work")

        job.cancel()

        assert shared_stage.end(job).status == "cancelled"
        assert self.shown(shared_stage, job)["second"] == "cancelled"

    @pytest.mark.parametrize(
        ("step", "status"), [(["return", 1], "completed"), (["fail", "no good"], "failed"), (["_exit", 3], "failed")]
    )
    def test_a_plain_job_has_one_that_says_what_the_job_says(
        self, shared_stage: Stage, step: list[Any], status: str
    ) -> None:
        job = shared_stage.enqueue("script", [step])
        ended = shared_stage.end(job)

        (phase,) = shared_stage.app.phases(job.id)

        assert (phase.name, phase.status, phase.error) == ("run", status, ended.error)
        assert (phase.started_at, phase.result) == (ended.started_at, ended.result)
        assert (phase.progress == 100.0) == (status == "completed")


class TestDuration:
    """The time that a job took is that of its latest attempt."""

    def test_waiting_for_a_person_does_not_count(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("script", [["review", "", [1]]])
        waiting = shared_stage.until(job, "review_needed")
        (attempt,) = shared_stage.attempts(job)
        assert attempt.started_at is not None

        shared_stage.app.approve_job(job.id)
        ended = shared_stage.end(job)

        assert waiting.duration == ended.duration == (attempt.finished_at - attempt.started_at).total_seconds()
        assert ended.finished_at is not None
        assert ended.finished_at > attempt.finished_at

    @pytest.mark.parametrize("value", [None, 1])
    def test_it_is_known_when_the_job_has_ended(self, shared_stage: Stage, value: int | None) -> None:
        job = shared_stage.enqueue("script", [["note", "at work"], ["sleep", 0.5], ["return", value]])
        shared_stage.noted(job, "at work")
        running = job.refresh()
        assert (running.status, running.duration) == ("running", None)

        ended = shared_stage.end(job)

        (attempt,) = shared_stage.attempts(job)
        assert attempt.started_at is not None
        assert ended.duration == (attempt.finished_at - attempt.started_at).total_seconds() > 0.4


class TestReviews:
    """A phase may ask a person, and the job holds nothing while it waits for the answer."""

    def asked(self, shared_stage: Stage) -> JobHandle[Any]:
        job = phased(shared_stage, first=[["return", 1]], second=[["review", "is this right?", {"sum": 5}]])
        waiting = shared_stage.until(job, "review_needed")
        assert (waiting.worker_id, waiting.attempts) == (None, 1)
        return job

    def test_approval_goes_on_with_the_next_phase_and_what_the_handler_gave(self, shared_stage: Stage) -> None:
        job = self.asked(shared_stage)

        shared_stage.app.approve_job(job.id, by="ann", note="fine")
        ended = shared_stage.end(job)

        assert ended.status == "succeeded"
        assert len(shared_stage.journal(job, "second")) == 1
        (third,) = shared_stage.journal(job, "third")
        assert third["results"] == {"first": 1, "second": {"sum": 5}}
        assert third["review"] == ["approved", "ann", "fine", {"sum": 5}]
        assert phases(shared_stage, job)["second"].result == {"sum": 5}
        assert [kind for kind in shared_stage.kinds(job) if "review" in kind or "approved" in kind] == [
            "job.review_needed",
            "job.approved",
        ]

    def test_the_approvers_edit_takes_the_place_of_what_the_handler_gave(self, shared_stage: Stage) -> None:
        job = self.asked(shared_stage)

        shared_stage.app.approve_job(job.id, by="ann", result={"sum": 6})
        shared_stage.end(job)

        (third,) = shared_stage.journal(job, "third")
        assert third["results"]["second"] == {"sum": 6}
        assert third["review"] == ["approved", "ann", None, {"sum": 6}]

    def test_rejection_fails_the_job(self, shared_stage: Stage) -> None:
        job = self.asked(shared_stage)

        shared_stage.app.reject_job(job.id, by="ben", note="wrong")
        ended = shared_stage.end(job)

        assert ended.status == "failed"
        assert "wrong" in (ended.error or "")
        assert shared_stage.journal(job, "third") == []

    def test_a_review_in_the_last_phase_ends_the_job(self, shared_stage: Stage) -> None:
        job = phased(shared_stage, third=[["review", "all right?", "draft"]])
        shared_stage.until(job, "review_needed")

        shared_stage.app.approve_job(job.id, result="final")
        ended = shared_stage.end(job)

        assert (ended.status, ended.result) == ("succeeded", "final")

    def test_a_plain_job_may_ask_as_well(self, shared_stage: Stage) -> None:
        job = shared_stage.enqueue("hooked", [["review", "", [1]]])
        shared_stage.until(job, "review_needed")

        shared_stage.app.approve_job(job.id)
        ended = shared_stage.end(job)

        assert (ended.status, ended.result) == ("succeeded", [1])
        assert shared_stage.hooks(job, "on_start", "on_success", "on_end") == ["on_end", "on_start", "on_success"]
