"""Keys in paths, also where the application is mounted in another one."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.domain.definition import Definition
from penstock.http.application import create
from penstock.http.paths import KeyConvertor, mark_quoted_slashes
from penstock.storage.commands import admin
from tests.http.asgi_api import ADDRESS, WebApi, told
from tests.storage.tables import change


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b"/x/a", "a"), (b"/x/a%2Fb", "a/b"), (b"/x/a%2fb", "a/b"), (b"/x/a/b", "a/b"), (b"/x/a%252Fb", "a%2Fb"),
        (b"/x/%C3%BC%2F%C3%BC", "ü/ü"), (b"/x/%2F", "/"),
    ],
)  # fmt: skip
def test_a_key_is_what_was_quoted(raw: bytes, key: str) -> None:
    path = httpx2.URL(f"http://x{raw.decode()}").path
    scope: dict[str, Any] = {"path": path, "raw_path": raw}

    mark_quoted_slashes(scope)

    assert KeyConvertor().convert(scope["path"].removeprefix("/x/")) == key
    assert scope["path"].count("/") == raw.count(b"/")


def test_a_path_that_somebody_rewrote_on_the_way_is_left_as_it_is() -> None:
    scope = {"path": "/other", "raw_path": b"/x/a%2Fb"}

    mark_quoted_slashes(scope)

    assert scope["path"] == "/other"


async def test_keys_and_locations_hold_where_the_application_is_mounted(tmp_path: Any) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    await app.store.arun(admin.register([Definition("a/preview")]))
    outer = Starlette(routes=[Mount("/jobs", create(app))])
    transport = httpx2.ASGITransport(outer, client=("127.0.0.1", 5))

    async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as http:
        found = await http.get("/jobs/v1/definitions/a%2Fpreview")
        asked = {"key": "x/preview", "definitionKey": "a/preview", "kind": "interval", "expression": "1h"}
        made = await http.post("/jobs/v1/schedules", json=asked)
        read = await http.get(made.headers["location"])

    assert found.json()["key"] == "a/preview"
    assert (made.headers["location"], read.json()["key"]) == ("/jobs/v1/schedules/x%2Fpreview", "x/preview")
    await app.aclose()


def test_parameters_of_a_definition_that_cannot_be_read_are_not_shown(site: WebApi, app: Penstock) -> None:
    @app.job("work", secret=["magic"])
    def work(magic: str, n: int = 1) -> None: ...

    job_id = work.enqueue(magic="canary-5e").id
    schedule = {"definitionKey": "work", "kind": "interval", "expression": "1h", "params": {"magic": "canary-5e"}}
    told(site.put("/v1/schedules/s", schedule), 201)
    change(app.store, "UPDATE {s}definition SET body = 'broken'")
    site.web.state.server.job_output._read_at = -60.0

    assert told(site.get(f"/v1/jobs/{job_id}"))["params"]["magic"] == "***"
    assert told(site.get("/v1/schedules/s"))["params"] == {"magic": "***"}
