"""The header `tracestate` of a creation: handlers get it with the caller's span, and so do the jobs they create."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Client, Penstock
from tests.http.asgi_api import WebApi, refused
from tests.http.document import document
from tests.http.servers import opened, serve
from tests.http.test_traceparent import OTHER, SPAN
from tests.operations.hand import Hand
from tests.worker.fleet import Stage

STATE = "shop=a b,other@vendor=1"
LONGEST = f"a={'x' * 255},b={'y' * 252}"


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


@pytest.mark.xdist_group("web-serve")
def test_a_handler_and_the_jobs_it_creates_get_the_state_of_the_request(stage: Stage) -> None:
    server = serve(stage, target="tests.http.trace_app:app")
    headers = {"traceparent": SPAN, "tracestate": STATE}

    def told(key: str, **params: str) -> tuple[Any, Any]:
        started = server.post("/v1/jobs", {"definitionKey": key, "params": params}, headers=headers)
        result = server.until(started["jobId"], "succeeded")["result"]
        return result["told"], server.until(result["child"], "succeeded")["result"]

    assert told("forked") == told("inline") == ([SPAN, STATE], [SPAN, STATE])
    assert told("forked", traceparent=OTHER) == ([SPAN, STATE], [OTHER, None])
    with Client(server.url) as client:
        sent = client.enqueue("told", traceparent=OTHER, tracestate="mine=1")
        assert server.until(sent.id, "succeeded")["result"] == [OTHER, "mine=1"]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/batch"])
@pytest.mark.parametrize(
    ("states", "kept"),
    [
        ([STATE], STATE), (["a=1", "b=2"], "a=1,b=2"), ([" a=1 ,, b=2\t,"], "a=1,b=2"), ([LONGEST], LONGEST),
        ([",".join(f"k{number}=1" for number in range(32))], ",".join(f"k{number}=1" for number in range(32))),
    ],
    ids=["one", "two-headers", "spaces", "512-characters", "32-members"],
)  # fmt: skip
def test_a_state_is_kept_as_w3c_writes_it(site: WebApi, app: Penstock, path: str, states: list[str], kept: str) -> None:
    assert created(site, app, path, [("traceparent", SPAN), *(("tracestate", each) for each in states)]) == (
        f"{SPAN} {kept}"
    )


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/batch"])
@pytest.mark.parametrize(
    "state",
    [
        "", " , ", "garbage", "A=1", "a=", "a=1=2", "a=1,a=2", "a=\x01", "a=ü", "a@b@c=1", f"{LONGEST}y",
        ",".join(f"k{number}=1" for number in range(33)),
    ],
    ids=[
        "empty", "no-members", "no-value", "upper-case", "empty-value", "two-values", "twice", "control", "not-ascii",
        "two-systems", "513-characters", "33-members",
    ],
)  # fmt: skip
def test_a_malformed_state_is_ignored(site: WebApi, app: Penstock, path: str, state: str) -> None:
    headers = [("traceparent", SPAN), ("tracestate", state)]

    assert created(site, app, path, [(name, value.encode("latin-1")) for name, value in headers]) == SPAN


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/batch"])
@pytest.mark.parametrize(
    ("parent", "fields", "kept"),
    [
        (None, {}, None),
        ("garbage", {}, None),
        (None, {"tracestate": "a=1"}, None),
        (SPAN, {"traceparent": OTHER}, OTHER),
        (SPAN, {"traceparent": OTHER, "tracestate": "a=1"}, f"{OTHER} a=1"),
        (SPAN, {"tracestate": "a=1"}, f"{SPAN} {STATE}"),
    ],
    ids=["no-span", "malformed-span", "field-alone", "span-in-body", "both-in-body", "state-in-body"],
)
def test_a_state_belongs_to_the_span_beside_it(
    site: WebApi, app: Penstock, path: str, parent: str | None, fields: dict[str, str], kept: str | None
) -> None:
    headers = [("tracestate", STATE), *([] if parent is None else [("traceparent", parent)])]

    assert created(site, app, path, headers, **fields) == kept


def test_a_state_in_the_body_that_is_no_text_is_refused(site: WebApi) -> None:
    job = {"definitionKey": "work", "params": {}, "traceparent": SPAN, "tracestate": 5}

    assert "/tracestate" in str(refused(site.post("/v1/jobs", job), 422, "invalid_request"))


def test_the_document_names_both_headers() -> None:
    for path in ("/v1/jobs", "/v1/jobs/batch"):
        parameters = document()["paths"][path]["post"]["parameters"]
        assert [(each["name"], each["in"], each["required"]) for each in parameters] == [
            ("traceparent", "header", False), ("tracestate", "header", False),
        ]  # fmt: skip


def created(site: WebApi, app: Penstock, path: str, headers: list[tuple[str, Any]], **fields: str) -> str | None:
    """What the store keeps of the trace of a job that is created with these headers."""
    app.job("work")(_nothing)
    app.definitions.register()
    job = {"definitionKey": "work", "params": {}, **fields}
    body = {"jobs": [job]} if path.endswith("batch") else job
    answer = site.request("POST", path, json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    (claimed,) = Hand(app).claim()
    return claimed.traceparent


def _nothing() -> None: ...
