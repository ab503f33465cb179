"""Reading jobs, listing them, waiting for them, cancelling them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from penstock import Conflict, InvalidInput, Job, JobFailed, NotFound, Penstock, Status, WaitTimeout
from penstock.domain.outcome import Failure
from tests.definitions import shapes
from tests.operations.hand import Hand

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
BROKEN = Failure("ValueError", "no such address", "Traceback …", "fingerprint")


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], object]], Any]]:
    """Runs something in another thread; what it raises is raised at the end of the test."""
    with ThreadPoolExecutor(1) as pool:
        begun = []

        def run(call: Callable[[], object]) -> Any:
            begun.append(pool.submit(call))
            return begun[-1]

        yield run
        for each in begun:
            each.result()


def test_get_reads_a_job_by_its_id_however_it_is_written(app: Penstock) -> None:
    made = app.job("work")(shapes.plain).enqueue("a")

    found = app.get(made.id.upper())

    assert (found.id, found.created, found.status) == (made.id, False, Status.QUEUED)
    assert found.job.params == {"to": "a"}


async def test_a_job_that_is_not_there_is_not_found_by_any_call(app: Penstock) -> None:
    calls = (app.get, app.jobs.read, app.jobs.wait, app.jobs.cancel)
    async_calls = (app.aget, app.jobs.aread, app.jobs.awaited, app.jobs.acancel)

    for call in calls:
        with pytest.raises(NotFound, match=f"There is no job '{UNKNOWN}'. It never was, or retention"):
            call(UNKNOWN)
    for async_call in async_calls:
        with pytest.raises(NotFound, match=UNKNOWN):
            await async_call(UNKNOWN)
    await app.aclose()


@pytest.mark.parametrize("wrong", ["", "5", None, 5, UNKNOWN + "0", "ä" * 36])
def test_what_is_no_id_is_refused(memory_app: Penstock, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="id"):
        memory_app.get(wrong)


def test_a_handle_keeps_what_was_read_until_it_is_refreshed(app: Penstock) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")
    before = handle.job

    Hand(app).succeed(handle.id, '"done"')

    assert handle.job is before
    assert str(handle.status) == "queued"
    assert handle.refresh().status is Status.SUCCEEDED
    assert str(handle.status) == "succeeded"


def test_wait_gives_the_job_when_another_thread_has_ended_it(app: Penstock, elsewhere: Any) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")
    hand = Hand(app)

    elsewhere(lambda: hand.succeed(handle.id, '"done"'))
    job = handle.wait(timeout=20)

    assert (job.status, job.result) == (Status.SUCCEEDED, "done")


async def test_waiting_in_the_event_loop_lets_others_run(app: Penstock) -> None:
    handle: Any = await app.job("work")(shapes.plain).aenqueue("a")
    hand = await asyncio.to_thread(lambda: Hand(app))

    waiter = asyncio.create_task(handle.aresult(timeout=20))
    await asyncio.to_thread(hand.succeed, handle.id, '{"n": 1}')

    assert await waiter == {"n": 1}
    assert handle.status is Status.SUCCEEDED
    await app.aclose()


@pytest.mark.parametrize(("text", "value"), [(None, None), ("null", None), ("[1, 2]", [1, 2]), ('"ä"', "ä")])
def test_result_is_what_the_handler_returned(memory_app: Penstock, text: str | None, value: object) -> None:
    handle: Any = memory_app.job("work")(shapes.plain).enqueue("a")

    Hand(memory_app).succeed(handle.id, text)

    assert handle.result(timeout=0) == value


async def test_the_result_of_a_failed_job_is_an_error_that_says_why(app: Penstock) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")
    Hand(app).fail(handle.id, BROKEN)

    with pytest.raises(JobFailed) as raised:
        handle.result()
    with pytest.raises(JobFailed, match="no such address"):
        await handle.aresult()

    assert str(raised.value) == f"Job {handle.id} of 'work' ended as failed: ValueError: no such address"
    assert (raised.value.job_id, raised.value.status) == (handle.id, "failed")
    assert handle.wait().status is Status.FAILED
    await app.aclose()


def test_the_result_of_a_cancelled_job_is_an_error(app: Penstock) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")
    handle.cancel()

    with pytest.raises(JobFailed, match="ended as cancelled") as raised:
        handle.result()

    assert raised.value.status == "cancelled"


@pytest.mark.parametrize("timeout", [0, 0.05, timedelta(milliseconds=50)])
def test_waiting_ends_when_the_time_is_over_and_the_job_goes_on(app: Penstock, timeout: Any) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")

    with pytest.raises(WaitTimeout, match=r"is still queued after 0(\.05)? s\. It goes on") as raised:
        handle.result(timeout=timeout)

    assert isinstance(raised.value, TimeoutError)
    assert handle.refresh().status is Status.QUEUED


async def test_waiting_in_the_event_loop_ends_when_the_time_is_over(app: Penstock) -> None:
    handle = await app.job("work")(shapes.plain).aenqueue("a")

    with pytest.raises(WaitTimeout):
        await handle.awaited(timeout=0.05)

    await app.aclose()


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
def test_a_timeout_that_is_none_is_refused(memory_app: Penstock, timeout: Any) -> None:
    handle = memory_app.job("work")(shapes.plain).enqueue("a")

    with pytest.raises(InvalidInput, match="timeout must be"):
        handle.wait(timeout)


async def test_cancel_tells_the_status_that_the_job_has_now(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    running = work.enqueue("c")
    hand = Hand(app)
    claimed = hand.claim_one(running.id)
    waiting, later = work.enqueue("a"), work.options(delay=60).enqueue("b")

    assert waiting.cancel() is Status.CANCELLED
    assert await later.acancel() is Status.CANCELLED
    assert running.cancel() is Status.CANCELLING
    assert running.status is Status.CANCELLING
    with pytest.raises(Conflict):
        waiting.cancel()
    assert claimed.job_id == running.id
    await app.aclose()


def test_an_ended_job_cannot_be_cancelled_and_keeps_its_status(app: Penstock) -> None:
    handle = app.job("work")(shapes.plain).enqueue("a")
    Hand(app).succeed(handle.id)

    with pytest.raises(Conflict, match=f"Job {handle.id} has ended as succeeded") as raised:
        handle.cancel()

    assert raised.value.job_id == handle.id
    assert handle.refresh().status is Status.SUCCEEDED


def test_jobs_are_listed_by_filters(app: Penstock) -> None:
    work, other = app.job("work")(shapes.plain), app.job("other")(shapes.login)
    parent = work.enqueue("parent")
    tagged = work.options(tags=["x"], reference=("order", "7"), parent_id=parent.id).enqueue("a")
    late = work.options(delay=60).enqueue("b")
    foreign = other.enqueue("ada", 1)

    def ids(**which: Any) -> set[str]:
        return {job.id for job in app.jobs.list(**which).jobs}

    everything = {parent.id, tagged.id, late.id, foreign.id}
    assert ids() == everything
    assert ids(status="scheduled") == {late.id}
    assert ids(status=[Status.SCHEDULED, "queued"]) == everything
    assert ids(definition_key="other") == {foreign.id}
    assert ids(tag="x") == {tagged.id}
    assert ids(reference_type="order", reference_id="7") == {tagged.id}
    assert ids(parent_id=parent.id.upper()) == {tagged.id}
    assert ids(job_id=[parent.id, late.id]) == {parent.id, late.id}
    assert ids(created_from=parent.refresh().created_at, created_to=None) == everything
    assert ids(created_to=parent.refresh().created_at - timedelta(days=1)) == set()
    assert ids(definition_key="other", tag="x") == set()


def test_pages_follow_each_other(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    made = [handle.id for handle in app.enqueue_many([work.order(str(number)) for number in range(5)])]

    first = app.jobs.list(limit=2, sort="createdAt")
    second = app.jobs.list(limit=2, sort="createdAt", cursor=first.next_cursor)
    last = app.jobs.list(limit=2, sort="createdAt", cursor=second.next_cursor)

    assert [job.id for page in (first, second, last) for job in page.jobs] == made
    assert last.next_cursor is None


async def test_iterating_follows_the_pages(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    made = [handle.id for handle in app.enqueue_many([work.order(str(number)) for number in range(450)])]
    work.options(delay=60).enqueue("late")

    found = [job.id for job in app.jobs.iterate(status="queued", sort="createdAt")]
    backwards = [job.id async for job in app.jobs.aiterate(status="queued")]

    assert found == made
    assert backwards == made[::-1]
    await app.aclose()


@pytest.mark.parametrize(
    ("which", "problem"),
    [
        ({"statuses": ["failed"]}, "'statuses' is not a filter of jobs. Did you mean 'status'"),
        ({"status": "broken"}, "'broken' is not a status. Statuses: scheduled, queued"),
        ({"status": []}, "needs at least one status"),
        ({"status": [5]}, "5 is not a status"),
        ({"reference_id": "7"}, "needs the reference_type"),
        ({"job_id": ["7"]}, "'7' is not an id"),
        ({"parent_id": 7}, "An id is a text"),
        ({"tag": 5}, "tag must be a text"),
        ({"definition_key": ""}, "definition_key must have 1 to 500"),
        ({"created_from": "yesterday"}, "created_from must be a datetime"),
        ({"sort": "colour"}, "colour"),
        ({"limit": 0}, "1 to 500 jobs, not 0"),
        ({"limit": "5"}, "limit must be an integer"),
        ({"cursor": "nonsense"}, "cursor"),
    ],
)
def test_a_filter_that_is_wrong_is_refused(memory_app: Penstock, which: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        memory_app.jobs.list(**which)


def test_a_job_can_be_read_by_another_application_on_the_same_store(new_app: Any) -> None:
    handle = new_app().job("work")(shapes.plain).enqueue("a")

    job: Job = new_app().get(handle.id).job

    assert job.params == {"to": "a"}
