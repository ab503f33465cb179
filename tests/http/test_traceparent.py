"""The header `traceparent` of a creation: jobs are below the caller's span, unless the body names another one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi
from tests.operations.hand import Hand

SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/batch"])
@pytest.mark.parametrize(
    ("header", "field", "kept"),
    [
        (SPAN, None, SPAN), (SPAN, OTHER, OTHER), (None, None, None), ("garbage", None, None),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None, None),
    ],
    ids=["header", "field-first", "none", "garbage", "zeros"],
)  # fmt: skip
def test_jobs_are_below_the_span_that_headers_name(
    site: WebApi, app: Penstock, path: str, header: str | None, field: str | None, kept: str | None
) -> None:
    app.job("work")(_nothing)
    app.definitions.register()
    job: dict[str, Any] = {"definitionKey": "work", "params": {}}
    if field is not None:
        job["traceparent"] = field
    body = {"jobs": [job]} if path.endswith("batch") else job
    headers = {"Content-Type": "application/json", **({} if header is None else {"traceparent": header})}

    answer = site.request("POST", path, content=json.dumps(body).encode(), headers=headers)

    assert answer.status_code == 201
    assert [each.traceparent for each in Hand(app).claim()] == [kept]


def _nothing() -> None: ...
