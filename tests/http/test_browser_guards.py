"""What keeps other sites' pages out, and what browsers are told: on every route, errors included."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from penstock import Penstock
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite
from tests.http.document import operations
from tests.http.streams import define, ended_job, enqueue
from tests.operations.hand import Hand
from tests.storage.tables import dump

OURS = "https://ops.example.org"
EVIL = "https://evil.example"
OPERATIONS = operations()
WRITES = "/readyz"
"""It tries whether the store can be written, in a row that nobody reads."""


def preflight(site: WebApi, origin: str, path: str = "/v1/jobs") -> Any:
    headers = {
        "Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization",
    }  # fmt: skip
    return site.request("OPTIONS", path, headers=headers, checked=False)


def shared_with(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


def test_without_the_setting_no_answer_is_for_other_origins(site: WebApi) -> None:
    for origin in (OURS, EVIL, "null", "http://127.0.0.1:7367"):
        assert shared_with(preflight(site, origin)) == {}
        assert shared_with(site.get("/v1/jobs", headers={"Origin": origin})) == {}


def test_a_webhook_is_refused_on_every_route_whatever_its_url(site: WebApi, app: Penstock) -> None:
    define(app)
    before = dump(app.store)
    sender = {"User-Agent": "penstock-webhooks", "webhook-id": "msg_1"}

    for path in ("/v1/jobs", "/v1/jobs/batch", "/v1/tokens", "/v1/jobs/trigger", "/", "/healthz"):
        refused(site.post(path, {"definitionKey": "report"}, headers=sender, checked=False), 403, "forbidden")

    assert dump(app.store) == before


@pytest.mark.parametrize(
    "origin",
    [EVIL, "null", "http://ops.example.org", "https://ops.example.org.evil.example", "https://xops.example.org",
     "https://ops.example.org:444", "https://sub.ops.example.org", "https://OPS.example.org/"],
)  # fmt: skip
def test_only_origins_that_are_listed_may_read_answers(new_site: NewSite, origin: str) -> None:
    site = new_site(origins=(OURS,))

    assert preflight(site, OURS).headers["access-control-allow-origin"] == OURS
    assert told_origin(site, OURS) == OURS
    assert "access-control-allow-origin" not in shared_with(preflight(site, origin))
    assert told_origin(site, origin) is None
    assert "access-control-allow-credentials" not in shared_with(preflight(site, OURS))


def told_origin(site: WebApi, origin: str) -> str | None:
    found: str | None = site.get("/v1/jobs", headers={"Origin": origin}).headers.get("access-control-allow-origin")
    return found


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": EVIL}, {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:7367"}, {"Origin": "http://127.0.0.1:1234"},
    {"Sec-Fetch-Site": "nonsense"}, {"Origin": "http://localhost:7367"},
]  # fmt: skip


@pytest.mark.parametrize("page", FOREIGN)
def test_a_page_of_another_site_changes_nothing_where_there_are_no_tokens(
    site: WebApi, app: Penstock, page: dict[str, str]
) -> None:
    define(app)
    wanted = {"definitionKey": "work", "params": {"text": "x"}}

    for each in OPERATIONS:
        if each.changes and each.role is not None:
            refused(site.request(each.method, each.at(), json=wanted, headers=page), 403, "forbidden")
    assert app.jobs.list().jobs == []


@pytest.mark.parametrize(
    "page", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": "http://127.0.0.1:7367"}]
)
def test_our_own_page_and_programs_may(site: WebApi, app: Penstock, page: dict[str, str]) -> None:
    define(app)

    told(site.post("/v1/jobs", {"definitionKey": "work", "params": {"text": "x"}}, headers=page), 201)


def test_a_form_of_another_site_is_no_request_of_ours(site: WebApi, app: Penstock) -> None:
    define(app)

    for media in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "text/plain"):
        content = b'{"definitionKey":"work","params":{"text":"x"}}'
        answer = site.request("POST", "/v1/jobs", content=content, headers={"Content-Type": media})
        refused(answer, 415, "unsupported_media_type")
    assert app.jobs.list().jobs == []


@pytest.mark.parametrize("token", [False, True])
def test_every_answer_tells_browsers_to_be_careful(site: WebApi, token: bool) -> None:
    if token:
        site.token("admin")
    asked: list[tuple[str, str, dict[str, Any]]] = [(each.method, each.at(), {}) for each in OPERATIONS]
    asked += [("GET", "/v1/nothing", {}), ("PUT", "/v1/jobs", {}), ("GET", "/openapi.json", {}), ("GET", "/", {})]
    asked += [("GET", "/v1/jobs?x=1", {}), ("GET", "/v1/jobs/" + "x" * 9000, {}), ("GET", "/v1/jobs%00", {})]
    asked += [("POST", "/v1/jobs", {"content": b"{", "headers": {"Content-Type": "application/json"}})]
    asked += [("GET", "/v1/jobs", {"base": "http://evil.example"})]

    for answer in site.requests((method, path, {"checked": False, **more}) for method, path, more in asked):
        where = f"{answer.request.method} {answer.request.url.path[:60]} {answer.status_code}"
        headers = answer.headers
        assert headers["x-content-type-options"] == "nosniff", where
        assert headers["referrer-policy"] == "no-referrer", where
        assert headers["x-frame-options"] == "DENY", where
        assert headers["cross-origin-opener-policy"] == "same-origin", where
        assert headers["cross-origin-resource-policy"] == "same-origin", where
        assert headers["content-security-policy"].startswith("default-src 'none'"), where
        assert "frame-ancestors 'none'" in headers["content-security-policy"], where
        assert headers["cache-control"] in ("no-store", "no-cache"), where
        assert headers["x-request-id"] == "request-of-the-test", where
        assert "server" not in headers, where


def test_over_https_browsers_are_told_to_stay_there_and_elsewhere_they_are_not(site: WebApi, new_site: NewSite) -> None:
    site.token("viewer")
    asked = [
        ("GET", path, {"checked": False, "base": "https://jobs.example.org"}) for path in ("/", "/v1/jobs", "/v1/x")
    ]

    for answer in site.requests(asked):
        assert answer.headers["strict-transport-security"] == "max-age=31536000", answer.request.url
    assert "strict-transport-security" not in site.get("/v1/jobs").headers
    never = new_site(hsts_seconds=0).get("/v1/jobs", base="https://jobs.example.org")
    assert "strict-transport-security" not in never.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", "[::2]", "127.0.0.1@evil"]
)
def test_a_name_that_leads_here_by_somebody_elses_dns_is_refused(site: WebApi, app: Penstock, host: str) -> None:
    for each in OPERATIONS:
        if each.role is not None:
            answer = site.request(each.method, each.at(), headers={"Host": host})
            assert answer.status_code in (400, 421), (str(each), answer.text)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:7367", "127.0.0.1", "127.0.0.1:80", "[::1]:7367", "localhost."]
)
def test_this_host_is_known_by_its_own_names(site: WebApi, host: str) -> None:
    told(site.get("/v1/jobs", headers={"Host": host}))


def test_with_a_list_of_hosts_a_token_does_not_help_either(new_site: NewSite) -> None:
    site = new_site(hosts=("jobs.example.org",))

    with site.as_("admin"):
        told(site.get("/v1/jobs", headers={"Host": "jobs.example.org"}))
        told(site.get("/v1/jobs", headers={"Host": "jobs.example.org:8443"}))
        refused(site.get("/v1/jobs", headers={"Host": "evil.example"}), 421, "misdirected")


def test_hosts_are_known_however_their_names_are_written(new_site: NewSite) -> None:
    site = new_site(hosts=("Ops.Example.org",))

    with site.as_("admin"):
        for host in ("Ops.Example.org", "ops.example.org", "OPS.example.ORG:8443"):
            told(site.get("/v1/jobs", headers={"Host": host}))


def test_a_request_through_a_proxy_is_not_from_this_host(site: WebApi) -> None:
    for name in ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "X-Forwarded-Host"):
        refused(site.get("/v1/jobs", headers={name: "127.0.0.1"}), 401, "unauthenticated")
    refused(site.get("/v1/jobs", client="10.0.0.9"), 401, "unauthenticated")


def test_no_get_changes_anything(site: WebApi, app: Penstock) -> None:
    define(app)
    app.schedules.save("nightly", "work", cron="0 3 * * *", params={"text": "x"})
    endpoint = app.webhooks.save("https://receiver.example.org/hook").endpoint.id
    job, over = enqueue(app), ended_job(app)
    Hand(app)
    with site.as_("super_admin"):
        told(site.get("/v1/jobs"))
        before = _digest(app)
        for names in ({"jobId": job, "key": "work"}, {"jobId": over, "key": "nightly"}, {}):
            reads = [each for each in OPERATIONS if not each.changes and each.path != WRITES]
            paths = [each.at(**{"webhookId": endpoint, **names}) for each in reads]
            for answer in site.requests(("GET", path, {}) for path in paths):
                assert answer.status_code in (200, 404, 422, 503), answer.text

        assert _digest(app) == before


def _digest(app: Penstock) -> dict[str, str]:
    """What each table holds; when a token was last used is told to the minute and is no change of anybody's."""
    found = {name: rows for name, rows in dump(app.store).items() if name not in ("token", "session")}
    return {name: hashlib.sha256(repr(rows).encode()).hexdigest() for name, rows in found.items()}
