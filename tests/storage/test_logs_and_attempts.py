"""logs, attempts and reviews: what attempts left behind."""

from __future__ import annotations

import pytest

from penstock.domain.attempt import Attempt, LogLine, Review
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import to_datetime
from penstock.domain.outcome import Cause, Failure, Usage
from penstock.domain.states import Status, Trigger
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import START, Kit


def messages(kit: Kit, job_id: str, **options: object) -> list[str]:
    return [line.message for line in kit.run(admin.logs(job_id, **options))]  # type: ignore[arg-type]


def test_log_lines_come_back_as_they_were_written_and_in_order(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(2)
    lines = [
        LogLine("info", "ä\\n“quoted”", at=START + 1, phase="read", details='{"n": 1}', duration=7),
        LogLine("error", ""),
    ]
    kit.run(jobs.save_logs(kit.held(claimed), lines))

    first, second = kit.run(admin.logs(claimed.job_id))

    assert (first.level, first.message, first.phase, first.details_text, first.duration) == (
        "info", "ä\\n“quoted”", "read", '{"n": 1}', 7,
    )  # fmt: skip
    assert first.at == to_datetime(START + 1)
    assert first.fence == claimed.fence
    assert (second.level, second.message, second.phase, second.at) == (
        "error",
        "",
        None,
        to_datetime(START + 2_000_000),
    )
    assert second.seq > first.seq


def test_logs_are_read_in_pages_and_by_level_phase_and_attempt(kit: Kit) -> None:
    claimed = kit.running()
    levels = ("debug", "info", "warning", "error")
    lines = [LogLine(level, f"{level} {phase}", phase=phase) for phase in ("read", "write") for level in levels]
    kit.run(jobs.save_logs(kit.held(claimed), lines))
    kit.settle(claimed, Trigger.SNOOZE)
    kit.run(jobs.promote())
    (again,) = kit.claim()
    kit.run(jobs.save_logs(kit.held(again), [LogLine("info", "once more")]))
    job_id = claimed.job_id
    everything = [line.message for line in lines] + ["once more"]

    assert messages(kit, job_id) == everything
    assert messages(kit, job_id, level="debug") == everything
    assert messages(kit, job_id, level="warning") == ["warning read", "error read", "warning write", "error write"]
    assert messages(kit, job_id, phase="write") == everything[4:8]
    assert messages(kit, job_id, phase="write", level="error") == ["error write"]
    assert messages(kit, job_id, fence=again.fence) == ["once more"]
    assert messages(kit, job_id, limit=3) == everything[:3]
    third = kit.run(admin.logs(job_id, limit=3))[-1].seq
    assert messages(kit, job_id, after=third) == everything[3:]
    assert messages(kit, job_id, after=third, limit=1) == everything[3:4]


def test_a_level_that_does_not_exist_is_refused_and_the_others_are_named(kit: Kit) -> None:
    with pytest.raises(InvalidInput, match="'loud'") as refusal:
        kit.run(admin.logs(kit.create(), level="loud"))

    assert "debug, info, warning, error" in refusal.value.hint


def test_a_job_that_does_not_exist_has_left_nothing_behind(kit: Kit) -> None:
    for job_id in (kit.new_id(), "no id at all"):
        assert kit.run(admin.logs(job_id)) == []
        assert kit.run(admin.attempts(job_id)) == []
        assert kit.run(admin.reviews(job_id)) == []


def test_an_attempt_that_runs_is_not_on_record_yet(kit: Kit) -> None:
    assert kit.run(admin.attempts(kit.running().job_id)) == []


def test_attempts_tell_how_they_ended_in_their_order(kit: Kit) -> None:
    claimed = kit.running(max_attempts=2)
    worker = kit.held(claimed).worker
    kit.advance(3)
    failure = Failure("KeyError", "gone", "Traceback …", "f1")
    usage = Usage(exit_code=1, signal=9, peak_memory=2**40, cpu_seconds=1.5)
    kit.run(jobs.settle(worker, [kit.ending(claimed, Trigger.FAIL, failure=failure, usage=usage)]))
    kit.advance(60)
    kit.run(jobs.promote())
    (again,) = kit.claim()
    kit.settle(again, result="[1]")

    first, second = kit.run(admin.attempts(claimed.job_id))

    assert first == Attempt(
        job_id=claimed.job_id, fence=1, number=1, worker_id=worker, status=Status.SCHEDULED, cause=Cause.RAISED,
        started_at=to_datetime(START), finished_at=to_datetime(START + 3_000_000), result_text=None,
        error_type="KeyError", error="gone", traceback="Traceback …", fingerprint="f1", exit_code=1, signal=9,
        peak_memory=2**40, cpu_seconds=1.5,
    )  # fmt: skip
    assert (second.fence, second.number, second.status, second.cause) == (2, 2, Status.SUCCEEDED, Cause.RETURNED)
    assert (second.result_text, second.error) == ("[1]", None)


def test_reviews_tell_what_was_asked_and_what_was_said(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.ASK_REVIEW, note="look", data='{"x": 1}', result='"draft"')
    (asked,) = kit.run(admin.reviews(claimed.job_id))
    kit.advance(5)

    kit.run(control.approve(claimed.job_id, by="eve", note="fine", finished=False))
    (again,) = kit.claim()
    kit.settle(again, Trigger.ASK_REVIEW, note="and now?")

    assert (asked.note, asked.data_text, asked.result_text, asked.decision) == ("look", '{"x": 1}', '"draft"', None)
    first, second = kit.run(admin.reviews(claimed.job_id))
    assert first == Review(
        job_id=claimed.job_id, fence=1, note="look", data_text='{"x": 1}', asked_at=to_datetime(START),
        decision="approved", decided_by="eve", decided_note="fine", decided_at=to_datetime(START + 5_000_000),
        result_text='"draft"',
    )  # fmt: skip
    assert (second.fence, second.note, second.decision) == (2, "and now?", None)
