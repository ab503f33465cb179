"""drain: all that is due is run, as a worker would run it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from penstock import Conflict, Context, Fail, NeedsReview, Penstock, RateLimit, Retry, Snooze
from penstock.testing import TestApp


def test_a_job_is_run_in_the_thread_of_the_test(app: Penstock, kit: TestApp) -> None:
    threads: list[threading.Thread] = []

    @app.job("work")
    def work(name: str) -> str:
        threads.append(threading.current_thread())
        return f"hello {name}"

    job = work.enqueue("ada")
    drained = kit.drain()

    assert [each.id for each in drained.succeeded] == [job.id]
    assert job.result(0) == "hello ada"
    assert threads == [threading.current_thread()]
    assert (drained.attempts, drained.more, drained.waiting) == (1, False, ())


def test_nothing_to_do_is_nothing_done(kit: TestApp) -> None:
    drained = kit.drain()

    assert (drained.attempts, drained.succeeded, drained.waiting) == (0, (), ())


def test_coroutines_are_run_in_a_loop_of_their_own(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    job = work.enqueue(1)
    kit.drain()

    assert job.result(0) == 2


async def test_an_async_test_has_jobs_run_in_another_thread(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    job = await work.aenqueue()
    with pytest.raises(Conflict, match=r"await kit\.adrain\(\)"):
        kit.drain()
    drained = await kit.adrain()

    assert len(drained.succeeded) == 1
    assert await job.aresult(0) == "done"


def test_inline_definitions_are_run_too(app: Penstock, kit: TestApp) -> None:
    @app.job("work", isolation="inline")
    async def work() -> int:
        return len(app.jobs.list().jobs)

    job = work.enqueue()
    kit.drain()

    assert job.result(0) == 1


def test_jobs_are_run_in_the_order_of_their_priority(app: Penstock, kit: TestApp) -> None:
    ran: list[str] = []

    @app.job("work")
    def work(name: str) -> None:
        ran.append(name)

    for name, priority in (("low", 1), ("high", 20), ("middle", 10), ("second middle", 10)):
        work.options(priority=priority).enqueue(name)
    drained = kit.drain()

    assert ran == ["high", "middle", "second middle", "low"]
    assert len(drained.succeeded) == 4


def test_a_failing_job_is_tried_again_when_its_time_has_come(app: Penstock, kit: TestApp) -> None:
    @app.job("work", max_attempts=3, backoff=[5, 60])
    def work() -> None:
        raise ValueError("never")

    job = work.enqueue()
    first = kit.drain()
    assert (first.attempts, first.failed) == (1, ())
    assert [(each.id, each.status) for each in first.waiting] == [(job.id, "scheduled")]
    kit.advance(5)
    assert kit.drain().attempts == 1
    kit.advance(59)
    assert kit.drain().attempts == 0
    kit.advance(1)
    last = kit.drain()

    assert [(each.id, each.error_type, each.error) for each in last.failed] == [(job.id, "ValueError", "never")]
    assert [each.cause for each in app.jobs.attempts(job.id)] == ["raised"] * 3
    assert "never" in (app.jobs.attempts(job.id)[0].traceback or "")


def test_retries_without_a_pause_are_made_at_once(app: Penstock, kit: TestApp) -> None:
    @app.job("work", max_attempts=4, backoff=0)
    def work(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise Retry(after=0) if ctx.attempt == 1 else ValueError("not yet")
        return ctx.attempt

    job = work.enqueue()
    drained = kit.drain()

    assert (drained.attempts, len(drained.succeeded)) == (3, 1)
    assert job.result(0) == 3


def test_the_default_pause_has_no_chance_in_it(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    def work() -> None:
        raise ValueError("never")

    work.enqueue()
    kit.drain()
    kit.advance(5)

    assert kit.drain().attempts == 1


def test_what_a_handler_may_raise_means_what_it_means_to_a_worker(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    def work(what: str) -> Any:
        match what:
            case "fail":
                raise Fail("give up")
            case "snooze":
                raise Snooze(30)
            case "review":
                raise NeedsReview("really?", {"sum": 7})
            case _:
                raise SystemExit(3)

    jobs = {what: work.enqueue(what) for what in ("fail", "snooze", "review", "exit")}
    drained = kit.drain()

    assert [each.id for each in drained.failed] == [jobs["fail"].id]
    assert [each.id for each in drained.review_needed] == [jobs["review"].id]
    assert {each.id for each in drained.waiting} == {jobs["snooze"].id, jobs["exit"].id}
    jobs["review"].approve(result={"sum": 8})
    assert jobs["review"].result(0) == {"sum": 8}
    kit.advance(30)
    assert jobs["snooze"].refresh().status == "queued"
    assert jobs["snooze"].job.attempts == 0


def test_a_job_that_is_cancelled_while_it_runs_ends_so(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    def work(ctx: Context) -> None:
        app.jobs.cancel(ctx.job_id)

    job = work.enqueue()
    drained = kit.drain()

    assert [each.id for each in drained.cancelled] == [job.id]


def test_jobs_that_jobs_create_are_run_and_not_created_twice(app: Penstock, kit: TestApp) -> None:
    @app.job("child")
    def child(number: int) -> int:
        return number

    @app.job("parent", backoff=0)
    def parent(ctx: Context) -> list[str]:
        made = [child.enqueue(1).id, app.enqueue("child", {"number": 2}).id, ctx.enqueue(child, {"number": 3}).id]
        if ctx.attempt == 1:
            raise ValueError("once more")
        return made

    job = parent.enqueue()
    drained = kit.drain()

    children = kit.jobs(child)
    assert [each.result for each in children] == [1, 2, 3]
    assert {each.parent_id for each in children} == {job.id}
    assert job.result(0) == [each.id for each in children]
    assert len(drained.succeeded) == 4


def test_inside_a_job_there_is_no_store(app: Penstock, kit: TestApp) -> None:
    @app.job("work", max_attempts=1)
    def work() -> None:
        app.jobs.list()

    job = work.enqueue()
    kit.drain()

    assert "app.jobs.list is not possible inside a job" in (job.job.error or "")
    assert len(app.jobs.list().jobs) == 1


def test_a_job_that_asks_for_itself_ends_at_the_limit(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    def work(number: int) -> None:
        work.enqueue(number + 1)

    work.enqueue(0)
    drained = kit.drain(limit=5)

    assert (drained.attempts, drained.more, len(drained.succeeded), len(drained.waiting)) == (5, True, 5, 1)
    assert kit.drain(limit=0).attempts == 0


def test_the_last_one_allowed_may_be_the_last_one_there_is(app: Penstock, kit: TestApp) -> None:
    app.job("work")(_nothing).enqueue()

    drained = kit.drain(limit=1)

    assert (drained.attempts, drained.more) == (1, False)


def test_what_is_paused_or_limited_waits(app: Penstock, kit: TestApp) -> None:
    paused = app.job("paused")(_nothing)
    rated = app.job("rated", rate_limit=RateLimit(1, 60))(_nothing_else)
    other = app.job("other", priority=1)(_nothing_more)
    app.definitions.register()
    app.definitions.pause("paused", "not today")
    waiting = paused.enqueue()
    first, second = rated.enqueue(), rated.enqueue()
    third = other.enqueue()

    drained = kit.drain()

    assert {each.id for each in drained.succeeded} == {first.id, third.id}
    assert {each.id for each in drained.waiting} == {waiting.id, second.id}
    kit.advance(60)
    assert [each.id for each in kit.drain().succeeded] == [second.id]


def test_a_key_whose_rate_is_used_up_does_not_hold_up_the_others(app: Penstock, kit: TestApp) -> None:
    ran: list[str] = []

    @app.job("work", concurrency_key="customer", key_concurrency=9, rate_limit=RateLimit(1, 60, per_key=True))
    def work(customer: str) -> None:
        ran.append(customer)

    for customer in ("a", "a", "a", "b"):
        work.enqueue(customer)
    kit.drain()
    assert ran == ["a", "b"]
    kit.advance(60)
    kit.drain()

    assert ran == ["a", "b", "a"]


def test_jobs_of_one_key_are_run_one_after_the_other(app: Penstock, kit: TestApp) -> None:
    @app.job("work", concurrency_key="customer", concurrency=1)
    def work(customer: str) -> None: ...

    for customer in ("a", "a", "b", "a"):
        work.enqueue(customer)

    assert len(kit.drain().succeeded) == 4


def test_what_a_handler_says_is_kept(app: Penstock, kit: TestApp) -> None:
    @app.job("work", secret=["password"])
    def work(ctx: Context, password: str) -> None:
        ctx.progress(40, "nearly half")
        ctx.logger.info("logged in with %s", password)
        logging.getLogger("elsewhere").warning("hot")
        logging.getLogger("elsewhere").debug("too quiet")
        ctx.emit_event("order.shipped", {"order": 7})
        raise Fail(f"wrong password {password}")

    level = logging.getLogger().level
    job = work.enqueue("geheimnis")
    kit.drain()

    assert [(line.level, line.message, line.phase) for line in app.jobs.logs(job.id)] == [
        ("info", "logged in with ***", "run"),
        ("warning", "hot", "run"),
    ]
    assert (job.job.progress, job.job.progress_message) == (40, "nearly half")
    assert job.job.error == "wrong password ***"
    (own,) = app.events.follow(job_id=job.id, type="order.*", timeout=0)
    assert own.data == {"order": 7}
    assert logging.getLogger().level == level


def test_the_context_knows_what_a_worker_would_say(app: Penstock) -> None:
    seen: dict[str, Any] = {}

    @app.job("work")
    def work(ctx: Context, name: str) -> None:
        names = ("job_id", "definition", "params", "reference", "tags", "attempt", "max_attempts", "settings")
        seen.update({each: getattr(ctx, each) for each in names})

    with TestApp(app, settings={"region": "eu"}) as kit:
        job = work.options(reference=("order", "7"), tags=["new"]).enqueue("ada")
        kit.drain()

    assert seen == {
        "job_id": job.id,
        "definition": "work",
        "params": {"name": "ada"},
        "reference": ("order", "7"),
        "tags": ("new",),
        "attempt": 1,
        "max_attempts": 3,
        "settings": {"region": "eu"},
    }


def test_resources_are_opened_for_an_attempt_and_closed_behind_it(app: Penstock, kit: TestApp) -> None:
    told: list[str] = []

    @app.resource("db")
    def connect() -> Any:
        told.append("opened")
        yield "connection"
        told.append("closed")

    @app.job("work")
    def work(ctx: Context) -> Any:
        told.append("used")
        return ctx.resources["db"]

    job = work.enqueue()
    work.enqueue()
    kit.drain()

    assert job.result(0) == "connection"
    assert told == ["used", "opened", "closed"] * 2


def _nothing() -> None: ...


def _nothing_else() -> None: ...


def _nothing_more() -> None: ...
