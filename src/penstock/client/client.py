"""`penstock.Client`: start, follow and change jobs through a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.new_jobs import order_json
from penstock.client.session import ServerSession
from penstock.client.transport import Transport
from penstock.definitions.signature import plain_text
from penstock.domain.errors import InvalidInput
from penstock.domain.job import Created, Job
from penstock.surface.audit import Audit
from penstock.surface.definitions import Definitions
from penstock.surface.enqueue_options import enqueue_options
from penstock.surface.events import Events
from penstock.surface.job_handle import JobHandle
from penstock.surface.jobs import Jobs
from penstock.surface.monitoring import Monitoring
from penstock.surface.orders import Order
from penstock.surface.schedules import Schedules
from penstock.surface.tokens import Tokens
from penstock.surface.webhooks import Webhooks
from penstock.surface.workers import Workers


class Client:
    """The same calls as the library's, through a server; each has a twin with an `a` in front, for event loops.

    A creation without an idempotency key gets one, so that it can be tried again when its answer was lost. Other
    changes are sent again only when they never left, or when the server said that it did nothing.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, tries: int = 5) -> None:
        self._transport = Transport(url, token, timeout, tries)
        self.session: ServerSession = ServerSession(self._transport)
        """Carries the operations of the groups out."""
        self.jobs: Jobs = Jobs(self.session)
        self.definitions: Definitions[Any] = Definitions(self.session)
        self.schedules: Schedules = Schedules(self.session)
        self.workers: Workers = Workers(self.session)
        self.webhooks: Webhooks = Webhooks(self.session)
        self.tokens: Tokens = Tokens(self.session)
        self.events: Events = Events(self.session)
        self.monitoring: Monitoring = Monitoring(self.session)
        self.audit: Audit = Audit(self.session)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the connections; they open again when they are needed."""
        self._transport.close()

    async def aclose(self) -> None:
        await self._transport.aclose()

    def enqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        """Create a job; the options are those of the library."""
        return self._transport.hold(
            self._enqueue(self.order(definition_key, params, definition_version=definition_version, **options))
        )

    async def aenqueue(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> JobHandle[Any]:
        return await self._transport.ahold(
            self._enqueue(self.order(definition_key, params, definition_version=definition_version, **options))
        )

    def order(
        self,
        definition_key: str,
        params: Mapping[str, Any] | None = None,
        *,
        definition_version: int | None = None,
        **options: Any,
    ) -> Order:
        """One job to be made, for `enqueue_many`; the server checks it."""
        if not isinstance(definition_key, str) or not isinstance(params, Mapping | None):
            raise InvalidInput(f"A job is a definition's key and a mapping of parameters, not {definition_key!r:.80}.")
        chosen = enqueue_options(options)
        if chosen.connection is not None:
            raise InvalidInput("A server cannot enqueue on the caller's connection.", hint="Use the library for that.")
        text = plain_text(dict(params or {}), f"parameters of {definition_key}")
        return Order(definition_key, definition_version or 0, text, chosen, checked=False)

    def enqueue_many(self, orders: Sequence[Order]) -> list[JobHandle[Any]]:
        """Create jobs, all or none."""
        return self._transport.hold(self._enqueue_many(orders))

    async def aenqueue_many(self, orders: Sequence[Order]) -> list[JobHandle[Any]]:
        return await self._transport.ahold(self._enqueue_many(orders))

    def get(self, job_id: str) -> JobHandle[Any]:
        """A job by its id; `NotFound` when there is none."""
        return _handle(self.jobs, self.jobs.read(job_id))

    async def aget(self, job_id: str) -> JobHandle[Any]:
        return _handle(self.jobs, await self.jobs.aread(job_id))

    def _enqueue(self, order: Order) -> Talk[JobHandle[Any]]:
        answer = yield Asked("POST", "/v1/jobs", body=order_json(order))
        return JobHandle(self.jobs, records.created(answer.json()))

    def _enqueue_many(self, orders: Sequence[Order]) -> Talk[list[JobHandle[Any]]]:
        if not orders:
            return []
        answer = yield Asked("POST", "/v1/jobs/batch", body={"jobs": [order_json(each) for each in orders]})
        return [JobHandle(self.jobs, records.created(each)) for each in answer.json()["jobs"]]


def _handle(jobs: Jobs, job: Job) -> JobHandle[Any]:
    return JobHandle(jobs, Created(job.id, job.status, created=False), job)
