"""`/v1/schedules`: create, change, pause, preview and trigger schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from penstock.definitions.schedule_options import ScheduleFacts
from penstock.domain.access import Role
from penstock.domain.errors import Conflict, Hint, InvalidSchedule, NotFound, RevisionConflict
from penstock.domain.instant import SECOND, maybe_datetime, to_datetime
from penstock.domain.job import Created
from penstock.domain.job_json import created_text, iso, listed, spliced
from penstock.domain.schedule.preview import Preview
from penstock.domain.schedule.schedule import ScheduleRow
from penstock.http.answers import page, pause_facts
from penstock.http.authentication import Call, Caller
from penstock.http.headers import TAGGED, Expected, etag
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import schedules as shapes
from penstock.http.schemas.base import PageLimit
from penstock.http.schemas.definitions import PauseRequest
from penstock.http.schemas.jobs import JobStarted

router: APIRouter = APIRouter(route_class=Route)
_APART = frozenset({"key", "definition_key", "kind", "expression"})


@endpoint(
    router, "POST", "/v1/schedules", role=Role.ADMIN, answer=shapes.Schedule, status=201, also={201: TAGGED},
    errors=("not_found", "conflict", "invalid_params", "invalid_schedule"),
)  # fmt: skip
async def create_schedule(request: Request, call: Call, body: shapes.ScheduleRequest) -> Response:
    """Create a schedule; an existing key is a conflict."""
    try:
        row = await call.app.asave_schedule(body.key, body.definition_key, revision=0, by=call.by, **_facts(body))
    except RevisionConflict:
        raise Conflict(
            f"Schedule {body.key!r} exists already.",
            hint=Hint(
                "Call change_schedule(key, …) to change it.",
                cli="Change it with `penstock schedules edit KEY`.",
                http="Send PUT to replace it, or PATCH to change it.",
            ),
        ) from None
    return await _response(call, row, 201, _location(request, row.schedule.key))


@endpoint(router, "GET", "/v1/schedules", role=Role.VIEWER, answer=shapes.ScheduleList)
async def list_schedules(
    call: Call,
    limit: Annotated[PageLimit, Query()] = 100,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List schedules by key."""
    rows, following = page(await call.app.aschedules(), lambda row: row.schedule.key, limit, cursor)
    texts = [await _text(call, row) for row in rows]
    return json_text(listed("schedules", texts, nextCursor=following))


@endpoint(
    router, "POST", "/v1/schedules/preview", role=Role.VIEWER, answer=shapes.Preview, errors=("invalid_schedule",)
)
async def preview_expression(call: Call, body: shapes.PreviewRequest) -> Response:
    """List the next ticks of an expression before a schedule is created."""
    facts = ScheduleFacts(timezone=body.timezone, **_when(body.kind, body.expression))
    return _previewed(await call.app.apreview_facts(body.count, **facts))


@endpoint(
    router, "GET", "/v1/schedules/{key:key}/preview", role=Role.VIEWER, answer=shapes.Preview,
    errors=("not_found", "invalid_schedule"),
)  # fmt: skip
async def preview_schedule(call: Call, key: str, count: Annotated[shapes.PreviewCount, Query()] = 10) -> Response:
    """List the next ticks of a schedule; fewer if it ends before."""
    return _previewed(await call.app.apreview_schedule(key, count))


@endpoint(
    router, "GET", "/v1/schedules/{key:key}/ticks", role=Role.VIEWER, answer=shapes.TickList, errors=("not_found",)
)
async def list_ticks(call: Call, key: str, limit: Annotated[PageLimit, Query()] = 50) -> Response:
    """List the newest ticks of a schedule with their results."""
    ticks = await call.app.aschedule_ticks(key, limit)
    return json_text(listed("ticks", [_tick_text(each) for each in ticks]))


@endpoint(
    router, "POST", "/v1/schedules/{key:key}/pause", role=Role.ADMIN, answer=shapes.Schedule, also={200: TAGGED},
    errors=("not_found",),
)  # fmt: skip
async def pause_schedule(call: Call, key: str, body: PauseRequest) -> Response:
    """Pause a schedule until it is resumed, or until a time; ticks meanwhile are skipped."""
    await call.app.apause_schedule(key, body.reason, until=body.until, by=call.by)
    return await _response(call, await call.app.aget_schedule(key))


@endpoint(
    router, "POST", "/v1/schedules/{key:key}/resume", role=Role.ADMIN, answer=shapes.Schedule, also={200: TAGGED},
    errors=("not_found", "invalid_schedule"),
)  # fmt: skip
async def resume_schedule(call: Call, key: str) -> Response:
    """Resume a paused schedule with its next tick."""
    await call.app.aresume_schedule(key, by=call.by)
    return await _response(call, await call.app.aget_schedule(key))


@endpoint(
    router, "POST", "/v1/schedules/{key:key}/trigger", role=Role.ADMIN, answer=JobStarted, status=201,
    errors=("not_found", "conflict", "invalid_params", "invalid_schedule"),
)  # fmt: skip
async def trigger_schedule(request: Request, call: Call, key: str) -> Response:
    """Create a job of a schedule now, independent of its ticks."""
    made = await call.app.atrigger_schedule(key, by=call.by)
    headers = {"Location": f"{request.scope.get('root_path', '')}/v1/jobs/{made.id}"}
    return json_text(created_text(Created(made.id, made.status, made.created)), 201, headers)


@endpoint(
    router, "GET", "/v1/schedules/{key:whole}", role=Role.VIEWER, answer=shapes.Schedule, also={200: TAGGED},
    errors=("not_found",),
)  # fmt: skip
async def get_schedule(call: Call, key: str) -> Response:
    """Return one schedule. A key may contain `/`, which may be quoted as `%2F`."""
    return await _response(call, await call.app.aget_schedule(key))


@endpoint(
    router, "PUT", "/v1/schedules/{key:whole}", role=Role.ADMIN, answer=shapes.Schedule,
    also={200: TAGGED, 201: {"model": shapes.Schedule, "description": "The schedule was created.", **TAGGED}},
    errors=("not_found", "invalid_params", "invalid_schedule", "revision_conflict"),
)  # fmt: skip
async def replace_schedule(
    request: Request, call: Call, key: str, body: shapes.ScheduleReplacement, expected: Expected
) -> Response:
    """Create a schedule, or replace all its fields except the pause. An operator owns it afterwards."""
    try:
        await call.app.aget_schedule(key)
        new = False
    except NotFound:
        new = True
    row = await call.app.asave_schedule(key, body.definition_key, revision=expected, by=call.by, **_facts(body))
    return await _response(call, row, 201 if new else 200, _location(request, key) if new else {})


@endpoint(
    router, "PATCH", "/v1/schedules/{key:whole}", role=Role.ADMIN, answer=shapes.Schedule, also={200: TAGGED},
    errors=("not_found", "invalid_params", "invalid_schedule", "revision_conflict"),
)  # fmt: skip
async def change_schedule(call: Call, key: str, body: shapes.SchedulePatch, expected: Expected) -> Response:
    """Change some fields of a schedule. An operator owns it afterwards, even if code declared it."""
    changes = _given(body)
    if body.expression is not None:
        kind = body.kind or (await call.app.aget_schedule(key)).schedule.kind
        changes.update(_when(kind, body.expression))
    elif body.kind is not None:
        raise InvalidSchedule("A kind needs an expression.", hint="Send both.")
    return await _response(call, await call.app.achange_schedule(key, revision=expected, by=call.by, **changes))


@endpoint(
    router, "DELETE", "/v1/schedules/{key:whole}", role=Role.ADMIN, answer=None, status=204,
    errors=("not_found", "revision_conflict"),
)  # fmt: skip
async def delete_schedule(call: Call, key: str, expected: Expected) -> Response:
    """Delete a schedule; its jobs stay."""
    await call.app.adelete_schedule(key, revision=expected, by=call.by)
    return Response(status_code=204)


def _facts(body: shapes.ScheduleReplacement) -> ScheduleFacts:
    """Return a schedule's fields by their names in Python."""
    facts = _given(body)
    facts.update(_when(body.kind, body.expression))
    return facts


def _given(body: BaseModel) -> ScheduleFacts:
    """Return the fields that were sent, except the expression."""
    names = body.model_fields_set - _APART
    given: Any = {name: getattr(body, name) for name in names}
    facts: ScheduleFacts = given
    return facts


def _when(kind: str, expression: str) -> ScheduleFacts:
    if kind == "cron":
        return ScheduleFacts(cron=expression)
    if kind == "interval":
        return ScheduleFacts(every=expression)
    try:
        return ScheduleFacts(at=datetime.fromisoformat(expression))
    except (ValueError, OverflowError):
        raise InvalidSchedule(
            f"{expression[:80]!r} is not a time.", hint="Write date, time and offset from UTC: 2027-01-15T08:00:00Z."
        ) from None


def _location(request: Request, key: str) -> dict[str, str]:
    return {"Location": f"{request.scope.get('root_path', '')}/v1/schedules/{quote(key, safe='')}"}


async def _response(
    call: Caller, row: ScheduleRow, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return json_text(await _text(call, row), status, {**etag(row.revision), **(headers or {})})


async def _text(call: Caller, row: ScheduleRow) -> str:
    schedule = row.schedule
    window = schedule.missed_window
    facts = {
        "key": schedule.key,
        "definitionKey": schedule.definition_key,
        "definitionVersion": schedule.definition_version,
        "kind": schedule.kind,
        "expression": schedule.expression,
        "priority": schedule.priority,
        "concurrencyKey": schedule.concurrency_key,
        "timezone": schedule.timezone,
        "missed": schedule.missed,
        "missedMax": schedule.missed_max,
        "missedWindow": None if window is None else window / SECOND,
        "overlap": schedule.overlap,
        "jitter": schedule.jitter / SECOND,
        "enabled": schedule.enabled,
        "owner": schedule.owner,
        "origin": schedule.origin,
        "nextRunAt": iso(maybe_datetime(schedule.next_run_at)),
        "lastScheduledAt": iso(row.last_scheduled_at),
        "pause": pause_facts(row.pause),
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
        "revision": row.revision,
        "error": row.error,
    }
    params = await call.server.job_output.schedule_params(
        schedule.definition_key, schedule.definition_version, schedule.params_text
    )
    return spliced(facts, {"params": params})


def _previewed(found: Preview) -> Response:
    fires = [
        spliced({"at": iso(to_datetime(each.instant)), "local": each.local, "relative": each.relative}, {})
        for each in found.fires
    ]
    return json_text(listed("fires", fires, sentence=found.sentence))


def _tick_text(tick: dict[str, Any]) -> str:
    return spliced({**tick, "scheduledFor": iso(tick["scheduledFor"]), "at": iso(tick["at"])}, {})
