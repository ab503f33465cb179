"""`/v1/jobs`: create, read and change jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from penstock.definitions.orders import Order
from penstock.domain.access import Role
from penstock.domain.attempt import count_pruned
from penstock.domain.errors import Conflict, Hint, InvalidInput
from penstock.domain.job import Created
from penstock.domain.job_json import attempt_text, created_text, listed, log_text, reason_text, spliced
from penstock.domain.states import Status
from penstock.http import answers
from penstock.http.authentication import Call
from penstock.http.job_creation import batch_parser, check_rights, parse_job, take_allowance, with_trace_headers
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import jobs as shapes
from penstock.http.schemas.base import Moment, Natural, PageLimit, Truth

router: APIRouter = APIRouter(route_class=Route)
_TRACE = {
    "parameters": [
        {
            "name": "traceparent", "in": "header", "required": False, "schema": {"type": "string"},
            "description": "The span that the jobs are created in (W3C Trace Context). A malformed one is ignored; "
            "a `traceparent` in the body takes precedence.",
        },
        {
            "name": "tracestate", "in": "header", "required": False, "schema": {"type": "string"},
            "description": "State of tracing systems for `traceparent`: up to 32 members and 512 characters. "
            "Ignored if malformed, or without that header.",
        },
    ]
}  # fmt: skip
_START = {
    **_TRACE,
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobRequest"}}},
    },
}
_START_BATCH = {
    **_TRACE,
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/BatchRequest"}}},
    },
}
_SEARCH_BY_PARAMS = {
    "parameters": [
        {
            "name": "parameters", "x-begins": answers.PARAMS, "in": "query",
            "style": "form", "explode": True, "required": False,
            "description": "By parameter values: `params.orderId=7`. Strings match as they are; numbers, true, false "
            "and null as JSON writes them. The 10,000 newest jobs that the other filters select are looked through. "
            "Secret parameters cannot be searched.",
            "example": {"params.orderId": "7"},
            "schema": {
                "type": "object", "propertyNames": {"pattern": "^params\\..+"},
                "additionalProperties": {"type": "string"},
            },
        }
    ]
}  # fmt: skip


@endpoint(
    router, "POST", "/v1/jobs", role=Role.CREATOR, answer=shapes.JobStarted, status=201, extra=_START,
    errors=("not_found", "conflict", "idempotency_conflict", "invalid_params"),
    also={200: {"model": shapes.JobStarted, "description": "The key is known, or a unique job is active."}},
)  # fmt: skip
async def start_job(request: Request, call: Call) -> Response:
    """Create a job; it is committed before the answer is sent."""
    # The busiest route reads its own body: the framework's parsing costs more than the commit.
    await take_allowance(call, 1)
    body = await request.body()
    async with call.server.bodies.reader(body) as reader:
        wanted = await reader.do(parse_job, body)
        check_rights(call, wanted)
        wanted = with_trace_headers(request, wanted)
        order = await call.server.job_creator.order(*wanted, in_thread=reader.is_large)
    created = await call.server.job_creator.create(order, call.by, call.key_scope, in_thread=reader.is_large)
    headers = {"Location": f"{request.scope.get('root_path', '')}/v1/jobs/{created.job_id}"}
    return json_text(created_text(created), 201 if created.created else 200, headers)


@endpoint(
    router, "POST", "/v1/jobs/batch", role=Role.CREATOR, answer=shapes.BatchStarted, status=201, extra=_START_BATCH,
    errors=("not_found", "conflict", "idempotency_conflict", "invalid_params"),
)  # fmt: skip
async def start_batch(request: Request, call: Call) -> Response:
    """Create up to 10,000 jobs, all or none; an error names the index of the wrong job."""
    await take_allowance(call, 1)
    body = await request.body()
    async with call.server.bodies.reader(body) as reader:
        wanted = await reader.do(batch_parser(call.server.settings.max_batch), body)
        await take_allowance(call, len(wanted), taken=1)
        for index, each in enumerate(wanted):
            check_rights(call, each, f"jobs[{index}].")
        wanted = [with_trace_headers(request, each) for each in wanted]
        orders: list[Order] = []
        try:
            await call.server.job_creator.orders(wanted, orders, in_thread=reader.is_large)
        except InvalidInput as error:
            error.message = f"jobs[{len(orders)}]: {error.message}"
            raise
    created = await call.server.job_creator.create_many(orders, call.by, call.key_scope, in_thread=reader.is_large)
    return json_text(listed("jobs", [created_text(each) for each in created]), 201)


def _parted(given: Any) -> Any:
    """Split each value of a query parameter at its commas."""
    return [part for each in given for part in each.split(",")] if isinstance(given, list) else given


@endpoint(router, "GET", "/v1/jobs", role=Role.VIEWER, answer=shapes.JobList, extra=_SEARCH_BY_PARAMS)
async def list_jobs(
    request: Request,
    call: Call,
    status: Annotated[
        list[shapes.StatusName] | None,
        BeforeValidator(_parted),
        Query(description="With one of these statuses; repeat it or separate them by commas."),
    ] = None,
    job_id: Annotated[list[str] | None, Query(alias="jobId")] = None,
    definition_key: Annotated[str | None, Query(alias="definitionKey")] = None,
    reference_type: Annotated[str | None, Query(alias="referenceType")] = None,
    reference_id: Annotated[str | None, Query(alias="referenceId")] = None,
    tag: Annotated[str | None, Query()] = None,
    schedule_id: Annotated[str | None, Query(alias="scheduleId")] = None,
    created_from: Annotated[Moment | None, Query(alias="createdFrom")] = None,
    created_to: Annotated[Moment | None, Query(alias="createdTo")] = None,
    fingerprint: Annotated[str | None, Query()] = None,
    parent_id: Annotated[str | None, Query(alias="parentId")] = None,
    error: Annotated[
        str | None,
        Query(
            description="With this text in the error, ignoring the case of ASCII letters. The 10,000 newest jobs that "
            "the other filters select are looked through; `searched` says how many."
        ),
    ] = None,
    sort: Annotated[
        Literal["createdAt", "-createdAt", "finishedAt", "-finishedAt", "priority", "-priority"], Query()
    ] = "-createdAt",
    limit: Annotated[PageLimit, Query()] = 50,
    cursor: Annotated[str | None, Query()] = None,
    count: Annotated[Truth, Query()] = False,
) -> Response:
    """List jobs, the newest first; the cursor keeps its place while jobs are created."""
    which: dict[str, Any] = {
        "job_id": job_id, "status": status, "definition_key": definition_key, "reference_type": reference_type,
        "reference_id": reference_id, "tag": tag, "schedule_id": schedule_id, "created_from": created_from,
        "created_to": created_to, "fingerprint": fingerprint, "parent_id": parent_id, "error": error,
        "params": answers.searched_params(request.query_params),
    }  # fmt: skip
    return json_text(await answers.job_page(call.app, call.server.job_output, which, sort, limit, cursor, count=count))


@endpoint(router, "POST", "/v1/jobs/bulk", role=Role.ADMIN, answer=shapes.BulkAnswer)
async def change_in_bulk(call: Call, body: shapes.BulkRequest) -> Response:
    """Change all jobs that a filter selects; `dryRun` only counts them."""
    done = await call.app.abulk(
        body.action, dry_run=body.dry_run, limit=body.limit, everything=body.everything, priority=body.priority,
        by=call.by, **shapes.given_filter(body.filter),
    )  # fmt: skip
    facts = {"matched": done.matched, "changed": done.changed, "skipped": done.skipped, "dryRun": body.dry_run}
    return json_text(spliced(facts, {}))


@endpoint(router, "POST", "/v1/jobs/trigger", role=Role.ADMIN, answer=shapes.Triggered, errors=("conflict",))
async def trigger(call: Call) -> Response:
    """Run one dispatch cycle, for hosts that only have cron; it does nothing while workers are disabled."""
    if call.server.trigger is None:
        raise Conflict(
            "This server runs no jobs.",
            hint=Hint(
                "Start a worker.",
                cli="Start `penstock serve` with an application, or `penstock worker`.",
                http="Workers run the jobs, or a server that was started with an application.",
            ),
        )
    done = await call.server.trigger()
    return json_text(spliced({"processed": done.processed, "errors": done.errors}, {}))


@endpoint(router, "GET", "/v1/jobs/{jobId}", role=Role.VIEWER, answer=shapes.JobDetail, errors=("not_found",))
async def get_job(call: Call, jobId: str) -> Response:
    """Return one job with its phases and reviews."""
    return json_text(await call.server.job_output.detail(jobId))


@endpoint(
    router, "PATCH", "/v1/jobs/{jobId}", role=Role.ADMIN, answer=shapes.JobChanged, errors=("not_found", "conflict")
)
async def patch_job(call: Call, jobId: str, body: shapes.JobPatch) -> Response:
    """Change the priority or the time of a waiting job."""
    if body.priority is None and body.run_at is None and body.delay is None:
        raise InvalidInput(
            "No change was given.",
            hint=Hint(
                "Give priority, run_at or delay.",
                cli="Give --run-at, --delay or --priority.",
                http="Send `priority`, `runAt` or `delay`.",
            ),
        )
    if body.run_at is not None or body.delay is not None:
        await call.app.areschedule_job(
            jobId, run_at=body.run_at, delay=body.delay or 0, priority=body.priority, by=call.by
        )
    elif body.priority is not None:
        await call.app.areprioritise_job(jobId, body.priority, by=call.by)
    job = await call.app.aread_job(jobId)
    return _changed(job.id, job.status)


@endpoint(
    router, "DELETE", "/v1/jobs/{jobId}", role=Role.ADMIN, answer=None, status=204, errors=("not_found", "conflict")
)
async def delete_job(call: Call, jobId: str) -> Response:
    """Delete an ended job and everything that belongs to it."""
    await call.app.adelete_job(jobId, by=call.by)
    return Response(status_code=204)


@endpoint(
    router, "GET", "/v1/jobs/{jobId}/attempts", role=Role.VIEWER, answer=shapes.AttemptList, errors=("not_found",)
)
async def list_attempts(call: Call, jobId: str) -> Response:
    """List the ended attempts at a job that are kept, the first one first."""
    found = await call.app.aattempts(jobId)
    return json_text(listed("attempts", [attempt_text(each) for each in found], earlier=count_pruned(found)))


@endpoint(router, "GET", "/v1/jobs/{jobId}/logs", role=Role.VIEWER, answer=shapes.LogList, errors=("not_found",))
async def list_logs(
    call: Call,
    jobId: str,
    level: Annotated[Literal["debug", "info", "warning", "error"] | None, Query()] = None,
    phase: Annotated[str | None, Query()] = None,
    attempt: Annotated[Natural | None, Query(description="The attempt's fence.")] = None,
    after: Annotated[Natural, Query()] = 0,
    limit: Annotated[PageLimit, Query()] = 200,
) -> Response:
    """List the log lines of a job's attempts; `level` is the lowest one returned."""
    lines = await call.app.alogs(jobId, after=after, limit=limit, level=level, phase=phase, attempt=attempt)
    following = lines[-1].seq if len(lines) == limit else None
    return json_text(listed("logs", [log_text(each) for each in lines], nextAfter=following))


@endpoint(router, "GET", "/v1/jobs/{jobId}/why", role=Role.VIEWER, answer=shapes.Why, errors=("not_found",))
async def why(call: Call, jobId: str) -> Response:
    """List the reasons why a job is not running, or what it does now."""
    reasons = await call.app.awhy(jobId)
    return json_text(listed("reasons", [reason_text(each) for each in reasons], jobId=jobId))


@endpoint(
    router, "POST", "/v1/jobs/{jobId}/cancel", role=Role.ADMIN, answer=shapes.JobChanged, status=202,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def cancel_job(call: Call, jobId: str) -> Response:
    """Cancel a job; a running one is asked to stop, and killed after its grace period."""
    job = await call.app.aread_job(jobId)
    if job.status.terminal:
        raise Conflict(f"Job {job.id} has ended as {job.status}.", job_id=job.id, hint="There is nothing to cancel.")
    return _changed(job.id, await call.app.acancel_job(job.id, by=call.by), 202)


@endpoint(
    router, "POST", "/v1/jobs/{jobId}/retry", role=Role.ADMIN, answer=shapes.JobChanged, status=202,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def retry_job(call: Call, jobId: str, body: shapes.RetryRequest | None = None) -> Response:
    """Queue a failed, cancelled or stale job again, with all its attempts."""
    body = body or shapes.RetryRequest()
    status = await call.app.aretry_job(jobId, from_phase=body.from_phase, fresh=body.fresh, by=call.by)
    return _changed(jobId, status, 202)


@endpoint(
    router, "POST", "/v1/jobs/{jobId}/rerun", role=Role.ADMIN, answer=shapes.JobStarted, status=201,
    errors=("not_found", "conflict", "invalid_params"),
    also={200: {"model": shapes.JobStarted, "description": "The idempotency key is known: that job."}},
)  # fmt: skip
async def rerun_job(
    request: Request,
    call: Call,
    jobId: str,
    body: shapes.RerunRequest | None = None,
) -> Response:
    """Create a copy of a job, linked to the original, with changed parameters if given."""
    body = body or shapes.RerunRequest()
    named = {
        "priority": body.priority, "max_attempts": body.max_attempts, "idempotency_key": body.idempotency_key,
        "run_at": body.run_at, "delay": body.delay,
    }  # fmt: skip
    options = {name: value for name, value in named.items() if value is not None}
    made = await call.app.arerun_job(jobId, body.params, by=call.by, **options)
    headers = {"Location": f"{request.scope.get('root_path', '')}/v1/jobs/{made.id}"}
    return json_text(created_text(Created(made.id, made.status, made.created)), 201 if made.created else 200, headers)


@endpoint(
    router, "POST", "/v1/jobs/{jobId}/approve", role=Role.ADMIN, answer=shapes.JobChanged,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def approve_job(call: Call, jobId: str, body: shapes.ApproveRequest | None = None) -> Response:
    """Approve a review: the job continues, or has succeeded if no phase is left."""
    body = body or shapes.ApproveRequest()
    result = body.result if "result" in body.model_fields_set else ...
    return _changed(jobId, await call.app.aapprove_job(jobId, by=call.by, note=body.note, result=result))


@endpoint(
    router, "POST", "/v1/jobs/{jobId}/reject", role=Role.ADMIN, answer=shapes.JobChanged,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def reject_job(call: Call, jobId: str, body: shapes.RejectRequest | None = None) -> Response:
    """Reject a review: the job fails, with the note as its error."""
    note = None if body is None else body.note
    return _changed(jobId, await call.app.areject_job(jobId, by=call.by, note=note))


def _changed(job_id: str, status: Status, code: int = 200) -> Response:
    return json_text(spliced({"jobId": job_id, "status": status}, {}), code)
