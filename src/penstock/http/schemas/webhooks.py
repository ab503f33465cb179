"""Shapes of webhook endpoints and deliveries."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.domain.webhook.endpoint import DEFAULT_EVENTS
from penstock.http.schemas.base import Moment, PatchModel, Payload, RequestModel, ResponseModel

DeliveryStatus = Literal["waiting", "delivered", "failed"]
_EVENTS = "Event types, patterns such as `job.*`, or `onStart`, `onSuccess`, `onFail`, `onEnd`."


class WebhookReplacement(RequestModel):
    """All fields of an endpoint; its secret stays."""

    url: str
    events: list[str] = Field(list(DEFAULT_EVENTS), min_length=1, max_length=100, description=_EVENTS)
    definition_keys: list[str] = Field(
        [], max_length=100, description="Only for jobs of these definitions; empty: all."
    )
    description: str = Field("", max_length=500)
    enabled: bool = True


class WebhookRequest(WebhookReplacement):
    """An endpoint to create; without a secret it gets a new one."""

    secret: str | None = Field(None, description="`whsec_` and the base64 of 24 to 64 bytes.")


class WebhookPatch(PatchModel):
    """Fields to change; what is left out stays."""

    url: str = ""
    events: list[str] = Field([], min_length=1, max_length=100, description=_EVENTS)
    definition_keys: list[str] = Field([], max_length=100)
    description: str = Field("", max_length=500)
    enabled: bool = True


class RotateRequest(RequestModel):
    """A new secret, and the seconds for which the old one signs too."""

    secret: str | None = None
    overlap: float = Field(default=86_400.0, ge=0, le=30 * 86_400, strict=False)


class Webhook(ResponseModel):
    """An endpoint; of its secrets only the last four characters are shown."""

    webhook_id: str
    url: str
    events: list[str]
    definition_keys: list[str]
    description: str
    enabled: bool
    secret_hints: list[str]
    previous_secret_until: Moment | None
    disabled_reason: str | None
    failures: int = Field(description="Failed tries in a row.")
    open_until: Moment | None = Field(description="Until when nothing is sent to it, because it failed too often.")
    last_success_at: Moment | None
    last_failure_at: Moment | None
    created_at: Moment
    updated_at: Moment
    revision: int


class CreatedWebhook(Webhook):
    """An endpoint with its new secret, which cannot be read again."""

    secret: str


class WebhookList(ResponseModel):
    """All endpoints, the oldest first."""

    webhooks: list[Webhook]


class Delivery(ResponseModel):
    """One event for one receiver."""

    delivery_id: str = Field(description="The `webhook-id` of every try.")
    webhook_id: str = Field(description="The endpoint, or `global`, or `job`.")
    url: str
    type: str
    job_id: str | None
    status: DeliveryStatus
    tries: int
    due_at: Moment
    created_at: Moment
    finished_at: Moment | None
    status_code: int | None
    error: str | None


class Try(ResponseModel):
    """The result of one try."""

    number: int
    at: Moment
    duration: float = Field(description="Seconds.")
    status_code: int | None
    error: str | None
    excerpt: str | None


class DeliveryDetail(Delivery):
    """A delivery with its body and all its tries."""

    body: Payload
    history: list[Try]


class DeliveryList(ResponseModel):
    """One page of deliveries, the newest first."""

    deliveries: list[Delivery]
    next_cursor: str | None
