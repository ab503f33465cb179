"""What jobs ask of their worker, done on the worker's side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.app import Penstock
from penstock.definitions.orders import Order
from penstock.domain.context import RequestingJob
from penstock.domain.errors import Forbidden, InvalidDefinition, NotFound
from penstock.domain.job import Created, Job
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.states import Status
from penstock.domain.trace_context import split_trace
from penstock.domain.webhook.url import without_path

_GENERATIONS = 100
"""How many ancestors of a job are looked at."""
_MOST_REMEMBERED = 10_000


class StoreErrands:
    """Does what code inside jobs asks for, on the store of an application that need not have their definitions."""

    def __init__(self, app: Penstock, secrets: SecretPolicy | None = None) -> None:
        self._app = app
        self._secrets = secrets or SecretPolicy()

    def of(self, asker: RequestingJob) -> JobErrands:
        return JobErrands(self._app, self._secrets, asker)


class JobErrands:
    """The errands of one job. Nothing that its code sends is trusted.

    The code reaches the job itself, its descendants and, if its ancestors have the same reference too, the jobs of its
    reference. It also reads jobs that were there already when it asked for the same ones by key.
    """

    def __init__(self, app: Penstock, secrets: SecretPolicy, asker: RequestingJob) -> None:
        self._app = app
        self._secrets = secrets
        self._asker = asker
        self._found: set[str] = set()
        """Jobs that were there already when this one asked for them."""
        self._reference_counts: bool | None = None

    def create(self, orders: Sequence[Mapping[str, Any]]) -> list[Created]:
        """Create the jobs that orders in JSON ask for, all or none; each is a descendant of this job."""
        read = [self._below(Order.from_json(each)) for each in orders]
        for parent in {order.options.parent_id for order in read} - {self._asker.job_id}:
            self._check(self._app.read_job(str(parent)), "be the parent of what it creates")
        created = self._app._do(self._app._create_for_job(read))
        for each in created:
            if not each.created and len(self._found) < _MOST_REMEMBERED:
                self._found.add(each.job_id)
        return created

    def read(self, job_id: str) -> Job:
        job = self._app.read_job(job_id)
        if job.id not in self._found:
            self._check(job, "be read")
        return job if job.definition_key == self._asker.definition else self._masked(job)

    def cancel(self, job_id: str) -> Status:
        self._check(self._app.read_job(job_id), "be cancelled")
        return self._app.cancel_job(job_id)

    def _below(self, order: Order) -> Order:
        """An order of this job: below its span, unless the code that asks has a span of its own."""
        if order.options.traceparent is None and self._asker.trace is not None:
            traceparent, tracestate = split_trace(self._asker.trace)
            order = order.below(str(traceparent), tracestate)
        if order.options.parent_id is not None:
            return order
        return order._replace(options=replace(order.options, parent_id=self._asker.job_id))

    def _check(self, job: Job, what: str) -> None:
        if not self._reaches(job):
            raise Forbidden(
                f"Job {job.id} cannot {what} by job {self._asker.job_id}: it is no descendant of it, and shares no "
                "reference that its ancestors have too.",
                hint=f"Declare {self._asker.definition} with reach='any' if its code needs other jobs.",
            )

    def _reaches(self, job: Job) -> bool:
        asker = self._asker
        if asker.reach == "any" or asker.job_id in (job.id, job.parent_id):
            return True
        if asker.reference is not None and _reference(job) == asker.reference and self._may_use_reference():
            return True
        return any(each.parent_id == asker.job_id for each in self._ancestors(job))

    def _may_use_reference(self) -> bool:
        """Whether the job's reference came from outside of jobs. Otherwise code would reach all jobs, by creating
        a job with their reference."""
        if self._reference_counts is None:
            last = None
            try:
                last = self._app.read_job(self._asker.job_id)
                for each in self._ancestors(last):
                    last = each if _reference(each) == self._asker.reference else None
                    if last is None:
                        break
            except NotFound:
                last = None
            self._reference_counts = last is not None and last.parent_id is None
        return self._reference_counts

    def _ancestors(self, job: Job) -> Iterator[Job]:
        """The ancestors that are there, the nearest first."""
        for _ in range(_GENERATIONS):
            if job.parent_id is None:
                return
            try:
                job = self._app.read_job(job.parent_id)
            except NotFound:
                return
            yield job

    def _masked(self, job: Job) -> Job:
        """A job of another definition as this job may see it."""
        url = None if job.webhook_url is None else without_path(job.webhook_url)
        try:
            definition = self._app._do(self._app._definition(job.definition_key, job.definition_version)).definition
        except (NotFound, InvalidDefinition):
            return replace(job, params_text="{}", webhook_url=url)
        return replace(job, params_text=self._secrets.mask(definition.secret_fields, job.params_text), webhook_url=url)


def _reference(job: Job) -> tuple[str, str] | None:
    return None if job.reference_type is None else (job.reference_type, job.reference_id or "")
