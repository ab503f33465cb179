"""`app.webhooks`: endpoints that are notified over HTTP, their secrets and deliveries."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from penstock.domain.instant import Duration
from penstock.domain.webhook.endpoint import DEFAULT_EVENTS, DeliveryDetail, DeliveryPage, Endpoint
from penstock.domain.webhook.settings import WebhookSettings
from penstock.surface.session import PYTHON, Operation, Session


@dataclass(frozen=True, slots=True)
class SavedWebhook:
    """An endpoint, and the secret that was made with it: this is the only time that it is shown."""

    endpoint: Endpoint
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SaveWebhook(Operation[SavedWebhook]):
    call: ClassVar[str] = "webhooks.save"
    url: str
    webhook_id: str | None
    events: Sequence[str] | str
    definition_keys: Sequence[str]
    description: str
    enabled: bool
    secret: str | None = field(repr=False)
    revision: int | None
    by: str


@dataclass(frozen=True, slots=True)
class ListWebhooks(Operation[list[Endpoint]]):
    call: ClassVar[str] = "webhooks.list"


@dataclass(frozen=True, slots=True)
class GetWebhook(Operation[Endpoint]):
    call: ClassVar[str] = "webhooks.get"
    webhook_id: str


@dataclass(frozen=True, slots=True)
class DeleteWebhook(Operation[None]):
    call: ClassVar[str] = "webhooks.delete"
    webhook_id: str
    by: str


@dataclass(frozen=True, slots=True)
class RotateSecret(Operation[SavedWebhook]):
    call: ClassVar[str] = "webhooks.rotate_secret"
    webhook_id: str
    secret: str | None = field(repr=False)
    overlap: Duration
    by: str


@dataclass(frozen=True, slots=True)
class ListDeliveries(Operation[DeliveryPage]):
    call: ClassVar[str] = "webhooks.deliveries"
    webhook_id: str | None
    job_id: str | None
    status: str | None
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class GetDelivery(Operation[DeliveryDetail]):
    call: ClassVar[str] = "webhooks.delivery"
    delivery_id: str


@dataclass(frozen=True, slots=True)
class Redeliver(Operation[DeliveryDetail]):
    call: ClassVar[str] = "webhooks.redeliver"
    delivery_id: str
    by: str


@dataclass(frozen=True, slots=True)
class TestWebhook(Operation[DeliveryDetail]):
    __test__: ClassVar[bool] = False  # for pytest, which would take it for a test because of its name
    call: ClassVar[str] = "webhooks.test"
    webhook_id: str
    by: str


@dataclass(frozen=True, slots=True)
class ReadWebhookSettings(Operation[WebhookSettings]):
    call: ClassVar[str] = "webhooks.settings"


@dataclass(frozen=True, slots=True)
class UseWebhookSettings(Operation[None]):
    call: ClassVar[str] = "webhooks.settings"
    settings: WebhookSettings


class Webhooks:
    """Endpoints, secrets and deliveries; each call has a twin with an `a` in front, for event loops."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def settings(self) -> WebhookSettings:
        """Which URLs this application accepts; workers check again when they send."""
        return self._session.do(ReadWebhookSettings())

    @settings.setter
    def settings(self, settings: WebhookSettings) -> None:
        self._session.do(UseWebhookSettings(settings))

    def save(
        self,
        url: str,
        *,
        webhook_id: str | None = None,
        events: Sequence[str] | str = DEFAULT_EVENTS,
        definition_keys: Sequence[str] = (),
        description: str = "",
        enabled: bool = True,
        secret: str | None = None,
        revision: int | None = None,
        by: str = PYTHON,
    ) -> SavedWebhook:
        """Create an endpoint, or with a `webhook_id` replace all its facts; its secret stays.

        `events` are event types, patterns such as `job.*`, or `onStart`, `onSuccess`, `onFail`, `onEnd`;
        `definition_keys` limits them to jobs of these. A new one makes its own secret unless you bring one.
        """
        return self._session.do(
            SaveWebhook(url, webhook_id, events, definition_keys, description, enabled, secret, revision, by)
        )

    async def asave(
        self,
        url: str,
        *,
        webhook_id: str | None = None,
        events: Sequence[str] | str = DEFAULT_EVENTS,
        definition_keys: Sequence[str] = (),
        description: str = "",
        enabled: bool = True,
        secret: str | None = None,
        revision: int | None = None,
        by: str = PYTHON,
    ) -> SavedWebhook:
        return await self._session.ado(
            SaveWebhook(url, webhook_id, events, definition_keys, description, enabled, secret, revision, by)
        )

    def list(self) -> builtins.list[Endpoint]:
        """All endpoints, the oldest first."""
        return self._session.do(ListWebhooks())

    async def alist(self) -> builtins.list[Endpoint]:
        return await self._session.ado(ListWebhooks())

    def get(self, webhook_id: str) -> Endpoint:
        """One endpoint; `NotFound` when there is none."""
        return self._session.do(GetWebhook(webhook_id))

    async def aget(self, webhook_id: str) -> Endpoint:
        return await self._session.ado(GetWebhook(webhook_id))

    def delete(self, webhook_id: str, *, by: str = PYTHON) -> None:
        """Delete an endpoint; deliveries that wait for it are not sent any more."""
        return self._session.do(DeleteWebhook(webhook_id, by))

    async def adelete(self, webhook_id: str, *, by: str = PYTHON) -> None:
        return await self._session.ado(DeleteWebhook(webhook_id, by))

    def rotate_secret(
        self, webhook_id: str, *, secret: str | None = None, overlap: Duration = 24 * 3600, by: str = PYTHON
    ) -> SavedWebhook:
        """Sign with a new secret, and for a while with the old one, too: one day by default."""
        return self._session.do(RotateSecret(webhook_id, secret, overlap, by))

    async def arotate_secret(
        self, webhook_id: str, *, secret: str | None = None, overlap: Duration = 24 * 3600, by: str = PYTHON
    ) -> SavedWebhook:
        return await self._session.ado(RotateSecret(webhook_id, secret, overlap, by))

    def deliveries(
        self,
        *,
        webhook_id: str | None = None,
        job_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """Deliveries, sent or not, the newest first; `webhook_id` is an endpoint's id, `global` or `job`."""
        return self._session.do(ListDeliveries(webhook_id, job_id, status, limit, cursor))

    async def adeliveries(
        self,
        *,
        webhook_id: str | None = None,
        job_id: str | None = None,
        status: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> DeliveryPage:
        return await self._session.ado(ListDeliveries(webhook_id, job_id, status, limit, cursor))

    def delivery(self, delivery_id: str) -> DeliveryDetail:
        """One delivery with its body and all its tries."""
        return self._session.do(GetDelivery(delivery_id))

    async def adelivery(self, delivery_id: str) -> DeliveryDetail:
        return await self._session.ado(GetDelivery(delivery_id))

    def redeliver(self, delivery_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        """Send a delivery again, under the same id and with the same body."""
        return self._session.do(Redeliver(delivery_id, by))

    async def aredeliver(self, delivery_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        return await self._session.ado(Redeliver(delivery_id, by))

    def test(self, webhook_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        """Send an endpoint a message of the type `webhook.test`, to try it out; workers send it like any other."""
        return self._session.do(TestWebhook(webhook_id, by))

    async def atest(self, webhook_id: str, *, by: str = PYTHON) -> DeliveryDetail:
        return await self._session.ado(TestWebhook(webhook_id, by))
