"""Webhooks through the library: endpoints, secrets that are shown once, deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import Conflict, InvalidInput, NotFound, Penstock, RevisionConflict
from penstock.domain.webhook.endpoint import DEFAULT_EVENTS, Answer, DeliveryDecision
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.webhook.signature import secret_key
from penstock.storage.commands import webhooks

URL = "https://receiver.example/hook"


def failed_delivery(app: Penstock) -> str:
    """A delivery that its receiver has refused."""

    @app.job("work")
    def work() -> None: ...

    work.enqueue().cancel()
    app.store.run(webhooks.create_deliveries())
    (parcel,) = app.store.run(webhooks.take_deliveries("test", 10, 60_000_000))
    app.store.run(
        webhooks.settle_delivery(parcel.id, parcel.number, Answer(404, excerpt="who?"), DeliveryDecision("failed"))
    )
    return parcel.id


def test_an_endpoint_is_made_changed_and_removed(app: Penstock) -> None:
    saved = app.save_webhook(URL, description="orders", by="anna")
    assert saved.endpoint.events == DEFAULT_EVENTS
    assert saved.endpoint == app.get_webhook(saved.endpoint.id)
    assert app.webhooks() == [saved.endpoint]

    again = app.save_webhook(URL, webhook_id=saved.endpoint.id, events="onEnd", definition_keys=["work"], revision=1)
    assert again.secret is None
    assert (again.endpoint.events, again.endpoint.definition_keys, again.endpoint.revision) == (
        ("onEnd",),
        ("work",),
        2,
    )
    with pytest.raises(RevisionConflict):
        app.save_webhook(URL, webhook_id=saved.endpoint.id, revision=1)

    app.delete_webhook(saved.endpoint.id)
    with pytest.raises(NotFound):
        app.get_webhook(saved.endpoint.id)
    assert [each.action for each in app.audit()][::-1] == ["webhook.create", "webhook.replace", "webhook.remove"]


def test_a_secret_is_shown_when_it_is_made_and_never_again(app: Penstock) -> None:
    saved = app.save_webhook(URL)
    assert saved.secret is not None
    assert len(secret_key(saved.secret)) == 32
    rotated = app.rotate_webhook_secret(saved.endpoint.id, overlap=60)
    assert rotated.secret not in (None, saved.secret)

    shown = repr([saved, rotated, app.webhooks(), app.get_webhook(saved.endpoint.id), app.audit()])
    for secret in (saved.secret, rotated.secret):
        assert secret is not None
        assert secret[6:20] not in shown
        assert secret[-4:] in app.get_webhook(saved.endpoint.id).secret_hints


def test_one_may_bring_a_secret_of_ones_own(app: Penstock) -> None:
    secret = "whsec_" + "QUJD" * 10

    assert app.save_webhook(URL, secret=secret).secret == secret
    with pytest.raises(InvalidInput, match="no webhook secret") as refused:
        app.save_webhook(URL, secret="hunter2hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"url": "http://receiver.example/"}, "not encrypted"),
        ({"url": "https://127.0.0.1/"}, "address"),
        ({"url": "https://user:pass@receiver.example/"}, "password"),
        ({"url": 7}, "text"),
        ({"events": []}, "1 to 100"),
        ({"events": ["job.fialed"]}, "job.failed"),
        ({"events": ["job.webhook.failed"]}, "never end"),
        ({"events": [7]}, "texts"),
        ({"definition_keys": "work"}, "list"),
        ({"definition_keys": ["not a key!"]}, "key"),
        ({"definition_keys": [f"d{n}" for n in range(101)]}, "100"),
        ({"description": "x" * 501}, "500"),
        ({"enabled": "yes"}, "true or false"),
        ({"webhook_id": "some", "secret": "whsec_" + "QUJD" * 10}, "rotate"),
        ({"webhook_id": "x" * 501}, "500"),
    ],
)
def test_what_cannot_be_an_endpoint_is_refused(memory_app: Penstock, facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        memory_app.save_webhook(**{"url": URL, **facts})

    assert memory_app.webhooks() == []


def test_no_call_can_allow_what_the_settings_do_not(memory_app: Penstock) -> None:
    memory_app.webhook_settings = WebhookSettings(allow_http=True, allowed_networks=("10.0.0.0/8",))

    memory_app.save_webhook("http://10.0.0.1/x")
    with pytest.raises(InvalidInput):
        memory_app.save_webhook("http://192.168.0.1/x")


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.deliveries(limit=0),
        lambda app: app.deliveries(limit=501),
        lambda app: app.deliveries(status="sent"),
        lambda app: app.deliveries(cursor="../x"),
        lambda app: app.deliveries(job_id="x"),
        lambda app: app.rotate_webhook_secret("x", overlap=-1),
        lambda app: app.rotate_webhook_secret("x", overlap=31 * 86_400),
        lambda app: app.get_delivery(7),
    ],
)
def test_what_cannot_be_asked_for_is_refused(memory_app: Penstock, call: Callable[[Penstock], Any]) -> None:
    with pytest.raises(InvalidInput):
        call(memory_app)


def test_a_delivery_is_found_read_and_sent_again(app: Penstock) -> None:
    saved = app.save_webhook(URL)
    delivery = failed_delivery(app)

    (found,) = app.deliveries(webhook_id=saved.endpoint.id, status="failed").deliveries
    assert (found.id, found.status_code) == (delivery, 404)
    assert [each.excerpt for each in app.get_delivery(delivery).tries] == ["who?"]
    assert app.redeliver(delivery, by="anna").delivery.status == "waiting"
    assert app.deliveries(status="failed").deliveries == []

    app.delete_webhook(saved.endpoint.id)
    with pytest.raises(Conflict, match="removed"):
        app.redeliver(delivery)


async def test_every_call_has_a_twin_for_event_loops(app: Penstock) -> None:
    saved = await app.asave_webhook(URL)
    delivery = failed_delivery(app)

    assert (await app.aget_webhook(saved.endpoint.id)).url == URL
    assert len(await app.awebhooks()) == 1
    assert (await app.arotate_webhook_secret(saved.endpoint.id)).secret is not None
    assert [each.id for each in (await app.adeliveries()).deliveries] == [delivery]
    assert (await app.aget_delivery(delivery)).delivery.tries == 1
    assert (await app.aredeliver(delivery)).delivery.status == "waiting"
    await app.adelete_webhook(saved.endpoint.id)
    assert await app.awebhooks() == []
    await app.aclose()
