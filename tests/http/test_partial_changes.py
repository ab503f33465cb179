"""A change of some fields leaves all others alone, also from a client that is generated from the document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, told
from tests.http.document import Operation, document, operations

CHANGES = [each for each in operations() if each.method == "PATCH"]
BERLIN: dict[str, Any] = {
    "definitionKey": "report", "kind": "cron", "expression": "0 3 * * *", "timezone": "Europe/Berlin",
    "enabled": False, "overlap": "skip", "missed": "all", "missedMax": 7, "missedWindow": 60.0, "jitter": 5.0,
    "priority": 3, "concurrencyKey": "all", "params": {"of": "Berlin"},
}  # fmt: skip


@pytest.fixture
def site(site: WebApi, app: Penstock) -> WebApi:
    @app.job("report")
    def report(of: str = "all") -> None: ...

    app.definitions.register()
    return site


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_no_field_of_a_change_has_a_default(change: Operation) -> None:
    body = change.told["requestBody"]["content"]["application/json"]["schema"]

    found = [place for place, schema in _within(body) if "default" in schema]

    assert not found, f"generated clients send these with every change: {found}"


def test_there_are_changes_to_look_at() -> None:
    assert {"/v1/jobs/{jobId}", "/v1/schedules/{key}", "/v1/webhooks/{webhookId}"} <= {each.path for each in CHANGES}


def test_a_disabled_schedule_of_berlin_stays_what_it_is_but_for_its_expression(site: WebApi) -> None:
    made = told(site.post("/v1/schedules", {**BERLIN, "key": "nightly"}), 201)

    changed = told(site.patch("/v1/schedules/nightly", _sent("SchedulePatch", kind="cron", expression="0 4 * * *")))

    differing = {name for name in made if made[name] != changed[name]}
    assert differing <= {"expression", "nextRunAt", "revision", "updatedAt"}
    assert {name: changed[name] for name in BERLIN} == {**BERLIN, "expression": "0 4 * * *"}


def test_a_disabled_endpoint_stays_what_it_is_but_for_its_description(site: WebApi) -> None:
    asked = {"url": "https://hooks.example.org/in", "events": ["job.failed"], "definitionKeys": ["report"],
             "description": "before", "enabled": False}  # fmt: skip
    made = told(site.post("/v1/webhooks", asked), 201)

    changed = told(site.patch(f"/v1/webhooks/{made['webhookId']}", _sent("WebhookPatch", description="after")))

    assert {name: changed[name] for name in asked} == {**asked, "description": "after"}


def test_a_job_with_another_priority_is_due_when_it_was(site: WebApi) -> None:
    started = told(site.post("/v1/jobs", {"definitionKey": "report", "params": {}, "delay": 3600}), 201)
    before = told(site.get(f"/v1/jobs/{started['jobId']}"))

    told(site.patch(f"/v1/jobs/{started['jobId']}", _sent("JobPatch", priority=4)))

    after = told(site.get(f"/v1/jobs/{started['jobId']}"))
    assert {name for name in before if before[name] != after[name]} <= {"priority", "updatedAt"}


def _sent(name: str, **given: Any) -> dict[str, Any]:
    """The body as a client makes it that fills in what the document calls a default."""
    fields = document()["components"]["schemas"][name]["properties"]
    return {field: schema["default"] for field, schema in fields.items() if "default" in schema} | given


def _within(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas that this one is made of."""
    if isinstance(schema, list):
        for index, each in enumerate(schema):
            yield from _within(each, f"{place}/{index}")
    elif isinstance(schema, dict):
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            yield from _within(document()["components"]["schemas"][name], f"{place}/{name}")
        yield place, schema
        for name, each in schema.items():
            if name in ("properties", "$defs", "patternProperties"):
                for field, inner in each.items():
                    yield from _within(inner, f"{place}/{field}")
            elif name in ("items", "anyOf", "oneOf", "allOf", "additionalProperties", "not", "prefixItems"):
                yield from _within(each, place)
