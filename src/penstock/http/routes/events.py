"""`/v1/events` and `/v1/jobs/{jobId}/events`: events as a list or as a stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.errors import InvalidInput, NotFound
from penstock.domain.ids import parse_uuid
from penstock.domain.job_json import listed
from penstock.http.authentication import Call, Caller
from penstock.http.errors import RequestError
from penstock.http.headers import wants_stream
from penstock.http.request_origin import address_of
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import monitoring as shapes
from penstock.http.schemas.base import PageLimit, Truth
from penstock.http.streaming.event_pages import EventFilter, EventPage, Item
from penstock.http.streaming.sse_streams import (
    FeedStream,
    JobStream,
    Stream,
    StreamResponse,
    job_cursor,
    stream_limits_of,
)
from penstock.operations.events import patterns
from penstock.operations.job_reading import GONE
from penstock.surface.events import ORIGIN

router: APIRouter = APIRouter(route_class=Route)
_MOST_PAGES = 10
_SEARCHED = 500
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A list; or with `Accept: text/event-stream` a stream of server-sent events.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

Types = Annotated[
    list[str] | None, Query(alias="type", description="Types, such as `job.failed` or `job.*`; may be repeated.")
]
After = Annotated[str | None, Query(description="The cursor to continue from, or `origin` for all stored events.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", description="As `after`, and takes precedence over it; browsers send it.")
]
Snapshot = Annotated[Truth, Query(description="Whether a stream starts with the jobs that have not ended.")]
Limit = Annotated[PageLimit | None, Query(description="Of a list; 100 by default.")]


@endpoint(
    router, "GET", "/v1/events", role=Role.VIEWER, answer=shapes.EventList, also=_STREAM,
    errors=("not_acceptable", "feed_gone", "too_many_streams"),
)  # fmt: skip
async def list_events(
    request: Request,
    call: Call,
    types: Types = None,
    definition_key: Annotated[str | None, Query(alias="definitionKey")] = None,
    job_id: Annotated[list[str] | None, Query(alias="jobId")] = None,
    after: After = None,
    limit: Limit = None,
    snapshot: Snapshot = False,
    last_event_id: LastEventId = None,
) -> Response:
    """List events from the oldest on, or stream them from now on; `after` continues from a cursor."""
    wanted = EventFilter(
        None if types is None else tuple(patterns(types)),
        definition_key,
        None if job_id is None else frozenset(parse_uuid(each) for each in job_id),
    )
    streamed = wants_stream(request.headers.getlist("accept"))
    begin = _begin(request, after, last_event_id, snapshot, limit, streamed)
    if streamed:
        return await _stream(request, call, FeedStream(call.server.streams, call.app, wanted, snapshot), begin)
    pages = call.server.streams.pages
    cursor = await pages.origin() if begin in (None, ORIGIN) else begin or ""

    async def page(cursor: str, size: int) -> EventPage:
        try:
            return await pages.after(cursor, size, wanted)
        except InvalidInput as error:
            raise RequestError("malformed", error.message, hint=error.hint) from None

    return await _list(page, cursor, limit or 100, wanted)


@endpoint(
    router, "GET", "/v1/jobs/{jobId}/events", role=Role.VIEWER, answer=shapes.EventList, also=_STREAM,
    errors=("not_found", "not_acceptable", "too_many_streams"),
)  # fmt: skip
async def list_job_events(
    request: Request,
    call: Call,
    jobId: str,
    types: Types = None,
    after: After = None,
    limit: Limit = None,
    snapshot: Snapshot = False,
    last_event_id: LastEventId = None,
) -> Response:
    """List or stream the events of one job from its first on; a cursor is an event's `seq` here."""
    job_id = parse_uuid(jobId)
    wanted = EventFilter(None if types is None else tuple(patterns(types)), None, frozenset({job_id}), numbered=True)
    streamed = wants_stream(request.headers.getlist("accept"))
    begin = _begin(request, after, last_event_id, snapshot, limit, streamed)
    if streamed:
        return await _stream(request, call, JobStream(call.server.streams, call.app, wanted, snapshot, job_id), begin)
    pages = call.server.streams.pages
    if not (await pages.of_job(job_id, 0, 1)).items:
        raise NotFound("job", job_id, hint=GONE)

    async def page(cursor: str, size: int) -> EventPage:
        return await pages.of_job(job_id, int(cursor), size, wanted)

    return await _list(page, str(job_cursor(begin)), limit or 100, wanted)


async def _stream(request: Request, call: Caller, stream: Stream, begin: str | None) -> Response:
    limits = stream_limits_of(call, address_of(request))
    stream.hub.check_room(limits)
    await stream.open(begin)
    return StreamResponse(stream, request, limits)


async def _list(
    read: Callable[[str, int], Awaitable[EventPage]], cursor: str, limit: int, wanted: EventFilter
) -> Response:
    """Return up to `limit` matching events; if few match, the search continues with the next request."""
    searching = wanted.types is not None or wanted.definition is not None or (not wanted.numbered and wanted.job_ids)
    items: list[Item] = []
    more = True
    for _ in range(_MOST_PAGES):
        room = limit - len(items)
        page = await read(cursor, _SEARCHED if searching else room)
        items += page.items[:room]
        if len(page.items) > room:
            cursor, more = items[-1].cursor, True
            break
        cursor, more = page.cursor, page.more
        if not more or len(items) == limit:
            break
    return json_text(listed("events", [each.text for each in items], nextCursor=cursor, more=more))


def _begin(
    request: Request,
    after: str | None,
    last_event_id: str | None,
    snapshot: bool,
    limit: int | None,
    streamed: bool,
) -> str | None:
    """Return the cursor to start at; a client that reconnects sends the header with its old URL."""
    if len(request.headers.getlist("last-event-id")) > 1:
        raise RequestError("malformed", "The header Last-Event-ID was sent more than once.")
    if snapshot and after is not None:
        raise InvalidInput("A snapshot starts now: send `after` or `snapshot`, not both.")
    if snapshot and not streamed:
        raise InvalidInput(
            "Only a stream can start with a snapshot.", hint="Send the header Accept: text/event-stream."
        )
    if limit is not None and streamed:
        raise InvalidInput("A stream has no `limit`.", hint="Send the header Accept: application/json for a list.")
    return last_event_id or after
