"""What penstock asks of a store about webhooks; a part of the ports, whose rules hold here too."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.plan import Plan
from penstock.domain.webhook.endpoint import (
    Answer,
    DeliveryDetail,
    DeliveryPage,
    Endpoint,
    EndpointDraft,
    Mask,
    Parcel,
    Prospect,
    Spread,
    Verdict,
)


class WebhooksPort(Protocol):
    """Endpoints, and what is on its way to them. Deliveries are made from the feed by a cursor that is kept."""

    def save_endpoint(
        self, draft: EndpointDraft, *, by: str, secret: str | None = None, revision: int | None = None
    ) -> Plan[Endpoint]:
        """Create an endpoint, which needs a `secret`, or replace what it says; its secrets stay.

        It is told of what happens from its creation on, or since it was last enabled. With a `revision` it must be the
        stored one (0: none yet): `RevisionConflict`. Without a secret it must be there: `NotFound`."""
        ...

    def endpoints(self) -> Plan[list[Endpoint]]:
        """All endpoints, the oldest first."""
        ...

    def endpoint(self, endpoint_id: str) -> Plan[Endpoint]: ...

    def remove_endpoint(self, endpoint_id: str, *, by: str) -> Plan[None]:
        """Forget an endpoint; what waits for it has failed, and the record of its deliveries stays with retention."""
        ...

    def rotate_secret(self, endpoint_id: str, secret: str, *, overlap: int, by: str) -> Plan[Endpoint]:
        """Sign with another secret, and for `overlap` microseconds with the old one, too. The same again changes
        nothing."""
        ...

    def prospect(self) -> Plan[Prospect]:
        """Whether an enabled endpoint or a job's own URL asks for anything, and when a delivery is due."""
        ...

    def spread(self, limit: int = 100, *, global_url: str | None = None, mask: Mask | None = None) -> Plan[Spread]:
        """Read up to `limit` events of the feed and make the deliveries that are asked for, each (endpoint, event)
        once; the cursor moves in the same transaction. Of several at once only one works. Nobody asks: the cursor goes
        to the tip. The body of a delivery is made here and never again; a job that is gone makes none."""
        ...

    def take_deliveries(self, owner: str, limit: int, lease: int, per_endpoint: int = 2) -> Plan[list[Parcel]]:
        """Take deliveries that are due, for `lease` microseconds; who does not settle them in time loses them to
        others, who send them with the same id. One receiver has `per_endpoint` at most at once, one that is being
        tried again after a pause has one, and one that pauses none."""
        ...

    def settle_delivery(
        self, delivery_id: str, number: int, answer: Answer, verdict: Verdict, *, give_up: int = 0
    ) -> Plan[bool]:  # fmt: skip
        """Keep how try `number` ended; False when the delivery was taken over or ended meanwhile, and nothing is
        written. The end is an event of its job (`job.webhook.delivered`, `job.webhook.failed`), if that is still there.
        An endpoint at which nothing has arrived for `give_up` microseconds, and ten tries or more have failed since, is
        disabled with the reason; 0: never. Enabling it, or another URL, forgets its failures."""
        ...

    def deliveries(
        self, *, endpoint: str | None = None, job_id: str | None = None, status: str | None = None, limit: int = 50,
        cursor: str | None = None,
    ) -> Plan[DeliveryPage]: ...  # fmt: skip

    def delivery(self, delivery_id: str) -> Plan[DeliveryDetail]: ...

    def test_endpoint(self, endpoint_id: str, at: int, *, by: str) -> Plan[DeliveryDetail]:
        """Make a delivery that tells of nothing, to try an endpoint out; the same instant again makes no second one.
        A disabled endpoint: `Conflict`."""
        ...

    def redeliver(self, delivery_id: str, *, by: str) -> Plan[DeliveryDetail]:
        """Send an ended delivery again, with the same id and body and all its tries; one that waits is due at once.
        Its endpoint is gone: `Conflict`."""
        ...
