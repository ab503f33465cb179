"""Webhooks as operators see them: endpoints, secrets, deliveries."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON
from penstock.domain.definition import check_key
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.ids import IdSource
from penstock.domain.instant import HOUR, SECOND, Duration, microseconds
from penstock.domain.webhook import endpoint as webhook
from penstock.domain.webhook.endpoint import DeliveryDetail, DeliveryPage, Endpoint, EndpointDraft
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.signature import secret_key, secret_text
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import webhooks

_LONGEST_DESCRIPTION = 500
_MOST_DEFINITIONS = 100
_MOST_DELIVERIES = 500
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class SavedWebhook:
    """An endpoint, and the secret that was made with it: this is the only time that it is shown."""

    endpoint: Endpoint
    secret: str | None = field(default=None, repr=False)


class Webhooking(Conversation):
    """Who is told of what, over HTTP."""

    _ids: IdSource
    webhook_settings: WebhookSettings = WebhookSettings()
    """Which URLs may be saved; workers check again when they send."""

    def save_webhook(
        self,
        url: str,
        *,
        webhook_id: str | None = None,
        events: Sequence[str] | str = webhook.DEFAULT_EVENTS,
        definition_keys: Sequence[str] = (),
        description: str = "",
        enabled: bool = True,
        secret: str | None = None,
        revision: int | None = None,
        by: str = PYTHON,
    ) -> SavedWebhook:
        """Create an endpoint, or with a `webhook_id` replace what it says; its secret stays.

        `events` are event types, patterns such as `job.*`, or `onStart`, `onSuccess`, `onFail`, `onEnd`;
        `definition_keys` limits them to jobs of these. A new one makes its own secret unless you bring one.
        """
        return self._do(
            self._save_webhook(url, webhook_id, events, definition_keys, description, enabled, secret, revision, by)
        )

    async def asave_webhook(
        self,
        url: str,
        *,
        webhook_id: str | None = None,
        events: Sequence[str] | str = webhook.DEFAULT_EVENTS,
        definition_keys: Sequence[str] = (),
        description: str = "",
        enabled: bool = True,
        secret: str | None = None,
        revision: int | None = None,
        by: str = PYTHON,
    ) -> SavedWebhook:
        return await self._ado(
            self._save_webhook(url, webhook_id, events, definition_keys, description, enabled, secret, revision, by)
        )

    def webhooks(self) -> list[Endpoint]:
        """All endpoints, the oldest first."""
        return self._do(self._webhooks())

    async def awebhooks(self) -> list[Endpoint]:
        return await self._ado(self._webhooks())

    def get_webhook(self, webhook_id: str) -> Endpoint:
        """One endpoint; `NotFound` when there is none."""
        return self._do(self._get_webhook(webhook_id))

    async def aget_webhook(self, webhook_id: str) -> Endpoint:
        return await self._ado(self._get_webhook(webhook_id))

    def delete_webhook(self, webhook_id: str, *, by: str = PYTHON) -> None:
        """Forget an endpoint; what waits for it is not sent any more."""
        return self._do(self._delete_webhook(webhook_id, by))

    async def adelete_webhook(self, webhook_id: str, *, by: str = PYTHON) -> None:
        return await self._ado(self._delete_webhook(webhook_id, by))

    def rotate_webhook_secret(
        self, webhook_id: str, *, secret: str | None = None, overlap: Duration = 24 * 3600, by: str = PYTHON
    ) -> SavedWebhook:
        """Sign with a new secret, and for a while with the old one, too: one day, unless you say otherwise."""
        return self._do(self._rotate_webhook_secret(webhook_id, secret, overlap, by))

    async def arotate_webhook_secret(
        self, webhook_id: str, *, secret: str | None = None, overlap: Duration = 24 * 3600, by: str = PYTHON
    ) -> SavedWebhook:
        return await self._ado(self._rotate_webhook_secret(webhook_id, secret, overlap, by))

    def deliveries(
        self,
        *,
        webhook_id: str | None = None,
        job_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """What was sent or waits to be, the newest first; `webhook_id` is an endpoint's id, `global` or `job`."""
        return self._do(self._deliveries(webhook_id, job_id, status, limit, cursor))

    async def adeliveries(
        self,
        *,
        webhook_id: str | None = None,
        job_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPage:
        return await self._ado(self._deliveries(webhook_id, job_id, status, limit, cursor))

    def get_delivery(self, delivery_id: str) -> DeliveryDetail:
        """One delivery with its body and all its tries."""
        return self._do(self._get_delivery(delivery_id))

    async def aget_delivery(self, delivery_id: str) -> DeliveryDetail:
        return await self._ado(self._get_delivery(delivery_id))

    def redeliver(self, delivery_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        """Send a delivery again, under the same id and with the same body."""
        return self._do(self._redeliver(delivery_id, by))

    async def aredeliver(self, delivery_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        return await self._ado(self._redeliver(delivery_id, by))

    def test_webhook(self, webhook_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        """Send an endpoint a message of the type `webhook.test`, to try it out; workers send it like any other."""
        return self._do(self._test_webhook(webhook_id, by))

    async def atest_webhook(self, webhook_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        return await self._ado(self._test_webhook(webhook_id, by))

    def _save_webhook(
        self,
        url: str,
        webhook_id: str | None,
        events: Sequence[str] | str,
        definition_keys: Sequence[str],
        description: str,
        enabled: bool,
        secret: str | None,
        revision: int | None,
        by: str,
    ) -> Talk[SavedWebhook]:
        self.webhook_settings.check(url)
        if not isinstance(enabled, bool):
            raise InvalidInput(f"enabled must be true or false, not {enabled!r:.80}.")
        names = [events] if isinstance(events, str) else given.several_texts(events, "events")
        draft = EndpointDraft(
            id=_id(webhook_id) if webhook_id is not None else self._ids.new_id(),
            url=url,
            description=_description(description),
            events=webhook.check_events(names),
            definition_keys=_definitions(definition_keys),
            enabled=enabled,
        )
        if webhook_id is not None:
            if secret is not None:
                raise InvalidInput(
                    "An endpoint keeps its secret.",
                    hint=Hint(
                        "Call rotate_webhook_secret(id).",
                        cli="`penstock webhooks rotate ID` makes another one.",
                        http="POST /v1/webhooks/{webhookId}/rotate makes another one.",
                    ),
                )
            return SavedWebhook((yield webhooks.save_endpoint(draft, by=_who(by), revision=revision)))
        chosen = _secret(secret)
        return SavedWebhook((yield webhooks.save_endpoint(draft, by=_who(by), secret=chosen)), chosen)

    def _webhooks(self) -> Talk[list[Endpoint]]:
        found: list[Endpoint] = yield webhooks.endpoints()
        return found

    def _get_webhook(self, webhook_id: str) -> Talk[Endpoint]:
        found: Endpoint = yield webhooks.endpoint(_id(webhook_id))
        return found

    def _delete_webhook(self, webhook_id: str, by: str) -> Talk[None]:
        yield webhooks.remove_endpoint(_id(webhook_id), by=_who(by))

    def _rotate_webhook_secret(
        self, webhook_id: str, secret: str | None, overlap: Duration, by: str
    ) -> Talk[SavedWebhook]:
        chosen = _secret(secret)
        for_long = microseconds(overlap, "overlap")
        if for_long > 30 * 24 * HOUR:
            raise InvalidInput(f"Two secrets are valid for 30 days at most, not {for_long // SECOND} s.")
        found: Endpoint = yield webhooks.rotate_secret(_id(webhook_id), chosen, overlap=for_long, by=_who(by))
        return SavedWebhook(found, chosen)

    def _deliveries(
        self, webhook_id: str | None, job_id: str | None, status: str | None, limit: int, cursor: str | None
    ) -> Talk[DeliveryPage]:
        if not 1 <= given.integer(limit, "limit") <= _MOST_DELIVERIES:
            raise InvalidInput(f"limit must be 1 to {_MOST_DELIVERIES}, not {limit}.")
        found: DeliveryPage = yield webhooks.deliveries(
            endpoint=given.short_text(webhook_id, "webhook_id"),
            job_id=None if job_id is None else given.job_id(job_id),
            status=status,
            limit=limit,
            cursor=given.short_text(cursor, "cursor"),
        )
        return found

    def _get_delivery(self, delivery_id: str) -> Talk[DeliveryDetail]:
        found: DeliveryDetail = yield webhooks.delivery(_id(delivery_id))
        return found

    def _redeliver(self, delivery_id: str, by: str) -> Talk[DeliveryDetail]:
        found: DeliveryDetail = yield webhooks.redeliver(_id(delivery_id), by=_who(by))
        return found

    def _test_webhook(self, webhook_id: str, by: str) -> Talk[DeliveryDetail]:
        at = time.time_ns() // 1000
        found: DeliveryDetail = yield webhooks.test_endpoint(_id(webhook_id), at, by=_who(by))
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
    """The secret that somebody brings, or a new one."""
    if value is None:
        return secret_text(os.urandom(_SECRET_BYTES))
    if not isinstance(value, str):
        raise InvalidInput("A webhook secret is a text.")
    secret_key(value)
    return value


def _who(by: str) -> str:
    return given.actor(by) or PYTHON
