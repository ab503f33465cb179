"""`/v1/workers` and `/v1/worker/config`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.core.worker import Duty
from penstock.stores.verbs import jobs
from tests.app.hand import LEASE, Hand
from tests.web.kit import WebKit, refused, told


@pytest.fixture
def hand(app: Penstock) -> Hand:
    @app.job("work")
    def work() -> None: ...

    app.register()
    return Hand(app)


def test_a_worker_tells_its_lease_its_definitions_and_its_duties(site: WebKit, hand: Hand) -> None:
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


def test_a_running_job_tells_until_when_its_lease_lasts(site: WebKit, hand: Hand) -> None:
    job_id = site.app.enqueue("work").id
    hand.claim_one(job_id)

    job = told(site.get(f"/v1/jobs/{job_id}"))

    assert job["workerId"] == hand.id
    assert datetime.fromisoformat(job["leaseExpiresAt"]) > datetime.fromisoformat(job["heartbeatAt"])


def test_a_worker_that_stopped_says_so(site: WebKit, hand: Hand) -> None:
    hand.store.run(jobs.end_worker(hand.id))

    (worker,) = told(site.get("/v1/workers"))["workers"]

    assert (worker["live"], worker["ended"]) == (False, "stopped")


def test_the_configuration_is_read_replaced_and_audited(site: WebKit) -> None:
    answer = site.get("/v1/worker/config")
    assert (answer.headers["etag"], told(answer)["enabled"]) == ('"0"', True)

    wanted = {"enabled": False, "slots": 3, "alerts": {"depth": 7}, "custom": {"big": 1234567890123456789, "a": 0.1}}
    changed = site.put("/v1/worker/config", wanted, headers={"If-Match": '"0"'})

    found = told(changed)
    assert (found["enabled"], found["slots"], found["alerts"]["depth"], found["revision"]) == (False, 3, 7, 1)
    assert found["alerts"]["window"] == 900
    assert '"custom":{"big":1234567890123456789,"a":0.1}' in changed.text
    assert told(site.get("/v1/worker/config")) == found
    assert json.loads(site.newest_audit("setting.put").after or "")["slots"] == 3
    assert told(site.get("/v1/system"))["workersEnabled"] is False


def test_a_put_replaces_everything(site: WebKit) -> None:
    told(site.put("/v1/worker/config", {"slots": 3}))

    assert told(site.put("/v1/worker/config", {"poll": 2}))["slots"] is None


def test_of_two_operators_the_second_does_not_overwrite_the_first(site: WebKit) -> None:
    told(site.put("/v1/worker/config", {"slots": 1}, headers={"If-Match": '"0"'}))

    refused(site.put("/v1/worker/config", {"slots": 2}, headers={"If-Match": '"0"'}), 412, "revision_conflict")

    assert told(site.get("/v1/worker/config"))["slots"] == 1
    told(site.put("/v1/worker/config", {"slots": 2}))


@pytest.mark.parametrize(
    "body",
    [
        {"slots": 0}, {"slots": "4"}, {"slots": 10**9}, {"slot": 1}, {"poll": 0}, {"alerts": {"window": None}},
        {"alerts": {"depths": 1}}, {"custom": []}, {"enabled": 1}, {"lease": 10, "heartbeat": 9}, [],
        {"custom": {"x": "y" * 70_000}},
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_hold_is_refused(site: WebKit, body: Any) -> None:
    assert site.put("/v1/worker/config", body).status_code == 422
    assert told(site.get("/v1/worker/config"))["revision"] == 0


def test_only_super_admins_change_it_and_see_what_looks_like_a_secret(site: WebKit) -> None:
    told(site.put("/v1/worker/config", {"custom": {"api_key": "canary-1", "region": "eu"}}))

    with site.as_("admin"):
        assert told(site.get("/v1/worker/config"))["custom"] == {"api_key": "***", "region": "eu"}
        refused(site.put("/v1/worker/config", {}), 403, "forbidden")
    with site.as_("super_admin"):
        assert told(site.get("/v1/worker/config"))["custom"]["api_key"] == "canary-1"
