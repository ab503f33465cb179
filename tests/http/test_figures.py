"""`/v1/stats`, `/v1/errors`, `/v1/alerts` and `/v1/audit`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock import Penstock
from penstock.domain.alerts import Alert
from penstock.domain.outcome import Cause, Failure, Outcome
from penstock.domain.states import Trigger
from penstock.storage.commands import admin
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import Hand


@pytest.fixture
def hand(app: Penstock) -> Hand:
    @app.job("work")
    def work(n: int = 0) -> None: ...

    app.register()
    return Hand(app)


def fail(site: WebApi, hand: Hand, error: str, fingerprint: str) -> str:
    job_id = site.app.enqueue("work").id
    hand.fail(job_id, Failure("ValueError", error, "Traceback", fingerprint))
    return job_id


def test_stats_tell_where_jobs_stand_and_what_happened(site: WebApi, hand: Hand) -> None:
    hand.succeed(site.app.enqueue("work").id)
    fail(site, hand, "broken", "f1")
    site.app.enqueue("work")

    found = told(site.get("/v1/stats"))

    assert found["counts"] == {"queued": 1, "succeeded": 1, "failed": 1}
    assert (found["depth"], found["flow"]["succeeded"], found["flow"]["failed"]) == (1, 1, 1)
    (work,) = found["definitions"]
    assert (work["definitionKey"], work["counts"], work["oldestRunAt"] is None) == ("work", found["counts"], False)
    assert sum(each["flow"]["succeeded"] for each in found["minutes"]) == 1
    assert (work["failedLastDay"], work["durations"]["sample"], work["waits"]["sample"]) == (1, 1, 2)
    assert (found["step"], found["throughput"]) == (60, pytest.approx(2 / 60, rel=0.1))


def test_stats_of_more_than_a_day_are_by_the_hour(site: WebApi, hand: Hand) -> None:
    hand.succeed(site.app.enqueue("work").id)
    since = (datetime.now(UTC) - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")

    found = told(site.get(f"/v1/stats?since={since}"))

    assert found["step"] == 3600
    assert [each["flow"]["succeeded"] for each in found["minutes"]] == [1]
    assert found["minutes"][0]["minute"].endswith(":00:00.000000Z")


@pytest.mark.parametrize("since", ["yesterday", "2020-01-01T00:00:00Z", "2026-01-01T00:00:00", ""])
def test_stats_of_another_time_are_refused(site: WebApi, since: str) -> None:
    refused(site.get(f"/v1/stats?since={since}"), 422, "invalid_request")


def test_errors_that_look_alike_are_told_together_in_pages(site: WebApi, hand: Hand) -> None:
    fail(site, hand, "broken", "f1")
    newest = fail(site, hand, "broken again\nand more", "f1")
    other = fail(site, hand, "other", "f2")

    first = told(site.get("/v1/errors?limit=1"))
    second = told(site.get(f"/v1/errors?limit=1&cursor={first['nextCursor']}"))

    (last,), (before,) = first["errors"], second["errors"]
    assert (last["fingerprint"], last["jobId"], last["jobs"]) == ("f2", other, 1)
    assert (before["fingerprint"], before["jobId"], before["jobs"], before["attempts"]) == ("f1", newest, 2, 2)
    assert (before["message"], before["type"], second["nextCursor"]) == ("broken again", "ValueError", None)
    listed = told(site.get("/v1/jobs?fingerprint=f1"))["jobs"]
    assert next(each["jobId"] for each in listed) == newest
    refused(site.get("/v1/errors?cursor=nonsense"), 422, "invalid_request")


def test_cancelled_attempts_are_no_errors(site: WebApi, hand: Hand) -> None:
    broken = fail(site, hand, "broken", "f1")
    job_id = site.app.enqueue("work").id
    claimed = hand.claim_one(job_id)
    told(site.post(f"/v1/jobs/{job_id}/cancel"), 202)
    failure = Failure(
        "Cancelled", "The job was cancelled; the attempt stopped when asked to.", "", "penstock-Cancelled"
    )
    hand.end(claimed, Outcome(Trigger.FAIL, Cause.CANCELLED, failure=failure))

    found = told(site.get("/v1/errors"))["errors"]

    assert [each["jobId"] for each in found] == [broken]
    job = told(site.get(f"/v1/jobs/{job_id}"))
    assert (job["status"], job["error"]["type"]) == ("cancelled", "Cancelled"), "the job still says how it ended"


def test_alerts_tell_what_holds_now(site: WebApi) -> None:
    assert told(site.get("/v1/alerts")) == {"alerts": []}

    told(site.post("/v1/system/pause", {"reason": "migration"}))

    (alert,) = told(site.get("/v1/alerts"))["alerts"]
    assert (alert["id"], alert["severity"]) == ("system_paused:*", "warning")
    assert "migration" in alert["message"]


def test_alerts_that_were_raised_are_kept_with_when_they_were_cleared(site: WebApi) -> None:
    deep, failing = Alert("depth", "work", "deep"), Alert("failure_rate", "work", "failing", "critical")
    for holding in ([deep], [deep, failing], [failing], []):
        site.app.store.run(admin.save_alerts(holding))
    site.app.store.run(admin.save_alerts([deep]))

    first = told(site.get("/v1/alerts/history?limit=2"))
    rest = told(site.get(f"/v1/alerts/history?limit=2&cursor={first['nextCursor']}"))

    every = first["alerts"] + rest["alerts"]
    assert [(each["id"], each["clearedAt"] is None) for each in every] == [
        ("depth:work", True), ("failure_rate:work", False), ("depth:work", False),
    ]  # fmt: skip
    standing = told(site.get("/v1/alerts/history?cleared=false"))["alerts"]
    assert [each["seq"] for each in standing] == [every[0]["seq"]]
    assert standing[0]["raisedAt"] >= every[1]["raisedAt"]
    refused(site.get("/v1/alerts/history?cursor=x"), 422, "invalid_request")


def test_the_audit_is_read_by_filter_and_in_pages(site: WebApi, hand: Hand) -> None:
    for _ in range(3):
        told(site.post("/v1/definitions/work/disable"))
        told(site.post("/v1/definitions/work/enable"))
    told(site.post("/v1/system/pause", {"reason": "x"}))

    first = told(site.get("/v1/audit?limit=2&target=work&action=definition.enable"))
    second = told(site.get(f"/v1/audit?limit=2&target=work&action=definition.enable&cursor={first['nextCursor']}"))

    entries = first["audit"] + second["audit"]
    assert [each["action"] for each in entries] == ["definition.enable"] * 3
    assert [each["seq"] for each in entries] == sorted((each["seq"] for each in entries), reverse=True)
    assert (entries[0]["before"], entries[0]["after"]) == ({"enabled": False}, {"enabled": True})
    assert {(each["actor"], each["requestId"]) for each in entries} == {("local", "request-of-the-test")}
    assert second["nextCursor"] is None
    assert told(site.get("/v1/audit?actor=nobody"))["audit"] == []


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=-1", "limit=0", "limit=501", "limit=1.5", "who=me", "actor=a&actor=b"]
)
def test_an_audit_query_that_cannot_be_read_is_refused(site: WebApi, query: str) -> None:
    refused(site.get(f"/v1/audit?{query}"), 422, "invalid_request")
