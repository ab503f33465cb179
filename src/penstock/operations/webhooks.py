"""Carries out operations on webhook endpoints, their secrets and deliveries."""

from __future__ import annotations

import os
import time

from penstock.domain.definition import check_key
from penstock.domain.errors import InvalidInput
from penstock.domain.hints import Hint
from penstock.domain.instant import HOUR, SECOND, microseconds
from penstock.domain.webhook import endpoint as rules
from penstock.domain.webhook.endpoint import DeliveryDetail, DeliveryPage, Endpoint, EndpointDraft
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.signature import secret_key, secret_text
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import webhooks
from penstock.surface import enqueue_options as given
from penstock.surface import webhooks as surface
from penstock.surface.webhooks import SavedWebhook

_LONGEST_DESCRIPTION = 500
_MOST_DEFINITIONS = 100
_MOST_DELIVERIES = 500
_SECRET_BYTES = 32


def read_settings(session: ApplicationSession, _: surface.ReadWebhookSettings) -> Talk[WebhookSettings]:
    yield from ()
    return session.webhook_settings


def use_settings(session: ApplicationSession, asked: surface.UseWebhookSettings) -> Talk[None]:
    yield from ()
    session.webhook_settings = asked.settings


def save_webhook(session: ApplicationSession, asked: surface.SaveWebhook) -> Talk[SavedWebhook]:
    session.webhook_settings.check(asked.url)
    if not isinstance(asked.enabled, bool):
        raise InvalidInput(f"enabled must be true or false, not {asked.enabled!r:.80}.")
    events, by = asked.events, given.operator(asked.by)
    names = [events] if isinstance(events, str) else given.several_texts(events, "events")
    draft = EndpointDraft(
        id=_id(asked.webhook_id) if asked.webhook_id is not None else session.ids.new_id(),
        url=asked.url,
        description=_description(asked.description),
        events=rules.check_events(names),
        definition_keys=_definitions(asked.definition_keys),
        enabled=asked.enabled,
    )
    if asked.webhook_id is not None:
        if asked.secret is not None:
            raise InvalidInput(
                "An endpoint keeps its secret.",
                hint=Hint(
                    "Call webhooks.rotate_secret(id).",
                    cli="`penstock webhooks rotate ID` makes another one.",
                    http="POST /v1/webhooks/{webhookId}/rotate makes another one.",
                ),
            )
        return SavedWebhook((yield webhooks.save_endpoint(draft, by=by, revision=asked.revision)))
    chosen = _secret(asked.secret)
    return SavedWebhook((yield webhooks.save_endpoint(draft, by=by, secret=chosen)), chosen)


def list_webhooks(_: ApplicationSession, __: surface.ListWebhooks) -> Talk[list[Endpoint]]:
    found: list[Endpoint] = yield webhooks.endpoints()
    return found


def get_webhook(_: ApplicationSession, asked: surface.GetWebhook) -> Talk[Endpoint]:
    found: Endpoint = yield webhooks.endpoint(_id(asked.webhook_id))
    return found


def delete_webhook(_: ApplicationSession, asked: surface.DeleteWebhook) -> Talk[None]:
    yield webhooks.remove_endpoint(_id(asked.webhook_id), by=given.operator(asked.by))


def rotate_secret(_: ApplicationSession, asked: surface.RotateSecret) -> Talk[SavedWebhook]:
    chosen = _secret(asked.secret)
    overlap = microseconds(asked.overlap, "overlap")
    if overlap > 30 * 24 * HOUR:
        raise InvalidInput(f"Two secrets are valid for 30 days at most, not {overlap // SECOND} s.")
    by = given.operator(asked.by)
    found: Endpoint = yield webhooks.rotate_secret(_id(asked.webhook_id), chosen, overlap=overlap, by=by)
    return SavedWebhook(found, chosen)


def list_deliveries(_: ApplicationSession, asked: surface.ListDeliveries) -> Talk[DeliveryPage]:
    if not 1 <= given.integer(asked.limit, "limit") <= _MOST_DELIVERIES:
        raise InvalidInput(f"limit must be 1 to {_MOST_DELIVERIES}, not {asked.limit}.")
    found: DeliveryPage = yield webhooks.deliveries(
        endpoint=given.short_text(asked.webhook_id, "webhook_id"),
        job_id=None if asked.job_id is None else given.job_id(asked.job_id),
        status=asked.status,
        limit=asked.limit,
        cursor=given.short_text(asked.cursor, "cursor"),
    )
    return found


def get_delivery(_: ApplicationSession, asked: surface.GetDelivery) -> Talk[DeliveryDetail]:
    found: DeliveryDetail = yield webhooks.delivery(_id(asked.delivery_id))
    return found


def redeliver(_: ApplicationSession, asked: surface.Redeliver) -> Talk[DeliveryDetail]:
    found: DeliveryDetail = yield webhooks.redeliver(_id(asked.delivery_id), by=given.operator(asked.by))
    return found


def send_test(_: ApplicationSession, asked: surface.TestWebhook) -> Talk[DeliveryDetail]:
    at = time.time_ns() // 1000
    found: DeliveryDetail = yield webhooks.test_endpoint(_id(asked.webhook_id), at, by=given.operator(asked.by))
    return found


def _id(value: object) -> str:
    text = given.short_text(value, "id")
    if text is None:
        raise InvalidInput("An id is a text.")
    return text


def _description(value: str) -> str:
    return "" if value == "" else given.short_text(value, "description", _LONGEST_DESCRIPTION) or ""


def _definitions(value: object) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(given.several_texts(value, "definitions")))
    if len(keys) > _MOST_DEFINITIONS:
        raise InvalidInput(f"An endpoint names at most {_MOST_DEFINITIONS} definitions, not {len(keys)}.")
    for key in keys:
        check_key(key)
    return keys


def _secret(value: str | None) -> str:
    """The given secret, or a new one."""
    if value is None:
        return secret_text(os.urandom(_SECRET_BYTES))
    if not isinstance(value, str):
        raise InvalidInput("A webhook secret is a text.")
    secret_key(value)
    return value
