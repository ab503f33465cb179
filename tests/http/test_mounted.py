"""The API inside of somebody else's ASGI application, below a prefix."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.errors import InvalidInput
from penstock.http.application import create
from tests.http.asgi_api import ADDRESS
from tests.http.conftest import NewSite


def in_fastapi(app: Penstock) -> ASGIApp:
    outer = FastAPI()
    outer.mount("/background", create(app))
    return outer


def in_starlette(app: Penstock) -> ASGIApp:
    return Starlette(routes=[Mount("/background", create(app))])


@pytest.fixture(params=[in_fastapi, in_starlette])
def ask(request: pytest.FixtureRequest, app: Penstock, portal: Any, new_site: NewSite) -> Any:
    """Makes a request of an application that has ours mounted."""

    @app.job("hello")
    def hello(name: str) -> str:
        return name

    outer = request.param(app)

    async def send(method: str, path: str, **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(outer, client=("127.0.0.1", 5))
        async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as http:
            return await http.request(method, path, **options)

    portal.call(app.definitions.aregister)
    return lambda method, path, **options: portal.call(lambda: send(method, path, **options))


def test_a_job_is_started_and_found_where_the_answer_says(ask: Any) -> None:
    started = ask("POST", "/background/v1/jobs", json={"definitionKey": "hello", "params": {"name": "Ada"}})

    assert started.status_code == 201
    assert started.headers["Location"] == f"/background/v1/jobs/{started.json()['jobId']}"
    assert ask("GET", started.headers["Location"]).json()["params"] == {"name": "Ada"}


def test_the_document_names_the_prefix_and_the_same_paths(ask: Any, app: Penstock) -> None:
    document = ask("GET", "/background/openapi.json").json()

    # The second one is the place of the document, which is the same.
    assert [each["url"] for each in document["servers"]] == ["/background", "."]
    assert set(document["paths"]) == set(create(app).openapi()["paths"])


def test_a_wrong_path_below_the_prefix_is_refused_in_the_one_shape(ask: Any) -> None:
    refused = ask("GET", "/background/v1/nothing")

    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "not_found"


def test_what_a_mounted_server_cannot_do_is_said(ask: Any) -> None:
    refused = ask("POST", "/background/v1/jobs/trigger")

    assert refused.status_code == 409
    assert "runs no jobs" in refused.json()["error"]["message"]


@pytest.mark.parametrize("seen", ["/ops/penstock", ""])
def test_a_proxy_may_leave_the_path_below_which_it_shows_the_server_or_take_it_out(
    seen: str, app: Penstock, portal: Any
) -> None:
    app.job("a/b")(lambda name: name)
    portal.call(app.definitions.aregister)
    web = create(app, WebSettings(root_path="/ops/penstock"))

    async def ask(method: str, path: str, **options: Any) -> httpx2.Response:
        transport = httpx2.ASGITransport(web, client=("127.0.0.1", 5))
        async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as http:
            return await http.request(method, seen + path, **options)

    started = portal.call(lambda: ask("POST", "/v1/jobs", json={"definitionKey": "a/b", "params": {"name": "Ada"}}))
    named = portal.call(lambda: ask("GET", "/v1/definitions/a%2Fb"))
    page = portal.call(lambda: ask("GET", "/jobs", headers={"Accept": "text/html"}))

    assert started.status_code == 201
    assert started.headers["Location"] == f"/ops/penstock/v1/jobs/{started.json()['jobId']}"
    assert named.json()["key"] == "a/b"
    assert '<base href="/ops/penstock/">' in page.text
    portal.call(app.aclose)


@pytest.mark.parametrize("wrong", ["ops", "/ops/", "//ops", "/", "/a b", '/"x'])
def test_what_is_no_path_cannot_be_the_root(wrong: str) -> None:
    with pytest.raises(InvalidInput, match="root_path"):
        WebSettings(root_path=wrong)
