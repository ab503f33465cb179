"""While there is no token: what programs of this host may do, what they need the setup code for, and who is no such."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Penstock
from penstock.http.authentication import new_setup_code
from tests.http.asgi_api import SETUP_CODE, WebApi, refused, told
from tests.http.conftest import NewSite
from tests.http.raw import RawServer, request, statuses
from tests.http.servers import opened, serve
from tests.http.streams import define
from tests.waiting import wait_until
from tests.worker.fleet import Stage

CODE = "X-Penstock-Setup-Code"
WANTED = {"name": "mine", "role": "super_admin"}
SIGNS = [
    "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server",
    "X-Forwarded-Prefix", "Via", "X-Real-IP", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "CF-Ray",
    "CF-Connecting-IP", "CF-IPCountry", "CF-Visitor", "X-Amzn-Trace-Id", "CDN-Loop", "X-Envoy-External-Address",
]  # fmt: skip


def test_whatever_a_proxy_says_of_itself_shuts_its_callers_out(site: WebApi) -> None:
    for name in SIGNS:
        for method, path, body in (("GET", "/v1/jobs", None), ("POST", "/v1/tokens", WANTED)):
            error = refused(site.request(method, path, json=body, headers={name: "1"}), 401, "unauthenticated")
            assert name.lower() in error["message"], error
        session = told(site.get("/v1/session", headers={name: "1"}))
        assert (session["role"], session["setupCode"]) == (None, False)
    assert site.app.tokens.list() == []


def test_the_protocol_of_old_that_proxies_speak_shuts_their_callers_out(app: Penstock) -> None:
    assert app.address is not None
    define(app)
    server = RawServer(Penstock(**app.address))
    try:
        # As nginx passes requests on where nothing is configured but proxy_pass.
        answer = server.answer(request(method="GET", version="HTTP/1.0"))
        assert statuses(answer) == [401]
        assert b"HTTP/1.0" in answer.partition(b"\r\n\r\n")[2]
        assert statuses(server.answer(request(method="GET"))) == [200]
        token = f"Authorization: Bearer {app.tokens.create('a', 'viewer').text}"
        assert statuses(server.answer(request(token, method="GET", version="HTTP/1.0"))) == [200]
    finally:
        server.stop()


def test_what_a_super_admin_does_needs_the_setup_code_and_nothing_else_does(site: WebApi, app: Penstock) -> None:
    define(app)

    told(site.get("/v1/jobs", coded=False))
    told(site.post("/v1/jobs", {"definitionKey": "work", "params": {"text": "x"}}, coded=False), 201)
    told(site.post("/v1/system/pause", {"reason": "x"}, coded=False))
    session = told(site.get("/v1/session", coded=False))
    assert (session["role"], session["name"], session["setupCode"]) == ("admin", "local", True)
    for method, path, body in (
        ("POST", "/v1/tokens", WANTED), ("GET", "/v1/tokens", None), ("DELETE", "/v1/tokens/AAAAAAAAAAA", None),
        ("PUT", "/v1/worker/config", {}),
    ):  # fmt: skip
        error = refused(site.request(method, path, json=body, coded=False), 403, "forbidden")
        assert "setup code" in error["message"]
        assert "penstock tokens create" in error["hint"]
    assert app.tokens.list() == []

    session = told(site.get("/v1/session"))
    assert (session["role"], session["name"], session["setupCode"]) == ("super_admin", "local", True)
    told(site.post("/v1/tokens", WANTED, headers={CODE: SETUP_CODE.lower().replace("-", " ")}), 201)


def test_a_wrong_code_opens_nothing_and_many_of_them_make_wait_but_not_for_the_right_one(new_site: NewSite) -> None:
    site = new_site(failed_tokens=3)
    wrong = {CODE: new_setup_code()}

    for _ in range(3):
        error = refused(site.post("/v1/tokens", WANTED, headers=wrong), 403, "forbidden")
        assert "not the setup code" in error["message"]
    refused(site.post("/v1/tokens", WANTED, headers=wrong), 429, "rate_limited")
    refused(site.get("/v1/tokens", headers={CODE: ""}), 429, "rate_limited")

    # A page that still shows the code of an earlier server goes on.
    told(site.get("/v1/jobs", headers=wrong))
    assert told(site.get("/v1/session", headers=wrong))["role"] == "admin"
    told(site.post("/v1/tokens", WANTED), 201)


def test_the_first_token_uses_the_code_up_also_when_the_store_is_opened_again(site: WebApi, app: Penstock) -> None:
    made = told(site.post("/v1/tokens", WANTED), 201)
    refused(site.get("/v1/tokens"), 401, "unauthenticated")

    app.tokens.revoke(made["tokenId"])
    assert app.tokens.open_access()
    site.web.state.server.token_policy.invalidate()

    told(site.get("/v1/jobs", coded=False))
    for coded in (False, True):
        error = refused(site.post("/v1/tokens", WANTED, coded=coded), 403, "forbidden")
        assert "command line" in error["message"]
    assert told(site.get("/v1/session", coded=False))["setupCode"] is False


def test_codes_differ_and_are_too_many_to_guess() -> None:
    codes = {new_setup_code() for _ in range(1000)}

    assert len(codes) == 1000
    assert {len(each.replace("-", "")) for each in codes} == {12}


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


def test_a_server_says_at_its_start_that_it_is_open_and_how_to_close_it(stage: Stage) -> None:
    server = serve(stage, target=None)
    wait_until(lambda: server.setup_code is not None, "the setup code is printed")

    assert "THERE IS NO TOKEN YET" in server.output
    assert "penstock tokens create" in server.output
    made = server.post("/v1/tokens", WANTED)
    assert server.request("GET", "/v1/jobs").status_code == 401
    assert server.get("/v1/jobs", headers={"Authorization": f"Bearer {made['token']}"})["jobs"] == []

    closed = serve(stage, target=None)
    assert "NO TOKEN" not in closed.output
    assert closed.setup_code is None
