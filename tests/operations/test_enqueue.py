"""enqueue: what a created job has, and when the same job is given back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Conflict, IdempotencyConflict, InvalidInput, JobHandle, Penstock, Status
from penstock.storage.commands import control
from tests.definitions import shapes
from tests.operations.hand import Hand


def test_a_job_is_there_when_enqueue_returns(app: Penstock) -> None:
    work = app.job("work", priority=12, max_attempts=4)(shapes.plain)

    handle = work.enqueue("ada", copies=2)

    job = app.get(handle.id).job
    assert (handle.created, handle.status) == (True, Status.QUEUED)
    assert (job.definition_key, job.definition_version, job.params) == ("work", 1, {"to": "ada", "copies": 2})
    assert (job.priority, job.max_attempts, job.status) == (12, 4, Status.QUEUED)


async def test_the_async_twin_makes_the_same(app: Penstock) -> None:
    work = app.job("work")(shapes.asynchronous)

    handle = await work.options(priority=3, tags=["a"]).aenqueue("ada")

    job = (await app.aget(handle.id)).job
    assert (job.params, job.priority, job.tags) == ({"to": "ada"}, 3, ("a",))
    await app.aclose()


def test_every_option_is_kept_with_the_job(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    parent = work.enqueue("parent")

    handle = work.options(
        delay=timedelta(hours=1),
        priority=20,
        max_attempts=9,
        idempotency_key="order-7",
        unique="seven",
        concurrency_key="ada",
        reference=("order", "7"),
        tags=["a", "b", "a"],
        webhook_url="https://example.com/hook",
        parent_id=parent.id.upper(),
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ).enqueue("ada")

    job = handle.refresh()
    assert (job.status, job.priority, job.max_attempts) == (Status.SCHEDULED, 20, 9)
    assert (job.idempotency_key, job.unique, job.concurrency_key) == ("order-7", "seven", "ada")
    assert (job.reference_type, job.reference_id, job.tags) == ("order", "7", ("a", "b"))
    assert (job.webhook_url, job.parent_id) == ("https://example.com/hook", parent.id)
    assert timedelta(minutes=59) < job.run_at - job.created_at <= timedelta(hours=1)


def test_options_given_in_turn_add_up(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    job = work.options(tags=["a"], priority=3).options(priority=4, reference=("order", "7")).enqueue("x").job

    assert (job.tags, job.priority, job.reference_id) == (("a",), 4, "7")


def test_the_texts_of_options_may_hold_anything_a_database_can_keep(app: Penstock) -> None:
    odd = "ä\\\"'{}%s\n\t\x01\U0001f600" + "x" * 485

    work = app.job("work")(shapes.plain)
    job = work.options(idempotency_key=odd[:500], reference=(odd, odd), tags=[odd], unique=odd).enqueue(odd).refresh()

    assert (job.idempotency_key, job.reference_type, job.reference_id, job.tags) == (odd[:500], odd, odd, (odd,))
    assert job.params == {"to": odd}
    assert [each.id for each in app.jobs(tag=odd, reference_type=odd, reference_id=odd).jobs] == [job.id]


def test_a_time_makes_it_due_then(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    at = datetime(2100, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

    later = work.options(run_at=at).enqueue("a")
    past = work.options(run_at=datetime(2001, 1, 1, tzinfo=UTC)).enqueue("b")

    assert (later.status, later.refresh().run_at) == (Status.SCHEDULED, at)
    assert past.status is Status.QUEUED


def test_many_are_created_with_one_call_in_their_order(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    other = app.job("other")(shapes.login)

    handles = app.enqueue_many([work.order("a"), other.order("b", 1), work.options(delay=60).order("c")])

    assert [handle.refresh().definition_key for handle in handles] == ["work", "other", "work"]
    assert [handle.status for handle in handles] == [Status.QUEUED, Status.QUEUED, Status.SCHEDULED]
    assert app.enqueue_many([]) == []


async def test_many_are_created_with_one_async_call(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    handles = await app.aenqueue_many([work.order(str(number)) for number in range(300)])

    page = [job.params["to"] async for job in app.aiter_jobs(sort="createdAt")]
    assert [handle.created for handle in handles] == [True] * 300
    assert page == [str(number) for number in range(300)]
    await app.aclose()


def test_many_are_all_created_or_none(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    work.options(idempotency_key="k").enqueue("other")

    with pytest.raises(IdempotencyConflict):
        app.enqueue_many([work.order("a"), work.options(idempotency_key="k").order("b")])

    assert len(app.jobs().jobs) == 1


def test_the_same_key_with_the_same_parameters_gives_the_same_job(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    first = work.options(idempotency_key="k").enqueue("ada", copies=2)
    again = work.options(idempotency_key="k").enqueue(copies=2, to="ada")
    by_name = app.enqueue("work", {"copies": 2, "to": "ada"}, idempotency_key="k")

    assert (first.created, again.created, by_name.created) == (True, False, False)
    assert first.id == again.id == by_name.id
    assert len(app.jobs().jobs) == 1


def test_the_same_key_with_other_parameters_is_a_conflict_that_names_the_job(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    first = work.options(idempotency_key="k").enqueue("ada")

    with pytest.raises(IdempotencyConflict, match="'k' belongs to job") as raised:
        work.options(idempotency_key="k").enqueue("bob")

    assert raised.value.job_id == first.id
    assert first.id in str(raised.value)
    assert len(app.jobs().jobs) == 1


def test_the_same_key_may_be_used_by_another_definition(app: Penstock) -> None:
    one = app.job("one")(shapes.plain).options(idempotency_key="k").enqueue("a")
    two = app.job("two")(shapes.plain).options(idempotency_key="k").enqueue("a")

    assert one.id != two.id


def test_a_key_twice_in_one_batch_makes_one_job(app: Penstock) -> None:
    work = app.job("work")(shapes.plain).options(idempotency_key="k")

    one, two = app.enqueue_many([work.order("a"), work.order("a")])

    assert one.id == two.id
    assert [one.created, two.created].count(True) == 1
    assert len(app.jobs().jobs) == 1


@pytest.mark.parametrize("unique", [True, "report"])
def test_while_a_unique_job_is_active_it_is_given_back(app: Penstock, unique: Any) -> None:
    work = app.job("work")(shapes.plain)

    first = work.options(unique=unique).enqueue("ada")
    again = work.options(unique=unique).enqueue("ada")
    first.cancel()
    anew = work.options(unique=unique).enqueue("ada")

    assert (again.id, again.created, again.status) == (first.id, False, Status.QUEUED)
    assert (anew.id != first.id, anew.created) == (True, True)


def test_unique_parameters_are_compared_and_a_unique_text_is_not_about_parameters(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)

    one, other = (work.options(unique=True).enqueue(name) for name in ("ada", "bob"))
    text, same = (work.options(unique="text").enqueue(name) for name in ("ada", "bob"))

    assert one.id != other.id
    assert text.id == same.id


def test_the_concurrency_key_comes_from_the_parameters(app: Penstock) -> None:
    by_name = app.job("by.name", concurrency_key="to")(shapes.plain)
    by_number = app.job("by.number", concurrency_key="copies")(shapes.plain)
    computed = app.job("computed", concurrency_key=lambda params: params["to"][:1])(shapes.plain)
    none = app.job("none", concurrency_key=lambda params: None)(shapes.plain)

    assert by_name.enqueue("ada").refresh().concurrency_key == "ada"
    assert by_number.enqueue("ada", copies=5).refresh().concurrency_key == "5"
    assert by_number.enqueue("ada").refresh().concurrency_key == "1"
    assert computed.enqueue("ada").refresh().concurrency_key == "a"
    assert none.enqueue("ada").refresh().concurrency_key is None
    assert by_name.options(concurrency_key="own").enqueue("ada").refresh().concurrency_key == "own"


def test_at_most_one_job_of_a_concurrency_key_is_claimed(app: Penstock) -> None:
    work = app.job("work", concurrency_key="to")(shapes.plain)
    for name in ("ada", "ada", "bob"):
        work.enqueue(name)

    claimed = Hand(app).claim()

    assert sorted(json.loads(each.params)["to"] for each in claimed) == ["ada", "bob"]


def test_a_disabled_definition_refuses_jobs(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    work.enqueue("a")
    app.store.run(control.enable("work", False, by="ada"))

    with pytest.raises(Conflict, match="'work' is disabled"):
        work.enqueue("b")

    assert len(app.jobs().jobs) == 1


def test_options_are_not_carried_over_to_the_definition(app: Penstock) -> None:
    work = app.job("work")(shapes.plain)
    work.options(priority=20, delay=60).enqueue("a")

    job = work.enqueue("b").refresh()

    assert (job.priority, job.status) == (10, Status.QUEUED)


def test_workers_are_told_once_for_each_call_and_only_of_new_jobs() -> None:
    queue = RecordingQueue()
    app = Penstock("sqlite://", queue=queue)
    work = app.job("work")(shapes.plain)

    one = work.options(idempotency_key="k").enqueue("a")
    work.options(idempotency_key="k").enqueue("a")
    two, three = app.enqueue_many([work.order("b"), work.options(delay=5).order("c")])

    assert queue.published == [[one.id], [two.id, three.id]]
    assert app.queue is queue
    app.close()


def test_a_message_that_is_lost_loses_no_job() -> None:
    app = Penstock("sqlite://", queue=RecordingQueue())
    handle = app.job("work")(shapes.plain).enqueue("a")

    assert [each.job_id for each in Hand(app).claim()] == [handle.id]
    app.close()


def test_orders_must_be_orders(memory_app: Penstock) -> None:
    work: Any = memory_app.job("work")(shapes.plain)

    with pytest.raises(InvalidInput, match="is no order"):
        memory_app.enqueue_many([work.order("a"), work])

    assert memory_app.jobs().jobs == []


def test_handles_say_what_they_are(memory_app: Penstock) -> None:
    work = memory_app.job("work", version=2)(shapes.plain)
    handle: JobHandle[str] = work.enqueue("a")

    assert repr(work) == "<definition 'work' version 2>"
    assert repr(handle) == f"<job {handle.id} queued>"


class RecordingQueue:
    """A queue that only remembers what it was told."""

    def __init__(self) -> None:
        self.published: list[list[str]] = []

    def publish(self, job_ids: Any) -> None:
        self.published.append(list(job_ids))

    async def receive(self, timeout: float) -> Any:
        return []

    def is_listening(self) -> bool:
        return True

    async def acknowledge(self, messages: Any) -> None: ...

    async def aclose(self) -> None: ...
