"""`/v1/webhooks`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.client import records
from penstock.client.exchange import Asked, Talk
from penstock.client.routes.requests import given_only, if_match, path_part, refuse_name, seconds
from penstock.domain.errors import InvalidInput
from penstock.domain.webhook.endpoint import Delivery, DeliveryDetail, DeliveryPage, Endpoint, Try
from penstock.surface import webhooks as surface
from penstock.surface.webhooks import SavedWebhook

_PATH = "/v1/webhooks"


def save_webhook(asked: surface.SaveWebhook) -> Talk[SavedWebhook]:
    refuse_name(asked.by)
    events = [asked.events] if isinstance(asked.events, str) else list(asked.events)
    body = {
        "url": asked.url, "events": events, "definitionKeys": list(asked.definition_keys),
        "description": asked.description, "enabled": asked.enabled,
    }  # fmt: skip
    if asked.webhook_id is None:
        told = (yield Asked("POST", _PATH, body=body | given_only({"secret": asked.secret}), repeatable=False)).json()
        return SavedWebhook(_endpoint(told), told["secret"])
    if asked.secret is not None:
        raise InvalidInput("An endpoint keeps its secret.", hint="Call webhooks.rotate_secret(id).")
    answer = yield Asked(
        "PUT", _one(asked.webhook_id), body=body, headers=if_match(asked.revision), repeatable=asked.revision is None
    )
    return SavedWebhook(_endpoint(answer.json()))


def list_webhooks(_: surface.ListWebhooks) -> Talk[list[Endpoint]]:
    return [_endpoint(each) for each in (yield Asked("GET", _PATH)).json()["webhooks"]]


def get_webhook(asked: surface.GetWebhook) -> Talk[Endpoint]:
    return _endpoint((yield Asked("GET", _one(asked.webhook_id))).json())


def delete_webhook(asked: surface.DeleteWebhook) -> Talk[None]:
    refuse_name(asked.by)
    yield Asked("DELETE", _one(asked.webhook_id), repeatable=False)


def rotate_secret(asked: surface.RotateSecret) -> Talk[SavedWebhook]:
    refuse_name(asked.by)
    body = given_only({"secret": asked.secret, "overlap": seconds(asked.overlap, "overlap")})
    told = (yield Asked("POST", f"{_one(asked.webhook_id)}/rotate", body=body, repeatable=False)).json()
    return SavedWebhook(_endpoint(told), told["secret"])


def send_test(asked: surface.TestWebhook) -> Talk[DeliveryDetail]:
    refuse_name(asked.by)
    return _detail((yield Asked("POST", f"{_one(asked.webhook_id)}/test", repeatable=False)).json())


def list_deliveries(asked: surface.ListDeliveries) -> Talk[DeliveryPage]:
    query = given_only(
        {
            "webhookId": asked.webhook_id, "jobId": asked.job_id, "status": asked.status, "limit": asked.limit,
            "cursor": asked.cursor,
        }
    )  # fmt: skip
    told = (yield Asked("GET", f"{_PATH}/deliveries", query=query)).json()
    return DeliveryPage([_delivery(each) for each in told["deliveries"]], told["nextCursor"])


def get_delivery(asked: surface.GetDelivery) -> Talk[DeliveryDetail]:
    return _detail((yield Asked("GET", _sent(asked.delivery_id))).json())


def redeliver(asked: surface.Redeliver) -> Talk[DeliveryDetail]:
    refuse_name(asked.by)
    return _detail((yield Asked("POST", f"{_sent(asked.delivery_id)}/redeliver", repeatable=False)).json())


def _one(webhook_id: str) -> str:
    return f"{_PATH}/{path_part(webhook_id, 'The id of an endpoint')}"


def _sent(delivery_id: str) -> str:
    return f"{_PATH}/deliveries/{path_part(delivery_id, 'The id of a delivery')}"


def _endpoint(told: Mapping[str, Any]) -> Endpoint:
    return Endpoint(
        id=told["webhookId"],
        url=told["url"],
        description=told["description"],
        events=tuple(told["events"]),
        definition_keys=tuple(told["definitionKeys"]),
        enabled=told["enabled"],
        secret_hints=tuple(told["secretHints"]),
        previous_secret_until=records.moment(told["previousSecretUntil"]),
        disabled_reason=told["disabledReason"],
        failures=told["failures"],
        open_until=records.moment(told["openUntil"]),
        last_success_at=records.moment(told["lastSuccessAt"]),
        last_failure_at=records.moment(told["lastFailureAt"]),
        created_at=datetime.fromisoformat(told["createdAt"]),
        updated_at=datetime.fromisoformat(told["updatedAt"]),
        revision=told["revision"],
    )


def _delivery(told: Mapping[str, Any]) -> Delivery:
    return Delivery(
        id=told["deliveryId"],
        webhook_id=told["webhookId"],
        url=told["url"],
        type=told["type"],
        job_id=told["jobId"],
        status=told["status"],
        tries=told["tries"],
        due_at=datetime.fromisoformat(told["dueAt"]),
        created_at=datetime.fromisoformat(told["createdAt"]),
        finished_at=records.moment(told["finishedAt"]),
        status_code=told["statusCode"],
        error=told["error"],
        seq=0,
    )


def _detail(told: Mapping[str, Any]) -> DeliveryDetail:
    tries = [
        Try(
            each["number"], datetime.fromisoformat(each["at"]), each["duration"], each["statusCode"], each["error"],
            each["excerpt"],
        )
        for each in told["history"]
    ]  # fmt: skip
    return DeliveryDetail(_delivery(told), records.text(told["body"]) or "", tries)
