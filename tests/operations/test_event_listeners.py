"""on: functions of this process that are called with events."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Conflict, InvalidInput, Penstock, StoreUnavailable
from penstock.domain.context import RequestingJob
from penstock.domain.event import Event
from penstock.domain.instant import DAY
from penstock.domain.plan import Plan
from penstock.operations.event_listeners import Follower
from penstock.operations.job_requests import StoreErrands
from penstock.storage.commands import feed
from tests.applications import NewApp
from tests.definitions import shapes
from tests.operations.hand import Hand
from tests.waiting import wait_until, wait_until_async

THREAD = "penstock-listeners"
PATIENCE = 60.0


class Heard:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.threads: set[str] = set()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)

    def kinds(self) -> list[str]:
        return [event.type for event in self.events]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    wait_until(lambda: not _threads(), "the thread of the listeners has ended")


def test_a_listener_hears_what_happens_from_now_on(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    work.enqueue("before")
    heard = Heard()

    app.on("job.enqueued", heard)
    job = work.enqueue("after")

    wait_until(lambda: heard.events, "the listener was called")
    assert [(event.type, event.job_id) for event in heard.events] == [("job.enqueued", job.id)]
    assert heard.threads == {THREAD}
    app.close()


def test_a_listener_hears_what_other_processes_do(new_app: NewApp) -> None:
    here, there = new_app(), new_app()
    work = there.job("work")(shapes.plain)
    heard = Heard()
    here.on("job.*", heard)

    job = work.enqueue("ada")
    Hand(there).succeed(job.id)

    wait_until(lambda: len(heard.events) == 3, "all was heard")
    assert heard.kinds() == ["job.enqueued", "job.started", "job.succeeded"]
    here.close()


def test_each_listener_hears_the_kinds_it_asked_for(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    ended, jobs, everything, workers = Heard(), Heard(), Heard(), Heard()
    for kind, heard in (("job.cancelled", ended), ("job.*", jobs), ("*", everything), ("worker.*", workers)):
        memory_app.on(kind, heard)

    job = work.enqueue("ada")
    hand = Hand(memory_app)
    job.cancel()

    wait_until(lambda: len(everything.events) == 3, "all was heard")
    assert ended.kinds() == ["job.cancelled"]
    assert jobs.kinds() == ["job.enqueued", "job.cancelled"]
    assert [event.subject for event in workers.events] == [hand.id]
    memory_app.close()


def test_a_listener_that_was_taken_back_hears_no_more(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    first, second = Heard(), Heard()
    stop = memory_app.on("*", first)
    memory_app.on("*", second)
    work.enqueue("ada")
    wait_until(lambda: first.events and second.events, "both have heard it")

    stop()
    stop()
    work.enqueue("bob")

    wait_until(lambda: len(second.events) == 2, "the other one has heard it")
    assert len(first.events) == 1
    memory_app.close()


def test_the_thread_ends_with_the_last_listener_and_begins_anew(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    stop = memory_app.on("*", Heard())
    stop()
    wait_until(lambda: not _threads(), "the thread has ended")
    work.enqueue("unheard")
    heard = Heard()

    memory_app.on("*", heard)
    job = work.enqueue("ada")

    wait_until(lambda: heard.events, "the new listener was called")
    assert [event.job_id for event in heard.events] == [job.id]
    memory_app.close()


def test_a_listener_may_take_itself_back(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    heard = Heard()

    def once(event: Event) -> None:
        heard(event)
        stop()

    stop = memory_app.on("*", once)
    work.enqueue("ada")
    wait_until(lambda: not _threads(), "the thread has ended")
    work.enqueue("bob")

    assert len(heard.events) == 1


def test_what_a_listener_raises_is_logged_and_keeps_nothing_from_the_others(
    memory_app: Penstock, caplog: pytest.LogCaptureFixture
) -> None:
    work = memory_app.job("work")(shapes.plain)
    heard = Heard()

    def fail(event: Event) -> None:
        raise RuntimeError("not today")

    memory_app.on("*", fail)
    memory_app.on("*", heard)
    work.enqueue("ada")
    work.enqueue("bob")

    wait_until(lambda: len(heard.events) == 2, "the other listener was called twice")
    memory_app.close()
    records = [record for record in caplog.records if record.name == "penstock.listeners"]
    assert [record.levelno for record in records] == [logging.ERROR] * 2
    assert "not today" in caplog.text


def test_a_listener_may_use_the_application(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    seen: list[object] = []

    def look(event: Event) -> None:
        assert event.job_id is not None
        seen.append(app.read_job(event.job_id).params["to"])

    app.on("job.enqueued", look)
    work.enqueue("ada")

    wait_until(lambda: seen, "the listener has read the job")
    assert seen == ["ada"]
    app.close()


def test_closing_the_application_ends_all_listening(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    heard = Heard()
    stop = app.on("*", heard)

    app.close()

    assert _threads() == []
    stop()
    work.enqueue("ada")
    app.close()
    assert heard.events == []


async def test_closing_in_an_event_loop_ends_all_listening(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    heard = Heard()
    app.on("*", heard)
    await work.aenqueue("ada")
    await wait_until_async(lambda: heard.events, "the listener was called")

    await app.aclose()

    assert _threads() == []


def test_a_store_that_is_away_for_a_while_loses_no_event(
    memory_app: Penstock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = memory_app.job("work")(shapes.plain)
    work.enqueue("before")
    heard = Heard()
    memory_app.on("*", heard)
    run, failed = memory_app.store.run, threading.Event()
    away = True

    def unreliable(plan: Plan[Any], **more: Any) -> Any:
        if away and threading.current_thread().name == THREAD:
            failed.set()
            raise StoreUnavailable("gone for lunch")
        return run(plan, **more)

    monkeypatch.setattr(memory_app.store, "run", unreliable)
    job = work.enqueue("ada")
    assert failed.wait(10)
    assert heard.events == []
    away = False

    wait_until(lambda: heard.events, "the listener was called")
    assert [event.job_id for event in heard.events] == [job.id]
    assert "the store does not answer: gone for lunch" in caplog.text
    memory_app.close()


def test_listeners_that_missed_events_are_told_so_in_the_log_and_hear_what_follows(
    app: Penstock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = app.job("work")(shapes.plain)
    heard, free = Heard(), threading.Event()
    log, last = logging.getLogger("penstock.listeners"), []

    def slow(event: Event) -> None:
        heard(event)
        free.wait(PATIENCE)

    def enqueue_last(record: logging.LogRecord) -> bool:
        last.append(work.enqueue("eve").id)
        return True

    app.on("job.*", slow)
    first = work.enqueue("ada")
    wait_until(lambda: heard.events, "the first event was heard", PATIENCE)
    missed = work.enqueue("bob")
    made_at = missed.job.created_at
    missed.cancel()
    app.delete_job(missed.id)
    assert app.store.run(feed.prune(0), now=int(made_at.timestamp() * 1e6) + DAY) == 3
    monkeypatch.setattr(log, "filters", [*log.filters, enqueue_last])
    free.set()

    wait_until(lambda: len(heard.events) == 2, "the event after the line in the log was heard", PATIENCE)
    assert "Listeners have missed events" in caplog.text
    assert [event.job_id for event in heard.events] == [first.id, *last]
    app.close()


def test_a_forked_child_hears_nothing_until_it_listens_itself(new_app: NewApp) -> None:
    app = new_app()
    work = app.job("work")(shapes.plain)
    parent = Heard()
    app.on("job.enqueued", parent)
    work.enqueue("before")
    wait_until(lambda: parent.events, "the parent has heard it")

    child = os.fork()
    if not child:
        code = 1
        try:
            heard = Heard()
            app.on("job.enqueued", heard)
            work.enqueue("in the child")
            wait_until(lambda: heard.events, "the child has heard it")
            app.close()
            code = 0 if len(heard.events) == 1 and len(parent.events) == 1 else 2
        finally:
            os._exit(code)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    wait_until(lambda: len(parent.events) == 2, "the parent goes on listening")
    app.close()


@pytest.mark.parametrize("kind", ["job.fail", "job.fail*", "", None, "jobs*"])
def test_a_kind_that_never_comes_is_refused(memory_app: Penstock, kind: Any) -> None:
    with pytest.raises(InvalidInput):
        memory_app.on(kind, Heard())


async def later(event: Event) -> None: ...


@pytest.mark.parametrize("function", [None, 5, later])
def test_what_cannot_be_called_is_refused(memory_app: Penstock, function: Any) -> None:
    with pytest.raises(InvalidInput, match="A listener is a plain function"):
        memory_app.on("*", function)


def test_inside_a_job_nobody_listens(memory_app: Penstock) -> None:
    memory_app.enter_job(StoreErrands(Penstock("sqlite://")).of(RequestingJob("", "asking", None, "own")))

    with pytest.raises(Conflict, match=r"app\.on is not possible inside a job"):
        memory_app.on("*", Heard())
    with pytest.raises(Conflict, match=r"app\.events is not possible inside a job"):
        memory_app.events()

    memory_app.leave_job()


def _threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD]


def test_who_goes_on_in_the_middle_of_a_page_tells_no_event_twice(memory_app: Penstock) -> None:
    work = memory_app.job("work")(shapes.plain)
    cursor = memory_app.store.run(feed.tip())
    jobs = [work.enqueue(str(each)) for each in range(5)]
    told: list[str | None] = []

    def hear(event: Event) -> None:
        told.append(event.job_id)
        first.stop()

    first = Follower(memory_app.store, cursor, hear)
    first._read()
    assert told == [jobs[0].id], "it was stopped while it told the first one"
    second = Follower(memory_app.store, first.cursor, lambda event: told.append(event.job_id))
    second._read()

    for each in (first, second):
        each._loop.close()
    assert told == [job.id for job in jobs]
