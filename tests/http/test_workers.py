"""`/v1/workers` and `/v1/worker/config`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.domain.worker import Duty
from penstock.storage.commands import jobs
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import LEASE, Hand


@pytest.fixture
def hand(app: Penstock) -> Hand:
    @app.job("work")
    def work() -> None: ...

    app.definitions.register()
    return Hand(app)


def test_a_worker_tells_its_lease_its_definitions_and_its_duties(site: WebApi, hand: Hand) -> None:
    duties = (Duty("promote", 0.5, 2, "StoreUnavailable: gone"), Duty("retire", None, 0))
    hand.store.run(jobs.heartbeat(hand.id, LEASE, duties=duties))

    (worker,) = told(site.get("/v1/workers"))["workers"]

    assert (worker["workerId"], worker["live"], worker["ended"]) == (hand.id, True, None)
    assert worker["definitions"] == [{"key": "work", "version": 1}]
    assert [(each["name"], each["errors"], each["lastError"]) for each in worker["duties"]] == [
        ("promote", 2, "StoreUnavailable: gone"), ("retire", 0, None),
    ]  # fmt: skip
    lease = datetime.fromisoformat(worker["leaseExpiresAt"]) - datetime.fromisoformat(worker["heartbeatAt"])
    assert abs(lease - timedelta(microseconds=LEASE)) < timedelta(seconds=1)


def test_a_running_job_tells_until_when_its_lease_lasts(site: WebApi, hand: Hand) -> None:
    job_id = site.app.enqueue("work").id
    hand.claim_one(job_id)

    job = told(site.get(f"/v1/jobs/{job_id}"))

    assert job["workerId"] == hand.id
    assert datetime.fromisoformat(job["leaseExpiresAt"]) > datetime.fromisoformat(job["heartbeatAt"])


def test_a_worker_that_stopped_says_so(site: WebApi, hand: Hand) -> None:
    hand.store.run(jobs.end_worker(hand.id))

    (worker,) = told(site.get("/v1/workers"))["workers"]

    assert (worker["live"], worker["ended"]) == (False, "stopped")


def test_the_configuration_is_read_replaced_and_audited(site: WebApi) -> None:
    answer = site.get("/v1/worker/config")
    assert (answer.headers["etag"], told(answer)["enabled"]) == ('"0"', True)

    wanted = whole(site) | {"enabled": False, "slots": 3, "custom": {"big": 1234567890123456789, "a": 0.1}}
    wanted["alerts"]["depth"] = 7
    changed = site.put("/v1/worker/config", wanted, headers={"If-Match": '"0"'})

    found = told(changed)
    assert (found["enabled"], found["slots"], found["alerts"]["depth"], found["revision"]) == (False, 3, 7, 1)
    assert found["alerts"]["window"] == 900
    assert '"custom":{"big":1234567890123456789,"a":0.1}' in changed.text
    assert told(site.get("/v1/worker/config")) == found
    assert json.loads(site.newest_audit("setting.put").after or "")["slots"] == 3
    assert told(site.get("/v1/system"))["workersEnabled"] is False


def whole(site: WebApi) -> dict[str, Any]:
    """What is stored, in the form in which it can be sent."""
    found: dict[str, Any] = told(site.get("/v1/worker/config"))
    del found["revision"]
    return found


def test_it_says_what_waiting_is_worth(site: WebApi) -> None:
    assert whole(site)["ageing"] == 600

    told(site.patch("/v1/worker/config", {"ageing": 0}))

    assert site.app.workers.configuration()[0].ageing == 0


def test_a_put_replaces_everything(site: WebApi) -> None:
    plain = whole(site)
    told(site.put("/v1/worker/config", plain | {"slots": 3}))

    assert told(site.put("/v1/worker/config", plain | {"poll": 2}))["slots"] is None


def test_a_put_that_leaves_something_out_is_refused_and_loses_nothing(site: WebApi) -> None:
    told(site.put("/v1/worker/config", whole(site) | {"slots": 3, "custom": {"a": 1}}))
    stored = whole(site)

    for body in ({"enabled": True}, {}, {**stored, "alerts": {"depth": 7}}, {**stored, "limits": {}}):
        error = refused(site.put("/v1/worker/config", body), 422, "invalid_request")
        assert "is missing" in error["message"]
    for name in stored:
        less = {each: value for each, value in stored.items() if each != name}
        assert refused(site.put("/v1/worker/config", less), 422, "invalid_request")["details"]["path"] == f"/{name}"
    assert whole(site) == stored


def test_a_patch_changes_what_it_names_and_nothing_else(site: WebApi) -> None:
    told(site.put("/v1/worker/config", whole(site) | {"slots": 3, "poll": 2, "custom": {"a": 1}}))
    before = whole(site)

    told(site.patch("/v1/worker/config", {"enabled": False, "alerts": {"depth": 7}}))
    told(site.patch("/v1/worker/config", {"enabled": True, "slots": None, "limits": {"cpu": 60}}))

    expected = before | {"slots": None, "alerts": before["alerts"] | {"depth": 7}}
    assert whole(site) == expected | {"limits": before["limits"] | {"cpu": 60}}
    audited = json.loads(site.newest_audit("setting.put").after or "").keys()
    assert audited == {"enabled", "slots", "limits", "revision"}
    assert told(site.patch("/v1/worker/config", {"custom": {"b": 2}}))["custom"] == {"b": 2}
    refused(site.patch("/v1/worker/config", {"slots": 9}, headers={"If-Match": '"1"'}), 412, "revision_conflict")
    refused(site.patch("/v1/worker/config", {}), 422, "invalid_request")


def test_of_two_operators_the_second_does_not_overwrite_the_first(site: WebApi) -> None:
    told(site.patch("/v1/worker/config", {"slots": 1}, headers={"If-Match": '"0"'}))

    refused(site.patch("/v1/worker/config", {"slots": 2}, headers={"If-Match": '"0"'}), 412, "revision_conflict")

    assert told(site.get("/v1/worker/config"))["slots"] == 1
    told(site.patch("/v1/worker/config", {"slots": 2}))


@pytest.mark.parametrize(
    "body",
    [
        {"slots": 0}, {"slots": "4"}, {"slots": 10**9}, {"slot": 1}, {"poll": 0}, {"alerts": {"window": None}},
        {"ageing": None}, {"ageing": -1},
        {"alerts": {"depths": 1}}, {"custom": []}, {"enabled": 1}, {"lease": 10, "heartbeat": 9}, [],
        {"custom": {"x": "y" * 70_000}},
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_hold_is_refused(site: WebApi, body: Any) -> None:
    assert site.patch("/v1/worker/config", body).status_code == 422
    assert site.put("/v1/worker/config", body if body == [] else whole(site) | body).status_code == 422
    assert told(site.get("/v1/worker/config"))["revision"] == 0


def test_only_super_admins_change_it_and_see_what_looks_like_a_secret(site: WebApi) -> None:
    told(site.patch("/v1/worker/config", {"custom": {"api_key": "canary-1", "region": "eu"}}))

    with site.as_("admin"):
        assert told(site.get("/v1/worker/config"))["custom"] == {"api_key": "***", "region": "eu"}
        refused(site.patch("/v1/worker/config", {}), 403, "forbidden")
    with site.as_("super_admin"):
        assert told(site.get("/v1/worker/config"))["custom"]["api_key"] == "canary-1"
