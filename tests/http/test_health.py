"""`/healthz`, `/readyz`, `/metrics`, `/docs` and `/openapi.json`."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import Penstock
from penstock.domain.errors import StoreFull, StoreUnavailable
from penstock.domain.worker import Duty
from penstock.http.routes import health as readiness
from penstock.storage.commands import jobs
from tests.http.asgi_api import WebApi, refused, told
from tests.operations.hand import LEASE, Hand
from tests.services import PostgresServer
from tests.storage.tables import query
from tests.waiting import wait_until


def test_a_server_is_alive_and_ready_for_everybody(site: WebApi) -> None:
    site.token("viewer")

    assert told(site.get("/healthz")) == {"status": "ok"}
    assert told(site.get("/readyz")) == {"status": "ready"}
    assert query(site.app.store, "SELECT count(*) FROM {s}bucket")[0][0] == 1


REASONS = [StoreUnavailable("db.internal.example does not answer."), StoreFull("shop_production has no room left.")]


@pytest.mark.parametrize("error", REASONS)
def test_a_server_whose_store_takes_nothing_is_alive_but_not_ready_and_says_why_to_those_it_knows(
    site: WebApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    async def refuse(*given: Any, **named: Any) -> None:
        raise error

    monkeypatch.setattr(site.app.tokens, "atake_allowance", refuse)

    assert refused(site.get("/readyz"), 503, "unavailable")["message"] == str(error)
    with site.as_("viewer"):
        assert refused(site.get("/readyz"), 503, "unavailable")["message"] == str(error)
    for headers in ({}, {"Authorization": "Bearer pst_wrong"}):
        answer = site.get("/readyz", headers=headers)
        assert refused(answer, 503, "unavailable")["message"] == "The store is not ready."
        assert not any(word in answer.text for word in ("internal", "shop_production"))
    told(site.get("/healthz"))
    assert [each.getMessage() for each in caplog.records if "not ready" in each.getMessage()] == [
        f"The store is not ready: {error}"
    ]


def test_an_outage_of_the_store_does_not_delay_the_answer_that_a_server_is_alive(
    site: WebApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that never answers: a liveness probe that waited for it would restart every server of a fleet."""

    async def never(*given: Any, **named: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(site.app.session, "ahold", never)
    monkeypatch.setattr(site.app.store, "arun", never)
    site.web.state.server.token_policy.invalidate()

    for headers in ({}, {"Authorization": "Bearer pst_wrong"}, {"Cookie": "penstock_session=x"}):
        assert told(site.get("/healthz", headers=headers)) == {"status": "ok"}


def test_a_server_whose_database_has_stopped_is_alive_and_not_ready(postgres: PostgresServer, portal: Any) -> None:
    app = Penstock(postgres.create_database(), migrate=True)
    site = WebApi(app, portal)
    told(site.get("/readyz"))

    postgres.stop("immediate")
    try:
        site.web.state.server.token_policy.invalidate()
        alive = site.get("/healthz")
        site.web.state.server.readiness.__init__(app)
        wait_until(lambda: site.get("/readyz").status_code == 503, "the server is not ready")
        assert told(site.get("/healthz")) == {"status": "ok"}
    finally:
        postgres.start()
        portal.call(app.aclose)
        app.close()

    assert told(alive) == {"status": "ok"}


def test_however_many_ask_whether_a_server_is_ready_its_store_is_asked_once(
    site: WebApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, asked = site.app.tokens.atake_allowance, list[str]()

    async def count(name: str, *given: Any, **named: Any) -> float | None:
        asked.append(name)
        return await take(name, *given, **named)

    monkeypatch.setattr(site.app.tokens, "atake_allowance", count)
    monkeypatch.setattr(readiness, "_FRESH", 3600.0)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(site._ask("GET", "/readyz") for _ in range(30)))

    for answer in [*site._portal.call(ask), site.get("/readyz")]:
        assert told(answer) == {"status": "ready"}
    assert asked == ["readyz"]


def test_metrics_tell_depth_workers_duties_and_alerts(site: WebApi, app: Penstock) -> None:
    @app.job('odd/"key"'.replace('"', "-"))
    def work() -> None: ...

    app.definitions.register()
    hand = Hand(app)
    hand.store.run(jobs.heartbeat(hand.id, LEASE, duties=(Duty("promote", 2.0, 3),)))
    app.enqueue("odd/-key-")
    app.definitions.pause_all("x")

    answer = site.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    queued = ("definition", "odd/-key-"), ("status", "queued"), ("version", "1")
    assert found["penstock_jobs", *queued] == 1
    assert found["penstock_workers_live",] == 1
    assert found["penstock_duty_errors_total", ("duty", "promote"), ("worker", hand.id)] == 3
    assert found["penstock_duty_last_success_age_seconds", ("duty", "promote"), ("worker", hand.id)] >= 2
    assert found["penstock_alerts", ("kind", "system_paused"), ("severity", "warning")] == 1
    ready = ("definition", "odd/-key-"), ("priority", "10")
    assert found["penstock_queue_oldest_age_seconds", *ready] >= 0
    assert found["penstock_queue_depth", *ready] == 1


def test_metrics_need_a_viewer(site: WebApi) -> None:
    with site.as_("viewer"):
        assert site.get("/metrics").status_code == 200
    refused(site.get("/metrics"), 401, "unauthenticated")


class Page(HTMLParser):
    """Collects what a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action", "style")]


def test_the_docs_page_tells_every_route_without_script_or_foreign_host(site: WebApi) -> None:
    site.token("viewer")

    answer = site.get("/docs")

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Page()
    page.feed(answer.text)
    assert not page.tags & {"script", "img", "iframe", "link", "form", "object"}
    assert all(each.startswith("#") or each == "/openapi.json" for each in page.links)
    for path in site.web.openapi()["paths"]:
        assert f"<code>{path}</code>" in answer.text


def test_the_docs_pages_policy_allows_its_own_style_and_nothing_else(site: WebApi) -> None:
    answer = site.get("/docs")

    policy = answer.headers["content-security-policy"]
    (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


OPEN = {
    ("/healthz", "get"), ("/readyz", "get"), ("/docs", "get"),
    ("/v1/session", "get"), ("/v1/session", "post"), ("/v1/session", "delete"),
}  # fmt: skip


def test_every_route_needs_a_role_but_those_that_nobody_can_have_one_for(site: WebApi) -> None:
    paths = site.web.openapi()["paths"]

    operations = {(path, method): told for path, methods in paths.items() for method, told in methods.items()}

    assert {each for each, operation in operations.items() if "x-role" not in operation} == OPEN


def test_every_route_says_what_it_does_and_how_it_may_refuse(site: WebApi) -> None:
    for path, methods in site.web.openapi()["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], f"{method} {path}"
            assert {"400", "401", "403", "422", "429", "503"} <= operation["responses"].keys(), f"{method} {path}"
