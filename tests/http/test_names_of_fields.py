"""One name for one thing: what is asked for is answered by the same name, and a name from elsewhere gets ours."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, refused, told
from tests.http.document import document

DUE = "2036-01-15T08:00:00Z"
ONLY_ASKED = {"delay", "fresh", "fromPhase", "everything", "dryRun", "limit", "filter", "action", "overlap", "count"}
"""Fields that say what is to be done, not how something is."""


@pytest.fixture
def site(site: WebApi, app: Penstock) -> WebApi:
    @app.job("report")
    def report(of: str = "all") -> None: ...

    app.definitions.register()
    return site


def job(**more: Any) -> dict[str, Any]:
    return {"definitionKey": "report", "params": {}, **more}


def test_the_time_that_a_job_is_asked_for_is_answered_by_the_same_name(site: WebApi) -> None:
    started = told(site.post("/v1/jobs", job(runAt=DUE)), 201)
    at = f"/v1/jobs/{started['jobId']}"
    assert told(site.get(at))["runAt"].startswith("2036-01-15T08:00:00")

    told(site.patch(at, {"runAt": "2036-02-15T08:00:00Z"}))

    assert told(site.get(at))["runAt"].startswith("2036-02-15T08:00:00")
    assert "scheduledAt" not in told(site.get(at))


def test_each_field_that_a_job_is_asked_for_with_is_in_its_answer() -> None:
    shapes = document()["components"]["schemas"]

    asked = set(shapes["JobRequest"]["properties"]) - ONLY_ASKED - {"traceparent", "tracestate"}

    assert asked <= set(shapes["Job"]["properties"])


@pytest.mark.parametrize(
    ("method", "path", "body", "meant"),
    [
        ("POST", "/v1/jobs", job(scheduledAt=DUE), "runAt"),
        ("POST", "/v1/jobs", job(run_at=DUE), "runAt"),
        ("POST", "/v1/jobs", job(maxAttemps=3), "maxAttempts"),
        ("POST", "/v1/jobs", {"definition": "report", "params": {}}, "definitionKey"),
        ("POST", "/v1/jobs/batch", {"jobs": [job(retries=3)]}, "maxAttempts"),
        ("POST", "/v1/jobs/bulk", {"action": "cancel", "filter": {"state": ["failed"]}}, "status"),
        ("PUT", "/v1/schedules/nightly", {"definitionKey": "report", "cron": "0 3 * * *"}, "expression"),
    ],
)
def test_an_unknown_field_of_a_body_gets_the_one_that_is_meant(
    site: WebApi, method: str, path: str, body: Any, meant: str
) -> None:
    error = refused(site.request(method, path, json=body), 422, "invalid_request")

    problems = [each["message"] for each in error["details"]["problems"]]
    assert f"is unknown here; did you mean {meant!r}?" in problems


def test_an_unknown_field_that_is_like_no_other_gets_none(site: WebApi) -> None:
    error = refused(site.post("/v1/jobs", job(zebra=1)), 422, "invalid_request")

    assert error["message"] == "/zebra is unknown here."


@pytest.mark.parametrize(("name", "meant"), [("definition", "definitionKey"), ("state", "status"), ("tags", "tag")])
def test_an_unknown_query_parameter_gets_the_one_that_is_meant(site: WebApi, name: str, meant: str) -> None:
    error = refused(site.get(f"/v1/jobs?{name}=x"), 422, "invalid_request")

    assert f"Did you mean {meant!r}?" in error["hint"]


def test_several_statuses_are_given_with_commas_in_between_or_one_by_one(site: WebApi, app: Penstock) -> None:
    later = told(site.post("/v1/jobs", job(delay=3600)), 201)["jobId"]
    now = told(site.post("/v1/jobs", job()), 201)["jobId"]
    ended = told(site.post("/v1/jobs", job()), 201)["jobId"]
    app.jobs.cancel(ended)

    def found(query: str) -> set[str]:
        return {each["jobId"] for each in told(site.get(f"/v1/jobs?{query}"))["jobs"]}

    assert found("status=scheduled,queued") == found("status=scheduled&status=queued") == {later, now}
    assert found("status=scheduled,queued&status=cancelled") == {later, now, ended}
    refused(site.get("/v1/jobs?status=scheduled,gone"), 422, "invalid_request")
    refused(site.get("/v1/jobs?status=,"), 422, "invalid_request")
