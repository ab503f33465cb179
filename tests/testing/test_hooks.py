"""Hooks and listeners under the test kit: called by drain, in the thread of the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock import Context, Fail, Penstock
from penstock.domain.event import Event
from penstock.testing import TestApp
from tests.waiting import wait_until


def test_hooks_are_called_after_the_state_is_saved(app: Penstock, kit: TestApp) -> None:
    called: list[str] = []

    def hook(name: str) -> Callable[[Context], None]:
        return lambda ctx: called.append(f"{name} {ctx.attempt} {app.jobs.read(ctx.job_id).status}")

    def failed(ctx: Context, error: str) -> None:
        called.append(f"fail {error} {app.jobs.read(ctx.job_id).status}")

    @app.job(
        "work", backoff=0, max_attempts=2, on_start=hook("start"), on_retry=hook("retry"), on_success=hook("success"),
        on_fail=failed, on_end=hook("end"), on_cancel=hook("cancel"),
    )  # fmt: skip
    def work(what: str) -> None:
        called.append(what)
        if what == "fail":
            raise ValueError("no luck")

    work.enqueue("fine")
    kit.drain()
    assert called == ["start 1 running", "fine", "success 1 succeeded", "end 1 succeeded"]

    called.clear()
    work.enqueue("fail")
    kit.drain()
    assert called == [
        "start 1 running", "fail", "retry 1 scheduled",
        "start 2 running", "fail", "fail no luck failed", "end 2 failed",
    ]  # fmt: skip

    called.clear()
    work.options(delay=60).enqueue("never").cancel()
    kit.drain()
    assert called == ["cancel 0 cancelled", "end 0 cancelled"]


def test_async_hooks_are_run(app: Penstock, kit: TestApp) -> None:
    called: list[str] = []

    async def succeeded(ctx: Context) -> None:
        called.append(ctx.job_id)

    @app.job("work", on_success=succeeded)
    def work() -> None: ...

    job = work.enqueue()
    kit.drain()

    assert called == [job.id]


def test_what_a_hook_raises_is_logged_and_changes_nothing(
    app: Penstock, kit: TestApp, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(ctx: Context) -> None:
        raise RuntimeError("broken hook")

    @app.job("work", on_start=broken, on_success=broken)
    def work() -> str:
        return "done"

    job = work.enqueue()
    drained = kit.drain()

    assert [each.id for each in drained.succeeded] == [job.id]
    assert f"on_start of work for job {job.id} failed: RuntimeError: broken hook" in caplog.text
    assert f"on_success of work for job {job.id} failed: RuntimeError: broken hook" in caplog.text


def test_listeners_hear_of_it_before_drain_returns(app: Penstock, kit: TestApp) -> None:
    @app.job("work")
    def work() -> None:
        raise Fail("no")

    heard: list[Event] = []
    stop = app.on("job.failed", heard.append)
    job = work.enqueue()
    kit.drain()
    stop()
    work.enqueue()
    kit.drain()

    assert [event.job_id for event in heard] == [job.id]


def test_listeners_of_before_hear_what_the_kit_does_and_those_of_the_kit_leave_with_it(app: Penstock) -> None:
    @app.job("work")
    def work() -> None: ...

    before: list[str] = []
    inside: list[str] = []
    app.on("job.succeeded", lambda event: before.append(event.type))
    with TestApp(app) as kit:
        app.on("job.*", lambda event: inside.append(event.type))
        work.enqueue()
        kit.drain()
    assert (before, inside) == (["job.succeeded"], ["job.enqueued", "job.started", "job.succeeded"])

    with TestApp(app) as kit:
        work.enqueue()
        kit.drain()
    assert (len(before), len(inside)) == (2, 3)


def test_listeners_of_before_go_on_where_they_were_afterwards(app: Penstock) -> None:
    @app.job("work")
    def work() -> None: ...

    heard: list[str | None] = []
    app.on("job.enqueued", lambda event: heard.append(event.job_id))
    with TestApp(app) as kit:
        inside = work.enqueue()
        # Another application on the same store, as in another process.
        other = Penstock(**dict(app.address or {}))
        meanwhile = other.job("work")(_nothing).enqueue()
        other.close()
        kit.drain()
        assert heard == [inside.id]
    after = work.enqueue()

    wait_until(lambda: len(heard) == 3, "what happened on the store itself was heard")
    assert heard == [inside.id, meanwhile.id, after.id]


def _nothing() -> None: ...
