"""`/v1/webhooks`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain.webhook.endpoint import DEFAULT_EVENTS
from penstock.storage.commands import webhooks
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import Hand
from tests.storage.tables import dump

URL = "https://receiver.example.org/hook"


def make(site: WebApi, **facts: Any) -> dict[str, Any]:
    found: dict[str, Any] = told(site.post("/v1/webhooks", {"url": URL, **facts}), 201)
    return found


def test_an_endpoint_is_made_and_its_secret_told_once(site: WebApi) -> None:
    answer = site.post("/v1/webhooks", {"url": URL, "description": "ours"})

    made = told(answer, 201)
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert made["secretHints"] == [secret[-4:]]
    assert (made["events"], made["enabled"], made["revision"]) == (list(DEFAULT_EVENTS), True, 1)
    place = answer.headers["location"]
    assert (place, answer.headers["etag"]) == (f"/v1/webhooks/{made['webhookId']}", '"1"')
    assert told(site.get(place)) == made
    listed = site.get("/v1/webhooks")
    assert told(listed)["webhooks"] == [made]
    assert secret not in listed.text + site.get("/v1/audit").text
    assert site.newest_audit("webhook.create").target == made["webhookId"]


def test_paths_of_urls_are_shown_to_admins_alone(site: WebApi, app: Penstock) -> None:
    app.job("work")(_work)
    job = app.enqueue("work", webhook_url="https://receiver.example.org/secret-of-the-job")
    made = make(site, url="https://receiver.example.org/secret-of-the-endpoint")
    told(site.post(f"/v1/webhooks/{made['webhookId']}/test"), 202)
    job.cancel()
    app.store.run(webhooks.create_deliveries())
    headers = {role: {"Authorization": f"Bearer {site.token(role, role)}"} for role in ("viewer", "creator", "admin")}
    delivery = told(site.get("/v1/webhooks/deliveries", headers=headers["admin"]))["deliveries"][0]["deliveryId"]
    pages = [
        "/v1/webhooks", f"/v1/webhooks/{made['webhookId']}", "/v1/webhooks/deliveries",
        f"/v1/webhooks/deliveries/{delivery}", "/v1/jobs", f"/v1/jobs/{job.id}", "/v1/audit",
    ]  # fmt: skip

    for role in ("viewer", "creator"):
        for page in pages:
            text = site.get(page, headers=headers[role]).text
            assert "receiver.example.org/***" in text
            assert "secret-of-" not in text
    for page in pages[:3]:
        assert "secret-of-the-endpoint" in site.get(page, headers=headers["admin"]).text


def _work() -> None: ...


def test_an_endpoint_is_replaced_and_changed(site: WebApi) -> None:
    made = make(site, description="old", definitionKeys=["a"])
    place = f"/v1/webhooks/{made['webhookId']}"

    patched = told(site.patch(place, {"enabled": False}))
    assert (patched["enabled"], patched["description"], patched["definitionKeys"]) == (False, "old", ["a"])
    assert patched["secretHints"] == made["secretHints"]

    replaced = told(site.put(place, {"url": URL, "events": ["onEnd"]}))
    assert (replaced["events"], replaced["description"], replaced["definitionKeys"]) == (["onEnd"], "", [])
    site.newest_audit("webhook.replace")
    refused(site.patch(place, {}), 422, "invalid_request")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_of_two_operators_the_second_does_not_overwrite_the_first(site: WebApi, method: str) -> None:
    place = f"/v1/webhooks/{make(site)['webhookId']}"
    told(site.patch(place, {"description": "first"}, headers={"If-Match": '"1"'}))

    late = site.request(method, place, json={"url": URL, "description": "second"}, headers={"If-Match": '"1"'})

    refused(late, 412, "revision_conflict")
    assert told(site.get(place))["description"] == "first"


def test_a_rotated_secret_is_told_once_and_the_old_one_signs_for_a_while(site: WebApi) -> None:
    made = make(site)

    rotated = told(site.post(f"/v1/webhooks/{made['webhookId']}/rotate", {"overlap": 60}))

    assert rotated["secret"] != made["secret"]
    assert rotated["secretHints"] == [rotated["secret"][-4:], made["secret"][-4:]]
    assert rotated["previousSecretUntil"] is not None
    site.newest_audit("webhook.rotate")
    again = told(site.post(f"/v1/webhooks/{made['webhookId']}/rotate"))
    assert again["secret"] != rotated["secret"]


def test_a_removed_endpoint_is_gone(site: WebApi) -> None:
    place = f"/v1/webhooks/{make(site)['webhookId']}"

    told(site.delete(place), 204)

    site.newest_audit("webhook.remove")
    for answer in (site.get(place), site.delete(place), site.post(f"{place}/rotate"), site.post(f"{place}/test")):
        refused(answer, 404, "not_found")
    refused(site.put(place, {"url": URL}), 404, "not_found")
    refused(site.patch(place, {"enabled": True}), 404, "not_found")


def test_a_test_makes_a_delivery_that_tells_of_nothing(site: WebApi) -> None:
    made = make(site)

    sent = told(site.post(f"/v1/webhooks/{made['webhookId']}/test"), 202)

    assert (sent["type"], sent["status"], sent["webhookId"]) == ("webhook.test", "waiting", made["webhookId"])
    assert (sent["body"]["id"], sent["body"]["type"]) == (sent["deliveryId"], "webhook.test")
    site.newest_audit("webhook.test")
    told(site.post(f"/v1/webhooks/{made['webhookId']}/test"), 202)
    assert len(told(site.get("/v1/webhooks/deliveries"))["deliveries"]) == 2
    told(site.patch(f"/v1/webhooks/{made['webhookId']}", {"enabled": False}))
    refused(site.post(f"/v1/webhooks/{made['webhookId']}/test"), 409, "conflict")


def test_deliveries_are_listed_by_filter_shown_whole_and_sent_again(site: WebApi, app: Penstock) -> None:
    @app.job("work", secret=["magic"])
    def work(magic: str = "") -> None: ...

    app.register()
    made = make(site)
    job_id = app.enqueue("work", {"magic": "canary-9d"}).id
    Hand(app).succeed(job_id, "1")
    app.store.run(webhooks.create_deliveries(100))
    told(site.post(f"/v1/webhooks/{made['webhookId']}/test"), 202)

    (found,) = told(site.get(f"/v1/webhooks/deliveries?jobId={job_id}&status=waiting"))["deliveries"]
    assert (found["type"], found["url"], found["tries"]) == ("job.succeeded", URL, 0)
    first = told(site.get(f"/v1/webhooks/deliveries?limit=1&webhookId={made['webhookId']}"))
    rest = told(site.get(f"/v1/webhooks/deliveries?limit=1&cursor={first['nextCursor']}"))
    assert [each["type"] for each in first["deliveries"] + rest["deliveries"]] == ["webhook.test", "job.succeeded"]

    place = f"/v1/webhooks/deliveries/{found['deliveryId']}"
    whole = site.get(place)
    assert told(whole)["body"]["data"]["job"]["jobId"] == job_id
    assert "canary-9d" not in whole.text
    assert told(site.post(f"{place}/redeliver"), 202)["deliveryId"] == found["deliveryId"]
    assert json.loads(site.newest_audit("webhook.redeliver").after or "") == {"status": "waiting"}
    refused(site.get("/v1/webhooks/deliveries/nobody"), 404, "not_found")
    refused(site.get("/v1/webhooks/deliveries?status=lost"), 422, "invalid_request")
    refused(site.get("/v1/webhooks/deliveries?cursor=x"), 422, "invalid_request")


@pytest.mark.parametrize(
    "facts",
    [
        {"url": "ftp://receiver.example.org/"}, {"url": "https://127.0.0.1/"}, {"url": "https://u:p@example.org/"},
        {"url": "x"}, {"events": []}, {"events": ["job.nothing"]}, {"events": ["job.webhook.failed"]},
        {"definitionKeys": ["not a key"]}, {"secret": "short"}, {"enabled": "yes"}, {"event": "job.*"},
    ],
)  # fmt: skip
def test_an_endpoint_that_cannot_be_is_refused(site: WebApi, facts: dict[str, Any]) -> None:
    refused(site.post("/v1/webhooks", {"url": URL, **facts}), 422, "invalid_request")

    assert told(site.get("/v1/webhooks"))["webhooks"] == []


def test_admins_manage_webhooks_and_viewers_see_them(site: WebApi) -> None:
    made = make(site)

    with site.as_("viewer"):
        told(site.get("/v1/webhooks"))
        told(site.get("/v1/webhooks/deliveries"))
        refused(site.post(f"/v1/webhooks/{made['webhookId']}/rotate"), 403, "forbidden")
        refused(site.delete(f"/v1/webhooks/{made['webhookId']}"), 403, "forbidden")
    assert made["secret"] in str(dump(site.app.store)), "it is kept, to sign with"
