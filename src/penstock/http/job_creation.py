"""Creation of jobs over HTTP: reading the body, rights and rate limit, and one transaction for concurrent requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request

from penstock.config.server_settings import WebSettings
from penstock.definitions.order_maker import OrderMaker
from penstock.domain.access import Role
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput, NotFound, PenstockError
from penstock.domain.job import Created, Draft
from penstock.http.authentication import Caller
from penstock.http.errors import RequestError
from penstock.http.routing import decoded
from penstock.http.schemas import jobs as shapes
from penstock.http.validation import MOST_PROBLEMS, problems_error, problems_of
from penstock.operations import creation
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin
from penstock.surface.orders import PLAIN, EnqueueOptions, Order

_MOST = 500
RequestedJob = tuple[str, Mapping[str, Any], int | None, EnqueueOptions]
"""A definition's key, decoded parameters, its version if one was named, and options."""
_Future = asyncio.Future[Created]
_PendingJob = tuple[Order | Draft, str, _Future]
"""A job, its actor, and the future for the answer."""
_Makers = dict[tuple[str, int | None], OrderMaker]


class JobCreator:
    """Collects jobs while a transaction is committed; the next transaction takes all of them."""

    def __init__(self, session: ApplicationSession, settings: WebSettings) -> None:
        self._session = session
        self._settings = settings
        self._waiting: list[_PendingJob] = []
        self._working: asyncio.Task[None] | None = None

    async def order(
        self, key: str, params: Mapping[str, Any], version: int | None, options: EnqueueOptions, *,
        in_thread: bool = False,
    ) -> Order:  # fmt: skip
        """Return the order for one job, validated against its definition."""
        orders: list[Order] = []
        await self.orders([(key, params, version, options)], orders, in_thread=in_thread)
        return orders[0]

    async def orders(self, wanted: Iterable[RequestedJob], orders: list[Order], *, in_thread: bool = False) -> None:
        """Append the orders for many jobs, in order, up to the first that is refused."""
        waiting, makers = iter(wanted), _Makers()
        hold = self._session.ahold_in_thread if in_thread else self._session.ahold
        while (unknown := await hold(self._known(waiting, makers, orders))) is not None:
            key, params, version, options = unknown
            # An unknown definition: its jobs wait for a worker that declares it, and are validated then.
            await self._session.store.arun(admin.register([Definition(key, version or 1)]))
            makers[key, version] = await self._session.ahold(creation.order_maker(self._session, key, version))
            orders.append(makers[key, version].order(params, options, decoded=True))

    def _known(self, wanted: Iterator[RequestedJob], makers: _Makers, orders: list[Order]) -> Talk[RequestedJob | None]:
        """Continue up to the first job whose definition is unknown."""
        for each in wanted:
            key, params, version, options = each
            maker = makers.get((key, version))
            if maker is None:
                try:
                    maker = yield from creation.order_maker(self._session, key, version)
                except NotFound as error:
                    if error.kind != "definition" or not self._settings.unknown_definitions:
                        raise
                    return each
                makers[key, version] = maker
            orders.append(maker.order(params, options, decoded=True))
        return None

    async def create(self, order: Order, by: str, scope: str = "", *, in_thread: bool = False) -> Created:
        """Create one job and return after the commit. `scope` is the scope of its idempotency key."""
        asked: Order | Draft = order
        if in_thread or order.options is not PLAIN:
            # Validate the options first, so that only this caller gets their errors.
            hold = self._session.ahold_in_thread if in_thread else self._session.ahold
            (asked,) = await hold(creation.drafts(self._session, [order], actor=str(by), key_scope=scope))
        future: _Future = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, str(by), future))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await future

    async def create_many(
        self, orders: list[Order], by: str, scope: str = "", *, in_thread: bool = False
    ) -> list[Created]:
        """Create all jobs or none."""
        hold = self._session.ahold_in_thread if in_thread else self._session.ahold
        return await hold(creation.create(self._session, orders, actor=str(by), key_scope=scope))

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._commit(batch)
        finally:
            self._working = None

    async def _commit(self, batch: Sequence[_PendingJob]) -> None:
        """Commit a batch in one transaction; if one job is refused, commit each on its own."""
        drafts: Sequence[Order | Draft] = [asked for asked, _, _ in batch]
        try:
            drafts = ready = await self._session.ahold(self._drafts(batch))
            created = await self._session.ahold(creation.keep_drafts(self._session, ready))
        except PenstockError as error:
            if len(batch) == 1:
                _fail(batch[0][2], error)
                return
            # The ids stay the same, so a job that was committed nevertheless is found again.
            for asked, (_, by, future) in zip(drafts, batch, strict=True):
                await self._commit([(asked, by, future)])
        except BaseException as error:
            for _, _, future in batch:
                _fail(future, error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, _, future), answer in zip(batch, created, strict=True):
                if not future.done():
                    future.set_result(answer)

    def _drafts(self, batch: Sequence[_PendingJob]) -> Talk[Sequence[Draft]]:
        """Make drafts of the pending orders, in one step if one caller sent all of them."""
        orders = [asked for asked, _, _ in batch if isinstance(asked, Order)]
        actors = {by for _, by, _ in batch}
        if len(orders) == len(batch) and len(actors) == 1:
            return (yield from creation.drafts(self._session, orders, actor=actors.pop()))
        drafts: list[Draft] = []
        for asked, by, _ in batch:
            if isinstance(asked, Order):
                drafts += yield from creation.drafts(self._session, [asked], actor=by)
            else:
                drafts.append(asked)
        return drafts


def _fail(future: _Future, error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.cancel()


_MOST_FIELDS = 40
"""More fields than a job has. Of a larger body the first fields are validated, and one of them is unknown."""
_NO_OPTIONS = {"definition_key", "definition_version", "params"}


def parse_job(body: bytes) -> RequestedJob:
    """Return the job that a body requests."""
    try:
        return _parsed_job(decoded(body))
    except ValidationError as error:
        raise problems_error(problems_of(error, shape=shapes.JobRequest)) from None


def batch_parser(most: int) -> Callable[[bytes], list[RequestedJob]]:
    """Return a parser for bodies with up to `most` jobs; its error lists the first problems only."""

    def read(body: bytes) -> list[RequestedJob]:
        jobs = _jobs(decoded(body))
        if not 1 <= len(jobs) <= most:
            raise InvalidInput(f"A batch has 1 to {most} jobs, not {len(jobs)}.")
        found: list[RequestedJob] = []
        problems: list[dict[str, str]] = []
        for index, each in enumerate(jobs):
            try:
                found.append(_parsed_job(each))
            except ValidationError as error:
                problems += problems_of(error, "jobs", index, shape=shapes.JobRequest)
                if len(problems) >= MOST_PROBLEMS:
                    break
        if problems:
            raise problems_error(problems[:MOST_PROBLEMS])
        return found

    return read


def _jobs(asked: Any) -> list[Any]:
    """Return the list in the body of a batch; its items are not validated."""
    jobs = asked.get("jobs") if type(asked) is dict else None
    is_list = type(jobs) is list
    try:
        shapes.BatchRequest.model_validate({**_few(asked), "jobs": []} if is_list else _few(asked))
    except ValidationError as error:
        raise problems_error(problems_of(error, shape=shapes.BatchRequest)) from None
    if not isinstance(jobs, list):
        raise RequestError("invalid_request", "/jobs should be a list.")
    return jobs


def _few(asked: Any) -> Any:
    """Cut an object to the number of fields that a shape can have: an error for each extra field would cost memory."""
    if type(asked) is dict and len(asked) > _MOST_FIELDS:
        return dict(islice(asked.items(), _MOST_FIELDS))
    return asked


def _parsed_job(asked: Any) -> RequestedJob:
    """Validate one job; a body with only a definition's key and parameters needs no model."""
    if type(asked) is dict and len(asked) == 2:
        key, params = asked.get("definitionKey"), asked.get("params")
        if type(key) is str and type(params) is dict:
            return key, params, None, PLAIN
    job = shapes.JobRequest.model_validate(_few(asked))
    return job.definition_key, job.params, job.definition_version, _options(job)


def _options(asked: shapes.JobRequest) -> EnqueueOptions:
    if asked.model_fields_set <= _NO_OPTIONS:
        return PLAIN
    reference = None if asked.reference is None else (asked.reference.type, asked.reference.id)
    return EnqueueOptions(
        run_at=asked.run_at,
        delay=asked.delay or 0,
        priority=asked.priority,
        max_attempts=asked.max_attempts,
        idempotency_key=asked.idempotency_key,
        unique=asked.unique if asked.unique is not None else False,
        concurrency_key=asked.concurrency_key,
        reference=reference,
        tags=tuple(asked.tags),
        webhook_url=asked.webhook_url,
        parent_id=asked.parent_id,
        traceparent=asked.traceparent,
        tracestate=asked.tracestate,
    )


_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


_NOT_FOR_EVERYBODY = {
    "webhook_url": "webhookUrl", "priority": "priority", "max_attempts": "maxAttempts", "parent_id": "parentId",
    "unique": "unique",
}  # fmt: skip
"""Options that affect others, so they need a token: where events are sent, priority, parent, uniqueness."""


def with_trace_headers(request: Request, wanted: RequestedJob) -> RequestedJob:
    """Set the span of the request's headers as parent; a span in the body takes precedence, with its own state."""
    key, params, version, options = wanted
    parent = request.headers.get("traceparent")
    if parent is None or options.traceparent is not None or not _TRACEPARENT.fullmatch(parent):
        return wanted
    state = ",".join(request.headers.getlist("tracestate"))
    return key, params, version, replace(options, traceparent=parent, tracestate=state)


async def take_allowance(call: Caller, count: int, *, taken: int = 0) -> None:
    """Take from the allowance that all servers share; the error says when to retry.

    A request takes one before its body is read, so that bodies are limited as well as jobs.

    """
    settings = call.server.settings
    limit = settings.creation_limit_of(anonymous=call.is_anonymous)
    if not limit or count == taken:
        return
    if count > limit:
        raise InvalidInput(
            f"{count} jobs in one request exceed the limit of {limit} per {settings.creation_period:g} s.",
            hint="Create them in batches of fewer jobs.",
        )
    wait = await call.app.tokens.atake_allowance(
        f"create:{call.bucket}", limit, settings.creation_period, count - taken
    )
    if wait is not None:
        raise RequestError(
            "rate_limited",
            f"{limit} jobs may be created in {settings.creation_period:g} s.",
            hint="Retry later, or create fewer jobs.",
            headers={"Retry-After": str(max(1, ceil(wait)))},
        )


def check_rights(call: Caller, wanted: RequestedJob, where: str = "") -> None:
    """Refuse options that need a token if the caller may create jobs only because everyone may."""
    options = wanted[3]
    if options is PLAIN or not call.is_anonymous:
        return
    for name, field in _NOT_FOR_EVERYBODY.items():
        if getattr(options, name) != getattr(PLAIN, name):
            raise RequestError(
                "forbidden",
                f"{where}{field} needs a token with the role {Role.CREATOR}.",
                hint="Leave it out, or send such a token.",
                details={"field": f"{where}{field}", "role": Role.CREATOR},
            )
