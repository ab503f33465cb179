"""test_endpoint: a delivery that tells of nothing, to try an endpoint out."""

from __future__ import annotations

import json

import pytest

from penstock.domain.errors import Conflict, NotFound
from penstock.domain.webhook.endpoint import EndpointDraft
from penstock.storage.commands import webhooks
from tests.storage.kit import START, Kit

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def endpoint(kit: Kit, enabled: bool = True) -> str:
    draft = EndpointDraft(kit.new_id(), "https://receiver.example.org/hook", enabled=enabled)
    return kit.run(webhooks.save_endpoint(draft, by="ann", secret=SECRET)).id


def test_it_is_sent_like_any_other(kit: Kit) -> None:
    wanted = endpoint(kit)

    made = kit.run(webhooks.test_endpoint(wanted, START, by="ann"))

    (parcel,) = kit.run(webhooks.take_deliveries("me", 10, 60_000_000))
    assert (parcel.id, parcel.endpoint, parcel.body) == (made.delivery.id, wanted, made.body)
    assert json.loads(made.body)["type"] == "webhook.test"


def test_the_same_instant_again_makes_no_second_one(kit: Kit) -> None:
    wanted = endpoint(kit)

    first = kit.run(webhooks.test_endpoint(wanted, START, by="ann"))
    again = kit.run(webhooks.test_endpoint(wanted, START, by="ann"))
    other = kit.run(webhooks.test_endpoint(wanted, START + 1, by="ann"))

    assert first == again
    assert {each.id for each in kit.run(webhooks.deliveries()).deliveries} == {first.delivery.id, other.delivery.id}


def test_a_disabled_or_unknown_endpoint_is_refused(kit: Kit) -> None:
    with pytest.raises(Conflict, match="disabled"):
        kit.run(webhooks.test_endpoint(endpoint(kit, enabled=False), START, by="ann"))
    with pytest.raises(NotFound):
        kit.run(webhooks.test_endpoint(kit.new_id(), START, by="ann"))
