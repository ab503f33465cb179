"""Endpoints and deliveries for tests of webhooks."""

from __future__ import annotations

from typing import Any

from penstock.domain.instant import SECOND
from penstock.domain.states import Status
from penstock.domain.webhook.endpoint import Answer, Delivery, DeliveryTask, Endpoint, EndpointDraft, decide_delivery
from penstock.domain.webhook.signature import secret_text
from penstock.storage.commands import webhooks
from tests.storage.kit import Kit

SECRET = secret_text(bytes(range(24, 48)))
OTHER = secret_text(bytes(range(24)))
URL = "https://receiver.test/hook"
LEASE = 30 * SECOND
RETRIES = (5.0, 60.0)


def endpoint(kit: Kit, id: str = "first", **facts: Any) -> Endpoint:
    draft = EndpointDraft(**{"id": id, "url": URL, **facts})
    return kit.run(webhooks.save_endpoint(draft, by="anna", secret=SECRET))


def create_deliveries(kit: Kit, **options: Any) -> int:
    """Read the feed to its end; how many deliveries were made."""
    made = 0
    while True:
        done = kit.run(webhooks.create_deliveries(**options))
        made += done.made
        if not done.more:
            return made


def take(kit: Kit, limit: int = 16, owner: str = "sender", per_endpoint: int = 2) -> list[DeliveryTask]:
    return kit.run(webhooks.take_deliveries(owner, limit, LEASE, per_endpoint))


def settle(kit: Kit, parcel: DeliveryTask, code: int | None = 200, *, give_up: int = 0, **facts: Any) -> bool:
    answer = Answer(code, None if code else "no connection", "an excerpt", duration=0.25)
    options = {"failures": parcel.failures, "most_failures": 3, **facts}
    verdict = decide_delivery(answer, parcel.round, RETRIES, **options)
    return kit.run(webhooks.settle_delivery(parcel.id, parcel.number, answer, verdict, give_up=give_up))


def listed(kit: Kit, **which: Any) -> list[Delivery]:
    return kit.run(webhooks.deliveries(limit=500, **which)).deliveries


def told(kit: Kit) -> list[tuple[str, str, str | None]]:
    """Which endpoint is told of what, in the order in which it was made."""
    return [(each.webhook_id, each.type, each.job_id) for each in reversed(listed(kit))]


def waiting(kit: Kit, n: int = 1, **facts: Any) -> list[str]:
    """Jobs that were cancelled, with a delivery of each."""
    jobs = [kit.job_in(Status.CANCELLED, **facts) for _ in range(n)]
    assert create_deliveries(kit) >= n
    return jobs
