"""The document is fit for people who generate code from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import validator_for
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from penstock import Penstock
from penstock.http.openapi_texts import EXAMPLES, TEXTS
from tests.http.asgi_api import WebApi, refused, told
from tests.http.document import document, operations

VERBS = {
    "approve", "begin", "cancel", "change", "create", "delete", "disable", "dispatch", "enable", "end", "get", "list",
    "override", "pause", "preview", "redeliver", "reject", "remove", "replace", "rerun", "resume", "retire", "retry",
    "revoke", "rotate", "start", "test", "trigger",
}  # fmt: skip
SCHEDULE = {"definitionKey": "report", "kind": "interval", "expression": "1h"}


@pytest.fixture
def site(site: WebApi, app: Penstock) -> WebApi:
    @app.job("report")
    def report(of: str = "all") -> None: ...

    app.definitions.register()
    return site


def fields() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, shape in document()["components"]["schemas"].items():
        for field, schema in shape.get("properties", {}).items():
            yield f"{name}.{field}", schema


def parameters() -> Iterator[tuple[str, dict[str, Any]]]:
    for operation in operations():
        for each in operation.told.get("parameters", ()):
            yield f"{operation} {each['name']}", each


def test_each_operation_has_a_short_name_of_a_verb_and_a_noun() -> None:
    names = [each.told["operationId"] for each in operations()]

    assert len(set(names)) == len(names)
    for each in names:
        found = re.fullmatch(r"([a-z]+)([A-Z][A-Za-z]+)", each)
        assert found is not None, each
        assert found[1] in VERBS, each
    assert {"startJob", "getJob", "cancelJob", "listJobs", "changeJob"} <= set(names)


def test_each_operation_has_one_noun_as_its_tag_and_says_who_may_call_it() -> None:
    known = {each["name"]: each["description"] for each in document()["tags"]}

    for each in operations():
        assert len(each.told["tags"]) == 1, each
        assert each.told["tags"][0] in known, each
        assert each.told["description"], each
        assert each.told["security"] == ([] if each.role is None else [{"token": []}, {"session": []}, {}]), each
    assert {tag for each in operations() for tag in each.told["tags"]} == set(known)
    assert document()["servers"] == [{"url": ".", "description": "The server of this document."}]


def test_each_shape_field_and_parameter_is_described() -> None:
    missing = [name for name, each in (*fields(), *parameters()) if not each.get("description")]
    missing += [name for name, each in document()["components"]["schemas"].items() if not each.get("description")]

    assert not missing


def test_each_field_and_parameter_has_an_example_that_fits_it() -> None:
    wrong = []
    for name, schema in fields():
        if "#/components/schemas/" in str([schema.get("$ref"), *schema.get("anyOf", ())]):
            continue
        if not schema.get("examples") or not all(_fits(schema, each) for each in schema["examples"]):
            wrong.append(name)
    wrong += [
        name for name, each in parameters() if "example" not in each or not _fits(each["schema"], each["example"])
    ]

    assert not wrong


def test_no_text_and_no_example_is_of_a_name_that_is_gone() -> None:
    used = {name.rpartition(".")[2] for name, _ in fields()} | {each["name"] for _, each in parameters()}

    assert set(TEXTS) - used == set()
    assert set(EXAMPLES) - used == set()


@pytest.mark.parametrize("path", ["/v1/events", "/v1/jobs/{jobId}/events"])
def test_the_bounds_of_a_list_of_events_are_in_the_document(path: str) -> None:
    (limit,) = [each for each in document()["paths"][path]["get"]["parameters"] if each["name"] == "limit"]

    bounds = [(each.get("minimum"), each.get("maximum")) for each in limit["schema"]["anyOf"]]
    assert (1, 500) in bounds


def test_answers_that_ask_to_wait_say_how_long() -> None:
    for each in operations():
        for status in {"429", "503"} & each.told["responses"].keys():
            assert "Retry-After" in each.told["responses"][status]["headers"], each


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/jobs", "GET, POST"),
        ("/v1/jobs/x", "DELETE, GET, PATCH"),
        ("/v1/schedules/nightly", "DELETE, GET, PATCH, PUT"),
        ("/v1/schedules/nightly/pause", "POST"),
        ("/v1/schedules/nightly/preview", "GET"),
        ("/v1/webhooks/x", "DELETE, GET, PATCH, PUT"),
        ("/v1/worker/config", None),
    ],
)
def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(
    site: WebApi, path: str, methods: str | None
) -> None:
    answer = site.request("TRACE", path, checked=False)

    refused(answer, 405, "method_not_allowed")
    if methods is None:
        methods = ", ".join(sorted(each.method for each in operations() if each.path == path))
    assert answer.headers["allow"] == methods


@pytest.mark.parametrize("action", ["pause", "resume", "trigger", "preview", "ticks"])
def test_a_schedule_is_not_made_under_the_path_of_an_action(site: WebApi, action: str) -> None:
    refused(site.put(f"/v1/schedules/nightly/{action}", SCHEDULE, checked=False), 405, "method_not_allowed")

    assert told(site.get("/v1/schedules"))["schedules"] == []


@pytest.mark.parametrize("key", ["pause", "nightly/pauses", "a/b", "nightly/preview"])
def test_a_key_that_ends_like_an_action_is_told_from_it_by_its_quoted_slash(site: WebApi, key: str) -> None:
    at = f"/v1/schedules/{key.replace('/', '%2F')}"

    assert told(site.put(at, SCHEDULE), 201)["key"] == key

    assert told(site.get(at))["key"] == key
    assert told(site.post(f"{at}/pause", {"reason": "x"}))["pause"]["reason"] == "x"


@pytest.mark.parametrize(
    ("accept", "is_open"),
    [
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("text/plain, application/openmetrics-text;q=0.5", False),
        ("*/*", False),
        ("application/openmetrics-text;q=0", False),
    ],
)
def test_metrics_are_in_the_format_that_is_asked_for(site: WebApi, accept: str, is_open: bool) -> None:
    answer = site.get("/metrics", headers={"Accept": accept})

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/openmetrics-text" if is_open else "text/plain")
    assert answer.text.endswith("# EOF\n") is is_open
    if is_open:
        assert "penstock_workers_live" in {each.name for each in text_string_to_metric_families(answer.text)}


def _fits(schema: dict[str, Any], value: Any) -> bool:
    return bool(validator_for({**schema, "components": document()["components"]}).is_valid(value))
