"""Inside a job there is no store: calls go to the worker, which may have none of the definitions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from penstock import (
    Conflict,
    InvalidInput,
    InvalidPayload,
    Job,
    JobFailed,
    JobHandle,
    NotFound,
    Penstock,
    Status,
    WaitTimeout,
)
from penstock.domain.context import JobRequests, RequestingJob
from penstock.domain.job import Created
from penstock.operations.job_requests import StoreErrands
from tests.applications import NewApp
from tests.definitions import shapes
from tests.operations.hand import Hand

UNKNOWN = "0199a000-0000-7000-8000-000000000000"
ASKER = RequestingJob("0199a000-0000-7000-8000-00000000000a", "asking", None, "own")


class Wire:
    """Carries errands to the worker as JSON, and keeps what was carried."""

    def __init__(self, worker: JobRequests) -> None:
        self.worker = worker
        self.carried: list[dict[str, Any]] = []

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        sent = json.loads(json.dumps(orders))
        self.carried += sent
        return self.worker.create(sent)

    def read(self, job_id: str) -> Job:
        return self.worker.read(job_id)

    def cancel(self, job_id: str) -> Status:
        return self.worker.cancel(job_id)


@pytest.fixture
def worker(new_app: NewApp) -> Penstock:
    """The worker's application: it has no definitions, but they are in the store."""
    worker, deployed = new_app(), new_app()
    deployed.job("work", priority=7)(shapes.plain)
    deployed.job("elsewhere", default_params={"copies": 4}, concurrency_key="to")(shapes.plain)
    deployed.register()
    return worker


@pytest.fixture
def wire(worker: Penstock) -> Wire:
    return Wire(StoreErrands(worker).of(ASKER))


@pytest.fixture
def inside(wire: Wire) -> Penstock:
    """The application as the code of a job sees it, with a store that nobody could open."""
    app = Penstock("postgresql://nobody@nowhere.invalid/none")
    app.job("work", priority=7)(shapes.plain)
    app.enter_job(wire)
    return app


def test_a_definition_creates_jobs_through_the_worker(inside: Penstock, worker: Penstock, wire: Wire) -> None:
    (handle,) = inside.definitions

    job = handle.options(tags=["a"], delay=60).enqueue("x", copies=2)

    assert job.created
    assert job.status is Status.SCHEDULED
    seen = worker.read_job(job.id)
    assert (seen.params, seen.tags, seen.priority) == ({"to": "x", "copies": 2}, ("a",), 7)
    assert [each["checked"] for each in wire.carried] == [True]


async def test_the_calls_of_event_loops_go_to_the_worker_too(inside: Penstock, worker: Penstock) -> None:
    (handle,) = inside.definitions

    job = await handle.aenqueue("x")
    by_name = await inside.aenqueue("elsewhere", {"to": "y"})
    many = await inside.aenqueue_many([handle.order("z")])

    assert (await inside.aget(job.id)).job.params == {"to": "x"}
    assert (await by_name.arefresh()).definition_key == "elsewhere"
    assert await many[0].acancel() is Status.CANCELLED
    assert (await worker.aread_job(many[0].id)).status is Status.CANCELLED


def test_the_worker_does_errands_as_orders_in_json_say(inside: Penstock, worker: Penstock) -> None:
    errands = StoreErrands(worker).of(ASKER)
    orders = [inside.definitions[0].order("x").to_json(), inside.definitions[0].order("y").to_json()]

    first, second = errands.create(orders)

    assert errands.read(first.job_id).params == {"to": "x"}
    assert errands.cancel(second.job_id) is Status.CANCELLED
    with pytest.raises(InvalidInput, match="'colour' is not a part of an order"):
        errands.create([{**orders[0], "colour": 1}])


async def test_an_event_loop_goes_on_while_the_worker_is_asked(inside: Penstock, wire: Wire) -> None:
    (handle,) = inside.definitions
    loop, asked = asyncio.get_running_loop(), asyncio.Event()

    class Slow(Wire):
        def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
            # It answers only when the loop has run.
            asyncio.run_coroutine_threadsafe(_set(asked), loop).result(30)
            return super().create(orders)

    inside.enter_job(Slow(wire))

    assert (await handle.aenqueue("x")).created
    assert asked.is_set()


def test_many_are_created_together_or_not_at_all(inside: Penstock, worker: Penstock) -> None:
    (handle,) = inside.definitions

    made = inside.enqueue_many([handle.order("x"), handle.options(idempotency_key="k").order("y")])
    with pytest.raises(Conflict):
        inside.enqueue_many([handle.order("new"), handle.options(idempotency_key="k").order("other")])

    assert {job.id for job in worker.iter_jobs()} == {job.id for job in made}
    assert inside.enqueue_many([]) == []


def test_a_definition_that_is_not_here_is_checked_by_the_worker(inside: Penstock, worker: Penstock, wire: Wire) -> None:
    job = inside.enqueue("elsewhere", {"to": "x"})

    seen = worker.read_job(job.id)
    assert wire.carried[0]["checked"] is False
    assert wire.carried[0]["version"] is None
    assert (seen.params, seen.concurrency_key) == ({"copies": 4, "to": "x"}, "x")


def test_dates_and_their_kin_may_be_given_by_name(inside: Penstock, worker: Penstock) -> None:
    job = inside.enqueue("elsewhere", {"to": shapes.Colour.RED})

    assert worker.read_job(job.id).params["to"] == "red"


def test_what_the_worker_refuses_is_raised_in_the_job(inside: Penstock, worker: Penstock) -> None:
    with pytest.raises(InvalidPayload, match="Parameters of elsewhere"):
        inside.enqueue("elsewhere", {"too": "x"})
    with pytest.raises(NotFound, match="There is no definition 'nothing'"):
        inside.enqueue("nothing")
    with pytest.raises(NotFound, match="There is no definition 'elsewhere version 9'"):
        inside.enqueue("elsewhere", {"to": "x"}, definition_version=9)

    assert worker.jobs().jobs == []


def test_what_is_wrong_with_an_order_never_leaves_the_job(inside: Penstock, wire: Wire) -> None:
    (handle,) = inside.definitions

    with pytest.raises(InvalidInput, match="priority must be"):
        handle.options(priority=99).enqueue("x")
    with pytest.raises(InvalidInput, match="work: run_at has no time zone"):
        handle.options(run_at=datetime(2030, 1, 1)).enqueue("x")
    with pytest.raises(InvalidPayload):
        handle.enqueue(to=5)

    assert wire.carried == []


def test_jobs_are_read_waited_for_and_cancelled_through_the_worker(inside: Penstock, worker: Penstock) -> None:
    (handle,) = inside.definitions
    done, failed, cancelled = handle.enqueue("done"), handle.enqueue("failed"), handle.enqueue("cancelled")
    assert cancelled.cancel() is Status.CANCELLED
    with pytest.raises(WaitTimeout):
        done.wait(0)
    hand = Hand(worker)
    hand.succeed(done.id, '"fine"')

    assert done.result(10) == "fine"
    assert inside.get(done.id).status is Status.SUCCEEDED
    assert inside.read_job(failed.id).status is Status.RUNNING
    assert inside.cancel_job(failed.id) is Status.CANCELLING
    with pytest.raises(JobFailed):
        cancelled.result(10)
    with pytest.raises(NotFound, match=UNKNOWN):
        inside.get(UNKNOWN)
    with pytest.raises(NotFound, match=UNKNOWN):
        inside.cancel_job(UNKNOWN)


NEEDS_THE_STORE: list[tuple[str, Callable[[Penstock], Any]]] = [
    ("app.store", lambda app: app.store),
    ("app.jobs", lambda app: app.jobs()),
    ("app.jobs", lambda app: list(app.iter_jobs())),
    ("app.register", lambda app: app.register()),
    ("app.counts", lambda app: app.counts()),
    ("app.workers", lambda app: app.workers()),
    ("app.attempts", lambda app: app.attempts(UNKNOWN)),
    ("app.definitions_known", lambda app: app.definitions_known()),
    ("enqueue with connection=", lambda app: app.definitions[0].options(connection=object()).enqueue("x")),
    ("enqueue with connection=", lambda app: app.enqueue_many([app.definitions[0].order("x")], connection=1)),
    ("enqueue with connection=", lambda app: app.enqueue("elsewhere", {"to": "x"}, connection=1)),
    ("cancel_job with by=", lambda app: app.cancel_job(UNKNOWN, by="me")),
]


@pytest.mark.parametrize(("name", "call"), NEEDS_THE_STORE)
def test_what_needs_the_store_says_so_and_what_is_possible(
    inside: Penstock, wire: Wire, name: str, call: Callable[[Penstock], Any]
) -> None:
    with pytest.raises(Conflict) as raised:
        call(inside)

    assert raised.value.message.startswith(f"{name} is not possible inside a job")
    assert "enqueue" in raised.value.hint
    assert wire.carried == []


async def test_event_loops_are_told_the_same(inside: Penstock) -> None:
    with pytest.raises(Conflict, match=r"app\.jobs is not possible inside a job"):
        await inside.ajobs()


def test_after_the_job_calls_go_to_the_store_again(app: Penstock, wire: Wire) -> None:
    handle = app.job("own")(shapes.plain)
    app.enter_job(wire)
    app.leave_job()

    job: JobHandle[str] = handle.enqueue("x")

    assert app.read_job(job.id).definition_key == "own"
    assert wire.carried == []


async def _set(event: asyncio.Event) -> None:
    event.set()
