"""Which jobs the code of a job reaches through its worker, and what it sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import InvalidPayload, JobHandle, Penstock, Status
from penstock.domain.context import RequestingJob
from penstock.domain.errors import Forbidden
from penstock.operations.job_requests import JobErrands, StoreErrands
from tests.applications import NewApp
from tests.definitions import shapes

ORDER = ("order", "17")
Job = JobHandle[Any]


def with_password(password: str, text: str = "") -> str:
    return text


@pytest.fixture
def deployed(new_app: NewApp) -> Penstock:
    app = new_app()
    app.job("work")(shapes.plain)
    app.job("keyed", concurrency_key="to")(shapes.plain)
    app.job("computed", concurrency_key=lambda params: params["to"])(shapes.plain)
    app.job("private", secret=["text"])(with_password)
    app.register()
    return app


@pytest.fixture
def errands_of(new_app: NewApp, deployed: Penstock) -> Callable[..., JobErrands]:
    """The errands of a job, done by a worker that has no definitions."""
    worker = new_app()

    def errands(job: Job, reach: str = "own") -> JobErrands:
        read = worker.read_job(job.id)
        reference = None if read.reference_type is None else (read.reference_type, read.reference_id or "")
        return StoreErrands(worker).of(RequestingJob(job.id, read.definition_key, reference, reach))

    return errands


def order(key: str = "work", params: str = '{"to":"x"}', **options: Any) -> dict[str, Any]:
    return {"key": key, "version": 1, "params": params, "checked": True, "options": options}


def made(deployed: Penstock, **options: Any) -> Job:
    return deployed.enqueue("work", {"to": "x"}, **options)


def test_a_job_reaches_itself_and_its_descendants(deployed: Penstock, errands_of: Callable[..., JobErrands]) -> None:
    top = made(deployed)
    child = made(deployed, parent_id=top.id)
    grandchild = made(deployed, parent_id=child.id)

    errands = errands_of(top)

    assert [errands.read(each.id).id for each in (top, child, grandchild)] == [top.id, child.id, grandchild.id]
    assert errands.cancel(grandchild.id) is Status.CANCELLED


@pytest.mark.parametrize("relation", ["stranger", "parent", "sibling"])
def test_a_job_reaches_no_other_job(deployed: Penstock, errands_of: Callable[..., JobErrands], relation: str) -> None:
    top = made(deployed, reference=ORDER)
    job, sibling = made(deployed, parent_id=top.id), made(deployed, parent_id=top.id)
    other = {"stranger": made(deployed), "parent": top, "sibling": sibling}[relation]

    errands = errands_of(job)

    with pytest.raises(Forbidden, match=f"Job {other.id} cannot be read by job {job.id}"):
        errands.read(other.id)
    with pytest.raises(Forbidden, match="cannot be cancelled"):
        errands.cancel(other.id)
    assert other.refresh().status == "queued"
    assert errands_of(job, "any").cancel(other.id) is Status.CANCELLED


def test_a_reference_reaches_when_all_ancestors_have_it(
    deployed: Penstock, errands_of: Callable[..., JobErrands]
) -> None:
    other = made(deployed, reference=ORDER)
    top = made(deployed, reference=ORDER)
    child = made(deployed, reference=ORDER, parent_id=top.id)

    assert errands_of(top).read(other.id).id == other.id
    assert errands_of(child).read(other.id).id == other.id


def test_a_job_does_not_reach_a_reference_by_giving_it_to_a_child(
    deployed: Penstock, errands_of: Callable[..., JobErrands]
) -> None:
    other = made(deployed, reference=ORDER)
    job = made(deployed, reference=("order", "18"))
    (child,) = errands_of(job).create([order(reference=list(ORDER))])

    with pytest.raises(Forbidden):
        errands_of(deployed.get(child.job_id)).cancel(other.id)
    with pytest.raises(Forbidden, match="cannot be the parent"):
        errands_of(job).create([order(reference=list(ORDER), parent_id=other.id)])
    assert deployed.read_job(child.job_id).parent_id == job.id


def test_a_job_whose_parent_is_gone_does_not_reach_by_reference(
    deployed: Penstock, errands_of: Callable[..., JobErrands]
) -> None:
    other = made(deployed, reference=ORDER)
    top = made(deployed, reference=ORDER)
    child = made(deployed, reference=ORDER, parent_id=top.id)
    top.cancel()
    deployed.delete_job(top.id)

    with pytest.raises(Forbidden):
        errands_of(child).read(other.id)


def test_a_job_that_was_there_already_is_read_and_not_cancelled(
    deployed: Penstock, errands_of: Callable[..., JobErrands]
) -> None:
    other = made(deployed, idempotency_key="k")
    errands = errands_of(made(deployed))

    (found,) = errands.create([order(idempotency_key="k")])

    assert (found.job_id, found.created) == (other.id, False)
    assert errands.read(other.id).id == other.id
    with pytest.raises(Forbidden):
        errands.cancel(other.id)


def test_secrets_of_other_definitions_are_masked(deployed: Penstock, errands_of: Callable[..., JobErrands]) -> None:
    other = deployed.enqueue("private", {"password": "hunter22", "text": "also-mine"})
    job = made(deployed)
    own = deployed.enqueue("private", {"password": "swordfish"})

    seen = errands_of(job, "any").read(other.id)

    assert seen.params == {"password": "***", "text": "***"}
    assert errands_of(own, "any").read(other.id).params == {"password": "hunter22", "text": "also-mine"}


@pytest.mark.parametrize("params", ['{"to":5}', "{}", '{"to":"x","colour":1}'])
def test_parameters_that_a_job_calls_checked_are_checked(
    deployed: Penstock, errands_of: Callable[..., JobErrands], params: str
) -> None:
    errands = errands_of(made(deployed))

    with pytest.raises(InvalidPayload, match="Parameters of work do not fit"):
        errands.create([order(params=params)])


def test_a_concurrency_key_cannot_be_left_out(deployed: Penstock, errands_of: Callable[..., JobErrands]) -> None:
    errands = errands_of(made(deployed))

    by_name, by_code = errands.create([order("keyed"), order("computed", concurrency_key="found by the code")])

    assert deployed.read_job(by_name.job_id).concurrency_key == "x"
    assert deployed.read_job(by_code.job_id).concurrency_key == "found by the code"
