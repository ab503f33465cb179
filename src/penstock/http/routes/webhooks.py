"""`/v1/webhooks`: endpoints that receive events, and their deliveries."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.access import Role
from penstock.domain.errors import Hint, InvalidInput, RevisionConflict
from penstock.domain.job_json import iso, listed, spliced
from penstock.domain.webhook import endpoint as rules
from penstock.domain.webhook.url import without_path
from penstock.http.authentication import Call, Caller
from penstock.http.headers import TAGGED, Expected, etag
from penstock.http.routing import Route, endpoint, json_text
from penstock.http.schemas import webhooks as shapes
from penstock.http.schemas.base import PageLimit

router: APIRouter = APIRouter(route_class=Route)
_MOST_TRIES = 20


@endpoint(
    router, "POST", "/v1/webhooks", role=Role.ADMIN, answer=shapes.CreatedWebhook, status=201, also={201: TAGGED},
    errors=("conflict",),
)  # fmt: skip
async def create_webhook(request: Request, call: Call, body: shapes.WebhookRequest) -> Response:
    """Create an endpoint; only this answer contains its secret."""
    made = await call.app.asave_webhook(**_fields(body), secret=body.secret, by=call.by)
    location = f"{request.scope.get('root_path', '')}/v1/webhooks/{made.endpoint.id}"
    facts = {**_facts(call, made.endpoint), "secret": made.secret}
    return json_text(spliced(facts, {}), 201, {**etag(made.endpoint.revision), "Location": location})


@endpoint(router, "GET", "/v1/webhooks", role=Role.VIEWER, answer=shapes.WebhookList)
async def list_webhooks(call: Call) -> Response:
    """List all endpoints, without their secrets."""
    return json_text(listed("webhooks", [spliced(_facts(call, each), {}) for each in await call.app.awebhooks()]))


@endpoint(router, "GET", "/v1/webhooks/deliveries", role=Role.VIEWER, answer=shapes.DeliveryList)
async def list_deliveries(
    call: Call,
    webhook_id: Annotated[
        str | None, Query(alias="webhookId", description="An endpoint, or `global`, or `job`.", min_length=1)
    ] = None,
    job_id: Annotated[str | None, Query(alias="jobId")] = None,
    status: Annotated[shapes.DeliveryStatus | None, Query()] = None,
    limit: Annotated[PageLimit, Query()] = 50,
    cursor: Annotated[str | None, Query()] = None,
) -> Response:
    """List deliveries, sent and waiting, the newest first."""
    page = await call.app.adeliveries(webhook_id=webhook_id, job_id=job_id, status=status, limit=limit, cursor=cursor)
    texts = [spliced(_delivery_facts(call, each), {}) for each in page.deliveries]
    return json_text(listed("deliveries", texts, nextCursor=page.next_cursor))


@endpoint(
    router, "GET", "/v1/webhooks/deliveries/{deliveryId}", role=Role.VIEWER, answer=shapes.DeliveryDetail,
    errors=("not_found",),
)  # fmt: skip
async def get_delivery(call: Call, deliveryId: str) -> Response:
    """Return one delivery with its body and all its tries."""
    return _delivery_response(call, await call.app.aget_delivery(deliveryId))


@endpoint(
    router, "POST", "/v1/webhooks/deliveries/{deliveryId}/redeliver", role=Role.ADMIN, answer=shapes.DeliveryDetail,
    status=202, errors=("not_found", "conflict"),
)  # fmt: skip
async def redeliver(call: Call, deliveryId: str) -> Response:
    """Send a delivery again, with the same id and body."""
    return _delivery_response(call, await call.app.aredeliver(deliveryId, by=call.by), 202)


@endpoint(
    router, "GET", "/v1/webhooks/{webhookId}", role=Role.VIEWER, answer=shapes.Webhook, also={200: TAGGED},
    errors=("not_found",),
)  # fmt: skip
async def get_webhook(call: Call, webhookId: str) -> Response:
    """Return one endpoint, without its secrets."""
    return _response(call, await call.app.aget_webhook(webhookId))


@endpoint(
    router, "PUT", "/v1/webhooks/{webhookId}", role=Role.ADMIN, answer=shapes.Webhook, also={200: TAGGED},
    errors=("not_found", "revision_conflict"),
)  # fmt: skip
async def replace_webhook(
    call: Call,
    webhookId: str,
    body: shapes.WebhookReplacement,
    expected: Expected,
) -> Response:
    """Replace all fields of an endpoint; its secret stays."""
    saved = await call.app.asave_webhook(**_fields(body), webhook_id=webhookId, revision=expected, by=call.by)
    return _response(call, saved.endpoint)


@endpoint(
    router, "PATCH", "/v1/webhooks/{webhookId}", role=Role.ADMIN, answer=shapes.Webhook, also={200: TAGGED},
    errors=("not_found", "revision_conflict"),
)  # fmt: skip
async def change_webhook(
    call: Call,
    webhookId: str,
    body: shapes.WebhookPatch,
    expected: Expected,
) -> Response:
    """Change some fields of an endpoint."""
    if not body.model_fields_set:
        raise InvalidInput(
            "No change was given.",
            hint=Hint(
                "Give url, events, definition_keys, description or enabled.",
                cli="Give --url, --event, --definition-key or --enabled.",
                http="Send `url`, `events`, `definitionKeys`, `description` or `enabled`.",
            ),
        )
    changes = {name: getattr(body, name) for name in body.model_fields_set}
    for left in reversed(range(_MOST_TRIES)):
        stored = await call.app.aget_webhook(webhookId)
        facts = {
            "url": stored.url, "events": list(stored.events), "definition_keys": list(stored.definition_keys),
            "description": stored.description, "enabled": stored.enabled,
        }  # fmt: skip
        merged = shapes.WebhookReplacement.model_construct(None, **{**facts, **changes})
        # Fields that were not sent come from the read, so a concurrent change to them must not be lost.
        revision = stored.revision if expected is None else expected
        try:
            saved = await call.app.asave_webhook(**_fields(merged), webhook_id=webhookId, revision=revision, by=call.by)
        except RevisionConflict:
            if expected is not None or not left:
                raise
        else:
            return _response(call, saved.endpoint)
    raise AssertionError("the last try raises")


@endpoint(router, "DELETE", "/v1/webhooks/{webhookId}", role=Role.ADMIN, answer=None, status=204, errors=("not_found",))
async def delete_webhook(call: Call, webhookId: str) -> Response:
    """Delete an endpoint; its waiting deliveries are dropped."""
    await call.app.adelete_webhook(webhookId, by=call.by)
    return Response(status_code=204)


@endpoint(
    router, "POST", "/v1/webhooks/{webhookId}/rotate", role=Role.ADMIN, answer=shapes.CreatedWebhook,
    also={200: TAGGED},
    errors=("not_found",),
)  # fmt: skip
async def rotate_secret(call: Call, webhookId: str, body: shapes.RotateRequest | None = None) -> Response:
    """Replace the secret, which only this answer contains; the old one signs too for a while."""
    body = body or shapes.RotateRequest()
    made = await call.app.arotate_webhook_secret(webhookId, secret=body.secret, overlap=body.overlap, by=call.by)
    facts = {**_facts(call, made.endpoint), "secret": made.secret}
    return json_text(spliced(facts, {}), headers=etag(made.endpoint.revision))


@endpoint(
    router, "POST", "/v1/webhooks/{webhookId}/test", role=Role.ADMIN, answer=shapes.DeliveryDetail, status=202,
    errors=("not_found", "conflict"),
)  # fmt: skip
async def test_webhook(call: Call, webhookId: str) -> Response:
    """Send an endpoint a message of type `webhook.test`; its delivery has the receiver's answer."""
    return _delivery_response(call, await call.app.atest_webhook(webhookId, by=call.by), 202)


def _fields(body: shapes.WebhookReplacement) -> dict[str, Any]:
    """Return an endpoint's fields by their names in Python."""
    return {
        "url": body.url, "events": body.events, "definition_keys": body.definition_keys,
        "description": body.description, "enabled": body.enabled,
    }  # fmt: skip


def _response(call: Caller, found: rules.Endpoint) -> Response:
    return json_text(spliced(_facts(call, found), {}), headers=etag(found.revision))


def _facts(call: Caller, found: rules.Endpoint) -> dict[str, Any]:
    return {
        "webhookId": found.id,
        "url": _shown(call, found.url),
        "events": found.events,
        "definitionKeys": found.definition_keys,
        "description": found.description,
        "enabled": found.enabled,
        "secretHints": found.secret_hints,
        "previousSecretUntil": iso(found.previous_secret_until),
        "disabledReason": found.disabled_reason,
        "failures": found.failures,
        "openUntil": iso(found.open_until),
        "lastSuccessAt": iso(found.last_success_at),
        "lastFailureAt": iso(found.last_failure_at),
        "createdAt": iso(found.created_at),
        "updatedAt": iso(found.updated_at),
        "revision": found.revision,
    }


def _delivery_response(call: Caller, found: rules.DeliveryDetail, status: int = 200) -> Response:
    tries = [
        {
            "number": each.number, "at": iso(each.at), "duration": each.duration, "statusCode": each.status_code,
            "error": each.error, "excerpt": each.excerpt,
        }
        for each in found.tries
    ]  # fmt: skip
    facts = {**_delivery_facts(call, found.delivery), "history": tries}
    return json_text(spliced(facts, {"body": found.body}), status)


def _delivery_facts(call: Caller, found: rules.Delivery) -> dict[str, Any]:
    return {
        "deliveryId": found.id,
        "webhookId": found.webhook_id,
        "url": _shown(call, found.url),
        "type": found.type,
        "jobId": found.job_id,
        "status": found.status,
        "tries": found.tries,
        "dueAt": iso(found.due_at),
        "createdAt": iso(found.created_at),
        "finishedAt": iso(found.finished_at),
        "statusCode": found.status_code,
        "error": found.error,
    }


def _shown(call: Caller, url: str) -> str:
    """Return the full URL to callers that may change it, otherwise without its path."""
    return url if call.role is not None and call.role.covers(Role.ADMIN) else without_path(url)
