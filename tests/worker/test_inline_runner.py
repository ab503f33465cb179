"""Inline jobs that share a task: none of them notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.worker.fleet import Stage

APP = """
import asyncio, contextvars, json, logging, os, time
from decimal import getcontext
from penstock import Context, Penstock
app = Penstock(os.environ["PENSTOCK_TEST_STORE"], schema=os.environ["PENSTOCK_TEST_SCHEMA"])
USER = contextvars.ContextVar("user", default="nobody")
TIMES = contextvars.ContextVar("times")
GATE = asyncio.Event()
SEEN = []

class Odd:
    def __eq__(self, other):
        raise TypeError("not to be compared")

@app.job("quick", isolation="inline")
async def quick(n: int):
    return asyncio.current_task().get_name()

@app.job("changing", isolation="inline")
async def changing(name: str):
    before = USER.get()
    USER.set(name)
    return before

@app.job("uncomparable", isolation="inline")
async def uncomparable():
    before = TIMES.get(None)
    TIMES.set(Odd())
    return before is None

@app.job("exact", isolation="inline")
async def exact():
    before = getcontext().prec
    getcontext().prec = 50
    return before

@app.job("gated", isolation="inline")
async def gated():
    await asyncio.wait_for(GATE.wait(), 30)
    return asyncio.current_task().get_name()

@app.job("opener", isolation="inline")
async def opener():
    GATE.set()

@app.job("cancels_itself", isolation="inline")
async def cancels_itself():
    asyncio.current_task().cancel()
    return "ended before it was cancelled"

@app.job("raises", isolation="inline", max_attempts=1)
async def raises():
    raise ValueError("as it should")

@app.job("blocks", isolation="inline")
async def blocks():
    asyncio.get_running_loop().call_soon(SEEN.append, None)
    time.sleep(0.01)
    return len(SEEN)

@app.job("speaks", isolation="inline")
async def speaks(ctx: Context, n: int):
    ctx.logger.info("number %d", n)
    logging.getLogger("elsewhere").warning("again %d", n)

@app.job("pauses", isolation="inline")
async def pauses():
    await asyncio.sleep(0.01)

@app.job("late", isolation="inline", timeout=0.5, max_attempts=1)
async def late(first: float):
    time.sleep(first)
    await asyncio.sleep(60)
"""


@pytest.fixture
def play(stage: Stage) -> Callable[..., list[Any]]:
    """Has jobs claimed together by one worker; the result of each, or its error."""
    stage.project(APP)

    def results(*wanted: tuple[str, dict[str, Any]]) -> list[Any]:
        stage.app.definitions.pause_all("until all are there")
        made = [stage.app.enqueue(key, params) for key, params in wanted]
        stage.app.definitions.resume_all()
        ended = [stage.end(each) for each in made]
        return [each.error if each.status == "failed" else each.result for each in ended]

    return results


def test_jobs_that_do_not_wait_share_a_task_and_those_that_wait_have_one_each(play: Callable[..., list[Any]]) -> None:
    gated: tuple[str, Any] = ("gated", {})
    quick = ("quick", {"n": 1})

    tasks = play(*[quick] * 30, *[gated] * 30, *[quick] * 30, ("opener", {}))

    # Who waits keeps the task that it has come to.
    assert len({*tasks[:30], *tasks[60:90]}) < 50
    assert len(set(tasks[30:60])) == 30
    assert not {*tasks[30:60]} & {*tasks[60:90]}


def test_what_a_job_leaves_in_context_variables_is_not_seen_by_the_next(play: Callable[..., list[Any]]) -> None:
    changing = [("changing", {"name": f"user {n}"}) for n in range(10)]

    found = play(*changing, *[("uncomparable", {})] * 3, *[("exact", {})] * 3, *changing[:1])

    assert found == ["nobody"] * 10 + [True] * 3 + [28] * 3 + ["nobody"]


def test_a_job_that_cancels_its_task_or_raises_leaves_the_next_ones_alone(play: Callable[..., list[Any]]) -> None:
    odd = [("cancels_itself", {}), ("quick", {"n": 1}), ("raises", {}), ("quick", {"n": 2})]

    found = play(*odd * 5)

    assert found[::4] == ["ended before it was cancelled"] * 5
    assert found[2::4] == ["as it should"] * 5
    assert all(str(each).startswith("Task-") for each in found[1::2])


def test_jobs_that_block_do_not_keep_the_loop_for_all_of_them(play: Callable[..., list[Any]]) -> None:
    seen = play(*[("blocks", {})] * 20)

    # What each asked the loop to do was done before the next but one began, at the latest.
    assert all(place - 1 <= each for place, each in enumerate(sorted(seen)))


def test_a_job_that_has_to_wait_late_has_its_time_all_the_same(play: Callable[..., list[Any]]) -> None:
    found = play(("late", {"first": 0.0}), ("quick", {"n": 1}), ("late", {"first": 0.05}))

    assert [found[0], found[2]] == ["The attempt took longer than 0.5 s."] * 2


def test_more_jobs_than_slots_that_wait_are_all_run(play: Callable[..., list[Any]]) -> None:
    tasks = play(*[("pauses", {})] * 300, *[("quick", {"n": 1})] * 100)

    assert tasks[:300] == [None] * 300
    assert all(str(each).startswith("Task-") for each in tasks[300:])


def test_what_a_job_says_that_does_not_wait_is_on_record_when_it_has_ended(
    stage: Stage, play: Callable[..., list[Any]]
) -> None:
    found = play(*[("speaks", {"n": n}) for n in range(20)], *[("quick", {"n": 1})] * 20)

    assert found[:20] == [None] * 20
    spoke = [each for each in stage.app.jobs.list(limit=100).jobs if each.definition_key == "speaks"]
    said = {each.params["n"]: [line.message for line in stage.app.jobs.logs(each.id)] for each in spoke}
    assert said == {n: [f"number {n}", f"again {n}"] for n in range(20)}
