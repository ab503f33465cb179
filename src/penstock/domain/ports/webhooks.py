"""The port of webhook endpoints and deliveries. Rules for all ports: `ports.store`."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.plan import Plan
from penstock.domain.webhook.endpoint import (
    Answer,
    DeliveryDecision,
    DeliveryDetail,
    DeliveryOutlook,
    DeliveryPage,
    DeliveryTask,
    Endpoint,
    EndpointDraft,
    FanoutReport,
    Mask,
)


class WebhooksPort(Protocol):
    """Endpoints and their deliveries. Deliveries are created from the feed with a stored cursor."""

    def save_endpoint(
        self, draft: EndpointDraft, *, by: str, secret: str | None = None, revision: int | None = None
    ) -> Plan[Endpoint]:
        """Create an endpoint, which needs a `secret`, or replace its settings and keep its secrets.

        It receives events from its creation on, or since it was last enabled. A `revision` that is not the stored one
        (0: none yet): `RevisionConflict`. No secret and no such endpoint: `NotFound`."""
        ...

    def endpoints(self) -> Plan[list[Endpoint]]:
        """Return all endpoints, the oldest first."""
        ...

    def endpoint(self, endpoint_id: str) -> Plan[Endpoint]:
        """Return one endpoint. Unknown: `NotFound`."""
        ...

    def remove_endpoint(self, endpoint_id: str, *, by: str) -> Plan[None]:
        """Delete an endpoint. Its waiting deliveries fail; retention deletes the records of its deliveries later."""
        ...

    def rotate_secret(self, endpoint_id: str, secret: str, *, overlap: int, by: str) -> Plan[Endpoint]:
        """Sign with another secret, and for `overlap` microseconds with the old one as well.

        A second call with the same secret changes nothing."""
        ...

    def delivery_outlook(self) -> Plan[DeliveryOutlook]:
        """Return whether an enabled endpoint or a job's own URL asks for events, and when a delivery is due."""
        ...

    def create_deliveries(
        self, limit: int = 100, *, global_url: str | None = None, mask: Mask | None = None
    ) -> Plan[FanoutReport]:
        """Read up to `limit` events of the feed and create their deliveries, each (endpoint, event) once.

        The cursor moves in the same transaction; of several concurrent calls only one works. When no endpoint asks for
        events, the cursor moves to the tip. The body of a delivery is written here and never again; a deleted job makes
        none."""
        ...

    def take_deliveries(self, owner: str, limit: int, lease: int, per_endpoint: int = 2) -> Plan[list[DeliveryTask]]:
        """Take due deliveries for `lease` microseconds.

        A delivery that is not settled in time is given to another caller, who sends it with the same id. A receiver
        has at most `per_endpoint` deliveries at a time, one that is tried again after a pause has one, and a paused one
        has none."""
        ...

    def settle_delivery(
        self, delivery_id: str, number: int, answer: Answer, verdict: DeliveryDecision, *, give_up: int = 0
    ) -> Plan[bool]:  # fmt: skip
        """Record how try `number` ended. False: the delivery was taken over or has ended, and nothing is written.

        The end is an event of its job (`job.webhook.delivered`, `job.webhook.failed`), if the job still exists. An
        endpoint without a success for `give_up` microseconds and with ten failed tries or more is disabled with the
        reason; 0: never. Enabling it, or another URL, resets its failures."""
        ...

    def deliveries(
        self, *, endpoint: str | None = None, job_id: str | None = None, status: str | None = None, limit: int = 50,
        cursor: str | None = None,
    ) -> Plan[DeliveryPage]:  # fmt: skip
        """Return one page of deliveries, the newest first, filtered by endpoint, job and status where given."""
        ...

    def delivery(self, delivery_id: str) -> Plan[DeliveryDetail]:
        """Return one delivery with its tries. Unknown: `NotFound`."""
        ...

    def test_endpoint(self, endpoint_id: str, at: int, *, by: str) -> Plan[DeliveryDetail]:
        """Create a delivery without an event, to test an endpoint; the same instant creates no second one.

        A disabled endpoint: `Conflict`."""
        ...

    def redeliver(self, delivery_id: str, *, by: str) -> Plan[DeliveryDetail]:
        """Send an ended delivery again, with the same id, body and number of tries; a waiting one is due now.

        Its endpoint was removed: `Conflict`."""
        ...
