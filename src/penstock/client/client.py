"""`penstock.Client`: start, follow and change jobs through a server."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from penstock.client import records
from penstock.client.exchange import Answered, Asked, Talk, error_of
from penstock.client.lines import Lines
from penstock.client.transport import Transport
from penstock.client.waiting import Wait, cuts
from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON, JobHandle
from penstock.definitions.orders import EnqueueOptions, Order
from penstock.definitions.signature import plain_text
from penstock.domain import job_list
from penstock.domain.attempt import Attempt, Phase, StoredLog
from penstock.domain.definition import check_key
from penstock.domain.errors import Conflict, InvalidInput
from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Created, Job
from penstock.domain.job_json import iso
from penstock.domain.job_list import Page
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.operations.bulk import Bulk

if TYPE_CHECKING:
    from penstock.app import Penstock

T = TypeVar("T")
_FILTERS = {
    "job_id": "jobId", "status": "status", "definition_key": "definitionKey", "reference_type": "referenceType",
    "reference_id": "referenceId", "tag": "tag", "schedule_id": "scheduleId", "created_from": "createdFrom",
    "created_to": "createdTo", "fingerprint": "fingerprint", "parent_id": "parentId", "error": "error",
}  # fmt: skip


class Client:
    """The same calls as the library's, through a server; each has a twin with an `a` in front, for event loops.

    A creation without an idempotency key gets one, so that it can be tried again when its answer was lost. Other
    changes are sent again only when they never left, or when the server said that it did nothing.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, tries: int = 5) -> None:
        self._transport = Transport(url, token, timeout, tries)

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
        chosen = given.enqueue_options(options)
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
        return self._handle(self.read_job(job_id))

    async def aget(self, job_id: str) -> JobHandle[Any]:
        return self._handle(await self.aread_job(job_id))

    def read_job(self, job_id: str) -> Job:
        """What is known of a job now."""
        return self._transport.hold(self._read_job(job_id))

    async def aread_job(self, job_id: str) -> Job:
        return await self._transport.ahold(self._read_job(job_id))

    def jobs(self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any) -> Page:
        """One page of jobs; the filters are those of the library."""
        return self._transport.hold(self._jobs(which, limit, sort, cursor))

    async def ajobs(
        self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any
    ) -> Page:
        return await self._transport.ahold(self._jobs(which, limit, sort, cursor))

    def iter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> Iterator[Job]:
        """All jobs that the filters speak of, page after page."""
        return job_list.every(lambda cursor: self.jobs(limit=job_list.PAGE, sort=sort, cursor=cursor, **which))

    def aiter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> AsyncIterator[Job]:
        return job_list.aevery(lambda cursor: self.ajobs(limit=job_list.PAGE, sort=sort, cursor=cursor, **which))

    def attempts(self, job_id: str) -> list[Attempt]:
        """The attempts at a job that have ended, the first one first."""
        return self._transport.hold(self._attempts(job_id))

    async def aattempts(self, job_id: str) -> list[Attempt]:
        return await self._transport.ahold(self._attempts(job_id))

    def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> list[StoredLog]:
        """What a job's attempts wrote; `level` is the lowest one shown."""
        return self._transport.hold(self._logs(job_id, after, limit, level, phase, attempt))

    async def alogs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> list[StoredLog]:
        return await self._transport.ahold(self._logs(job_id, after, limit, level, phase, attempt))

    def phases(self, job_id: str) -> list[Phase]:
        """All phases of a job in their order; those that have not begun are pending."""
        return self._transport.hold(self._phases(job_id))

    async def aphases(self, job_id: str) -> list[Phase]:
        return await self._transport.ahold(self._phases(job_id))

    def why(self, job_id: str) -> list[Reason]:
        """All that keeps a job from running, or else what it does now."""
        return self._transport.hold(self._why(job_id))

    async def awhy(self, job_id: str) -> list[Reason]:
        return await self._transport.ahold(self._why(job_id))

    def cancel_job(self, job_id: str) -> Status:
        """Ask for a job to be cancelled; the status it has now, which an ended job keeps."""
        return self._transport.hold(self._cancel_job(job_id))

    async def acancel_job(self, job_id: str) -> Status:
        return await self._transport.ahold(self._cancel_job(job_id))

    def retry_job(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        """Queue a failed, cancelled or stale job again; the status it has now."""
        return self._transport.hold(self._retry_job(job_id, from_phase, fresh, by))

    async def aretry_job(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        return await self._transport.ahold(self._retry_job(job_id, from_phase, fresh, by))

    def approve_job(self, job_id: str, *, by: str | None = None, note: str | None = None, result: Any = ...) -> Status:
        """Say yes to a review."""
        return self._transport.hold(self._decide(job_id, "approve", by, note, result))

    async def aapprove_job(
        self, job_id: str, *, by: str | None = None, note: str | None = None, result: Any = ...
    ) -> Status:
        return await self._transport.ahold(self._decide(job_id, "approve", by, note, result))

    def reject_job(self, job_id: str, *, by: str | None = None, note: str | None = None) -> Status:
        """Say no to a review."""
        return self._transport.hold(self._decide(job_id, "reject", by, note, ...))

    async def areject_job(self, job_id: str, *, by: str | None = None, note: str | None = None) -> Status:
        return await self._transport.ahold(self._decide(job_id, "reject", by, note, ...))

    def rerun_job(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        """Create the same job once more, linked to the old one."""
        return self._transport.hold(self._rerun_job(job_id, params, by, options))

    async def arerun_job(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        return await self._transport.ahold(self._rerun_job(job_id, params, by, options))

    def delete_job(self, job_id: str) -> None:
        """Remove an ended job and everything that belongs to it."""
        return self._transport.hold(self._delete_job(job_id))

    async def adelete_job(self, job_id: str) -> None:
        return await self._transport.ahold(self._delete_job(job_id))

    def bulk(
        self, action: str, *, dry_run: bool = False, everything: bool = False, priority: int | None = None, **which: Any
    ) -> Bulk:
        """Do one thing to all jobs that filters speak of; `dry_run` only counts."""
        return self._transport.hold(self._bulk(action, dry_run, everything, priority, which))

    async def abulk(
        self, action: str, *, dry_run: bool = False, everything: bool = False, priority: int | None = None, **which: Any
    ) -> Bulk:
        return await self._transport.ahold(self._bulk(action, dry_run, everything, priority, which))

    def retire_definition(self, key: str) -> None:
        """Refuse the creation of jobs of a definition that no code declares any more; see `Penstock`."""
        return self._transport.hold(self._retire_definition(key))

    async def aretire_definition(self, key: str) -> None:
        return await self._transport.ahold(self._retire_definition(key))

    def remove_definition(self, key: str, *, version: int | None = None) -> None:
        """List a definition no longer, or one version of it; its ended jobs stay readable."""
        return self._transport.hold(self._remove_definition(key, version))

    async def aremove_definition(self, key: str, *, version: int | None = None) -> None:
        return await self._transport.ahold(self._remove_definition(key, version))

    def wait_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended, told by its live events; a server that is away for a while is waited for."""
        wait = Wait(_path(job_id), timeout)
        while True:
            try:
                job = self.read_job(job_id)
                if wait.is_over(job):
                    return job
                self._listen(wait)
            except cuts() as error:
                wait.cut(error)
            time.sleep(wait.pause())

    async def await_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        wait = Wait(_path(job_id), timeout)
        while True:
            try:
                job = await self.aread_job(job_id)
                if wait.is_over(job):
                    return job
                await self._alisten(wait)
            except cuts() as error:
                wait.cut(error)
            await asyncio.sleep(wait.pause())

    def _listen(self, wait: Wait) -> None:
        """Read a job's events until one of them may have ended it."""
        lines = Lines()
        with self._transport.sync.stream("GET", wait.path, **wait.arguments()) as answer:
            if answer.status_code != 200:
                raise error_of(Answered(answer.status_code, answer.read(), answer.headers))
            for part in answer.iter_bytes():
                if any(wait.heard(lines, line) for line in lines.split(part)):
                    return

    async def _alisten(self, wait: Wait) -> None:
        lines = Lines()
        async with self._transport.asynchronous.stream("GET", wait.path, **wait.arguments()) as answer:
            if answer.status_code != 200:
                raise error_of(Answered(answer.status_code, await answer.aread(), answer.headers))
            async for part in answer.aiter_bytes():
                if any(wait.heard(lines, line) for line in lines.split(part)):
                    return

    def _enqueue(self, order: Order) -> Talk[JobHandle[Any]]:
        answer = yield Asked("POST", "/v1/jobs", body=_order(order))
        return self._started(answer.json())

    def _enqueue_many(self, orders: Sequence[Order]) -> Talk[list[JobHandle[Any]]]:
        if not orders:
            return []
        answer = yield Asked("POST", "/v1/jobs/batch", body={"jobs": [_order(each) for each in orders]})
        return [self._started(each) for each in answer.json()["jobs"]]

    def _started(self, told: Mapping[str, Any]) -> JobHandle[Any]:
        created = Created(told["jobId"], Status(told["status"]), told["created"])
        return JobHandle(cast("Penstock", self), created)

    def _handle(self, job: Job) -> JobHandle[Any]:
        return JobHandle(cast("Penstock", self), Created(job.id, job.status, created=False), job)

    def _read_job(self, job_id: str) -> Talk[Job]:
        return records.job((yield Asked("GET", _path(job_id))).json())

    def _jobs(self, which: Mapping[str, Any], limit: int, sort: str, cursor: str | None) -> Talk[Page]:
        query: dict[str, Any] = {"limit": limit, "sort": sort, **_filter(which)}
        if query.get("jobId") == []:
            # A query without an id would speak of all jobs.
            return Page([], None)
        if cursor is not None:
            query["cursor"] = cursor
        told = (yield Asked("GET", "/v1/jobs", query=query)).json()
        return Page([records.job(each) for each in told["jobs"]], told["nextCursor"], told.get("searched"))

    def _attempts(self, job_id: str) -> Talk[list[Attempt]]:
        told = (yield Asked("GET", f"{_path(job_id)}/attempts")).json()
        return [records.attempt(each, job_id) for each in told["attempts"]]

    def _logs(
        self, job_id: str, after: int, limit: int, level: str | None, phase: str | None, attempt: int | None
    ) -> Talk[list[StoredLog]]:
        wanted = {"after": after, "limit": limit, "level": level, "phase": phase, "attempt": attempt}
        query = {name: value for name, value in wanted.items() if value is not None}
        told = (yield Asked("GET", f"{_path(job_id)}/logs", query=query)).json()
        return [records.log_line(each) for each in told["logs"]]

    def _phases(self, job_id: str) -> Talk[list[Phase]]:
        told = (yield Asked("GET", _path(job_id))).json()
        return [records.phase(each, job_id) for each in told["phases"]]

    def _why(self, job_id: str) -> Talk[list[Reason]]:
        told = (yield Asked("GET", f"{_path(job_id)}/why")).json()
        return [records.reason(each) for each in told["reasons"]]

    def _cancel_job(self, job_id: str) -> Talk[Status]:
        job = yield from self._read_job(job_id)
        if job.status.terminal:
            return job.status
        try:
            return (yield from self._change(job.id, "cancel", None, repeatable=True))
        except Conflict:
            # It has ended meanwhile, perhaps by this very request, whose first answer was lost.
            return (yield from self._read_job(job_id)).status

    def _retry_job(self, job_id: str, from_phase: str | None, fresh: bool, by: str | None) -> Talk[Status]:
        _refuse_name(by)
        return (yield from self._change(job_id, "retry", {"fromPhase": from_phase, "fresh": fresh}))

    def _decide(self, job_id: str, verb: str, by: str | None, note: str | None, result: Any) -> Talk[Status]:
        _refuse_name(by)
        return (yield from self._change(job_id, verb, _decision(note, result)))

    def _change(self, job_id: str, verb: str, body: object, *, repeatable: bool = False) -> Talk[Status]:
        answer = yield Asked("POST", f"{_path(job_id)}/{verb}", body=body, repeatable=repeatable)
        return Status(answer.json()["status"])

    def _rerun_job(
        self, job_id: str, params: Mapping[str, Any] | None, by: str | None, options: Mapping[str, Any]
    ) -> Talk[JobHandle[Any]]:
        _refuse_name(by)
        body = _options(given.enqueue_options(options))
        if params is not None:
            body["params"] = dict(params)
        return self._started((yield Asked("POST", f"{_path(job_id)}/rerun", body=body)).json())

    def _delete_job(self, job_id: str) -> Talk[None]:
        yield Asked("DELETE", _path(job_id), repeatable=False)

    def _retire_definition(self, key: str) -> Talk[None]:
        yield Asked("POST", f"{_definition_path(key)}/retire", repeatable=True)

    def _remove_definition(self, key: str, version: int | None) -> Talk[None]:
        query = {} if version is None else {"version": version}
        yield Asked("DELETE", _definition_path(key), query=query, repeatable=False)

    def _bulk(
        self, action: str, dry_run: bool, everything: bool, priority: int | None, which: Mapping[str, Any]
    ) -> Talk[Bulk]:
        body: dict[str, Any] = {
            "action": action, "filter": _filter(which), "dryRun": dry_run, "everything": everything
        }  # fmt: skip
        if priority is not None:
            body["priority"] = priority
        told = (yield Asked("POST", "/v1/jobs/bulk", body=body, repeatable=dry_run)).json()
        return Bulk(told["matched"], told["changed"], told["skipped"])


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(given.job_id(job_id), safe='')}"


def _definition_path(key: str) -> str:
    check_key(key)
    return f"/v1/definitions/{quote(key, safe='')}"


def _order(order: Order) -> dict[str, Any]:
    """An order as the server takes it; without a key it gets one, so that it can be sent twice."""
    body = {"definitionKey": order.key, "params": json.loads(order.params), **_options(order.options)}
    if order.version:
        body["definitionVersion"] = order.version
    return body


def _options(options: EnqueueOptions) -> dict[str, Any]:
    given.instant(options.run_at, "run_at")
    named: dict[str, Any] = {
        "runAt": iso(options.run_at),
        "delay": microseconds(options.delay, "delay") / 1e6 or None,
        "priority": options.priority,
        "maxAttempts": options.max_attempts,
        "idempotencyKey": options.idempotency_key or f"client-{uuid.uuid4().hex}",
        "unique": options.unique or None,
        "concurrencyKey": options.concurrency_key,
        "reference": None if options.reference is None else dict(zip(("type", "id"), options.reference, strict=True)),
        "tags": list(options.tags) or None,
        "webhookUrl": options.webhook_url,
        "parentId": options.parent_id,
        "traceparent": options.traceparent,
        "tracestate": options.tracestate,
    }
    return {name: value for name, value in named.items() if value is not None}


def _refuse_name(by: str | None) -> None:
    """A server goes by the token; a handle names the library when nobody is named."""
    if by not in (None, PYTHON):
        raise InvalidInput(
            f"The server knows by the token who changes something, not by {by!r:.80}.", hint="Leave `by` out."
        )


def _decision(note: str | None, result: Any) -> dict[str, Any]:
    told: dict[str, Any] = {} if note is None else {"note": note}
    return told if result is ... else {**told, "result": result}


def _filter(which: Mapping[str, Any]) -> dict[str, Any]:
    searched = given.job_filter(which).params or ()
    found = {_FILTERS[name]: value for name, value in which.items() if value is not None and name != "params"}
    for name, value in found.items():
        if isinstance(value, datetime):
            found[name] = iso(value)
        elif name in ("status", "jobId"):
            found[name] = [value] if isinstance(value, str) else [str(each) for each in value]
    return found | {f"params.{name}": value for name, value in searched}
