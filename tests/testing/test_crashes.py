"""Crashes at a named place: the attempt is lost, and the job goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Context, InvalidInput, Penstock
from penstock.testing import TestApp

CALLS: list[str] = []


def load(ctx: Context, number: int) -> int:
    CALLS.append("load")
    return number + 1


async def change(ctx: Context) -> int:
    CALLS.append("change")
    return int(ctx.results["load"]) * 10


def save(ctx: Context) -> str:
    CALLS.append("save")
    return f"saved {ctx.results['change']}"


@pytest.fixture
def pipe(app: Penstock) -> Any:
    CALLS.clear()
    return app.pipeline("pipe", load, change, save)


@pytest.mark.parametrize(
    ("place", "phase", "first", "second"),
    [
        ("crash_at", "load", [], ["load", "change", "save"]),
        ("crash_after", "load", ["load"], ["change", "save"]),
        ("crash_at", "change", ["load"], ["change", "save"]),
        ("crash_after", "change", ["load", "change"], ["save"]),
        ("crash_at", "save", ["load", "change"], ["save"]),
        ("crash_after", "save", ["load", "change", "save"], []),
    ],
)
def test_a_job_goes_on_with_the_phase_that_was_not_kept(
    app: Penstock, kit: TestApp, pipe: Any, place: str, phase: str, first: list[str], second: list[str]
) -> None:
    getattr(kit, place)(pipe, phase)
    job = pipe.enqueue(4)

    drained = kit.drain()
    assert first == CALLS
    assert [each.lost for each in drained.waiting] == [1]
    CALLS.clear()
    kit.advance(1)
    kit.drain()

    assert second == CALLS
    assert job.result(0) == "saved 50"
    assert [each.cause for each in app.jobs.attempts(job.id)] == ["lost", "returned"]
    assert (job.job.attempts, job.job.lost) == (1, 0)
    assert "job.lost" in [event.type for event in app.events.follow(job_id=job.id, timeout=0)]


def test_a_plain_job_is_run_again(app: Penstock, kit: TestApp) -> None:
    ran: list[int] = []

    @app.job("work")
    def work(ctx: Context) -> None:
        ran.append(ctx.fence)

    kit.crash_at(work)
    kit.crash_after("work")
    job = work.enqueue()
    kit.drain()
    assert ran == []
    kit.advance(1)
    kit.drain()
    assert ran == [2]
    kit.advance(5)
    kit.drain()

    assert ran == [2, 3]
    assert job.job.status == "succeeded"
    assert [each.cause for each in app.jobs.attempts(job.id)] == ["lost", "lost", "returned"]


def test_a_job_that_is_lost_too_often_fails(app: Penstock, kit: TestApp, pipe: Any) -> None:
    ended: list[str] = []
    other = app.job("other", on_fail=lambda ctx, error: ended.append(error))(load)
    kit.crash_at(other, times=3)
    job = other.enqueue(1)

    for _ in range(3):
        kit.drain()
        kit.advance(60)

    assert (job.job.status, job.job.lost, job.job.error_type) == ("failed", 3, "TestCrash")
    assert ended == ["The test crashed the attempt here. The job was lost 3 times in a row, so it is not tried again."]
    assert CALLS == []


def test_jobs_of_other_definitions_live_on(app: Penstock, kit: TestApp, pipe: Any) -> None:
    other = app.pipeline("other", load, save_nothing)
    kit.crash_at(pipe, "load")
    lost, well = pipe.enqueue(1), other.enqueue(1)

    drained = kit.drain()

    assert [each.id for each in drained.succeeded] == [well.id]
    assert [each.id for each in drained.waiting] == [lost.id]


def test_a_crash_can_be_taken_back(kit: TestApp, pipe: Any) -> None:
    kit.crash_at(pipe, "load", times=5)
    kit.crash_at(pipe, "load", times=0)
    pipe.enqueue(1)

    assert len(kit.drain().succeeded) == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("pipe", "upload"), "pipe has no phase 'upload'. There are: load, change, save."),
        (("pipe",), "pipe has no phase None. There are: load, change, save."),
        (("pipes", "load"), "The application has no definition 'pipes'. There are: pipe."),
        (("pipe", "load", -1), "`times` must be a number of attempts, not -1."),
        ((5, "load"), "A definition is given as itself or by its key, not as 5."),
    ],
)
def test_a_place_that_is_not_there_is_refused(kit: TestApp, pipe: Any, given: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        kit.crash_at(*given)

    assert str(raised.value) == problem


def save_nothing(ctx: Context) -> None: ...
