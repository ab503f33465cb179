"""What bodies cost: nothing before their caller is allowed, so much at a time, and no other request its answer."""

from __future__ import annotations

import asyncio
import json
import pkgutil
import threading
from collections.abc import AsyncIterator, Iterator
from socket import socket
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.config.server_settings import MEGABYTE, WebSettings
from penstock.domain.access import Role
from tests.http.asgi_api import WebApi, refused, told
from tests.http.conftest import NewSite
from tests.http.raw import RawServer, body_of, request, statuses
from tests.http.streams import define
from tests.waiting import wait_until

JOBS = "/v1/jobs"
BATCH = "/v1/jobs/batch"
JSON = {"Content-Type": "application/json"}
ELSEWHERE = ("https://elsewhere.example",)
"""With origins, no route leaves the framework."""


class Unread:
    """A body that knows whether any of it was asked for."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.was_read = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.was_read = True
        yield self.text


def job(text: str = "x", **fields: Any) -> dict[str, Any]:
    return {"definitionKey": "work", "params": {"text": text}, **fields}


@pytest.mark.parametrize("origins", [(), ELSEWHERE], ids=["fast-path", "framework"])
@pytest.mark.parametrize("path", [JOBS, BATCH])
def test_a_caller_that_may_create_no_more_jobs_is_refused_before_its_body_is_read(
    new_site: NewSite, app: Penstock, path: str, origins: tuple[str, ...]
) -> None:
    define(app)
    site = new_site(creation_limit=1, creation_period=600, origins=origins)
    told(site.post(JOBS, job()), 201)
    body = Unread(json.dumps({"jobs": [job()]} if path == BATCH else job()).encode())

    refused(site.request("POST", path, content=body, headers=JSON), 429, "rate_limited")

    assert not body.was_read


@pytest.mark.parametrize("path", [JOBS, BATCH])
def test_a_body_that_is_wrong_counts_as_one_job(new_site: NewSite, app: Penstock, path: str) -> None:
    define(app)
    site = new_site(creation_limit=3, creation_period=600)

    found = [site.request("POST", path, content=b"{", headers=JSON).status_code for _ in range(5)]

    assert found == [400] * 3 + [429] * 2


def test_callers_without_a_token_have_a_limit_where_nothing_is_said(new_site: NewSite, app: Penstock) -> None:
    define(app)
    site = new_site(anonymous_create=True, creation_period=86_400)
    token = {"Authorization": f"Bearer {site.token(Role.CREATOR)}"}
    calls = [("POST", JOBS, {"json": job()})] * 62

    assert [each.status_code for each in site.requests(calls)] == [201] * 60 + [429] * 2

    told(site.post(JOBS, job(), headers=token), 201)
    told(site.post(JOBS, job(), client="192.0.2.7"), 201)
    told(new_site(anonymous_create=True, anonymous_limit=0).post(JOBS, job()), 201)


def test_a_batch_may_have_four_megabytes_where_nothing_is_said(site: WebApi, app: Penstock) -> None:
    define(app)
    body = json.dumps({"jobs": [job()]}).encode()

    told(site.request("POST", BATCH, content=body.ljust(4 * MEGABYTE), headers=JSON), 201)
    refused(site.request("POST", BATCH, content=body.ljust(4 * MEGABYTE + 1), headers=JSON), 413, "too_large")


def test_callers_without_a_token_can_send_no_more_than_a_token_to_sign_in(site: WebApi) -> None:
    site.token("viewer")
    fields = {f"field{number}": 0 for number in range(1000)}

    refused(site.post("/v1/session", {"token": "pst_wrong", **fields}), 413, "too_large")
    refused(site.post("/v1/session", {"token": "pst_wrong"}), 401, "unauthenticated")


@pytest.mark.parametrize("origins", [(), ELSEWHERE], ids=["fast-path", "framework"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"jobs":[' + b"0," * 9_000 + b"0]}",
        b'{"jobs":[{' + b",".join(b'"a%d":0' % number for number in range(9_000)) + b"}]}",
        b"{" + b",".join(b'"a%d":0' % number for number in range(9_000)) + b',"jobs":[]}',
        b'{"jobs":[{"definitionKey":"work","tags":[' + b"0," * 9_000 + b"0]}]}",
        b'{"jobs":[' + b"{}," * 20_000 + b"{}]}",
    ],
)
def test_a_body_with_thousands_of_faults_is_told_the_first_twenty(
    new_site: NewSite, body: bytes, origins: tuple[str, ...]
) -> None:
    site = new_site(origins=origins)

    answer = site.request("POST", BATCH, content=body, headers=JSON)

    error = refused(answer, 422, "invalid_request")
    assert len(error["details"].get("problems", [])) <= 20
    assert len(answer.content) < 5000


@pytest.mark.parametrize("step", ["penstock.domain.payload.decode", "penstock.definitions.order_maker.OrderMaker.order",
                                  "penstock.surface.enqueue_options.drafts"])  # fmt: skip
@pytest.mark.parametrize("batch", [False, True])
def test_other_requests_are_answered_while_a_large_body_is_worked_on(
    site: WebApi, app: Penstock, monkeypatch: pytest.MonkeyPatch, step: str, batch: bool
) -> None:
    define(app)
    owner, _, name = step.rpartition(".")
    work = pkgutil.resolve_name(step)
    begun, answered, met = threading.Event(), threading.Event(), list[bool]()

    def wait_for_the_other(*given: Any, **named: Any) -> Any:
        begun.set()
        met.append(answered.wait(10))
        return work(*given, **named)

    monkeypatch.setattr(pkgutil.resolve_name(owner), name, wait_for_the_other)
    body = {"jobs": [job("x" * 40_000)] * 2} if batch else job("x" * 80_000)

    async def ask() -> httpx2.Response:
        large = asyncio.ensure_future(site._ask("POST", BATCH if batch else JOBS, json=body))
        await asyncio.to_thread(begun.wait, 20)
        await site._ask("GET", "/healthz")
        answered.set()
        return await large

    told(site._portal.call(ask), 201)

    assert met
    assert all(met)


def test_many_large_bodies_at_the_same_time_are_each_worked_on(site: WebApi, app: Penstock) -> None:
    define(app)

    async def ask() -> list[httpx2.Response]:
        bodies = [{"jobs": [job(str(number), tags=["a" * 90]) for number in range(1000)]} for _ in range(6)]
        return await asyncio.gather(*(site._ask("POST", BATCH, json=body) for body in bodies))

    answers = site._portal.call(ask)

    assert [each.status_code for each in answers] == [201] * 6
    assert app.jobs.count(cap=10_000).value == 6000
    assert site.web.state.server.bodies.in_flight == 0


class TestBytesInFlight:
    @pytest.fixture
    def server(self, app: Penstock) -> Iterator[RawServer]:
        assert app.address is not None
        define(app)
        limits = WebSettings(max_body=1000, max_batch_body=5000, max_bytes_per_caller=1500, max_bytes_in_flight=2500)
        made = RawServer(Penstock(**app.address), web=limits)
        yield made
        made.stop()

    @pytest.fixture
    def tokens(self, app: Penstock) -> list[str]:
        return [f"Authorization: Bearer {app.tokens.create(name, Role.CREATOR).text}" for name in ("a", "b", "c")]

    @pytest.mark.parametrize("chunked", [False, True])
    def test_a_caller_has_a_share_and_all_together_have_a_limit(
        self, server: RawServer, tokens: list[str], chunked: bool
    ) -> None:
        first = begin(server, tokens[0], chunked)
        wait_until(lambda: server.bodies.in_flight > 0, "the first body counts")
        if chunked:
            # Its length is not known, so that it takes a step; until its end the others wait.
            assert statuses(server.answer(request(tokens[1], body=padded(900)))) == [503]
        else:
            assert server.bodies.in_flight == 900
            refusal = server.answer(request(tokens[0], body=padded(900)))
            assert statuses(refusal) == [429]
            assert b"retry-after: 1" in refusal.lower()
            assert body_of(refusal)["error"]["code"] == "rate_limited"
            second = begin(server, tokens[1], chunked)
            wait_until(lambda: server.bodies.in_flight == 1800, "the second body counts")
            refusal = server.answer(request(tokens[2], body=padded(900)))
            assert statuses(refusal) == [503]
            assert b"retry-after: 1" in refusal.lower()
            assert statuses(end(second, chunked)) == [201]

        assert statuses(end(first, chunked)) == [201]
        wait_until(lambda: server.bodies.in_flight == 0, "all are answered")
        assert statuses(server.answer(request(tokens[2], body=padded(900)))) == [201]

    def test_a_body_that_is_alone_may_be_larger_than_the_share(self, server: RawServer, tokens: list[str]) -> None:
        body = json.dumps({"jobs": [job()]}).encode().ljust(4000)

        assert statuses(server.answer(request(tokens[0], target=BATCH, body=body))) == [201]

    def test_clients_that_vanish_give_their_bytes_back(self, server: RawServer, tokens: list[str]) -> None:
        for chunked in (False, True):
            client = begin(server, tokens[0], chunked)
            wait_until(lambda: server.bodies.in_flight > 0, "the body counts")
            client.close()
            wait_until(lambda: server.bodies.in_flight == 0, "the bytes are given back")
            assert statuses(server.answer(request(tokens[0], body=padded(900)))) == [201]

    def test_a_caller_that_is_refused_takes_nothing(self, server: RawServer, tokens: list[str]) -> None:
        held = [begin(server, "Authorization: Bearer pst_wrong", False) for _ in range(5)]

        assert statuses(server.answer(request(tokens[0], body=padded(900)))) == [201]
        for each in held:
            each.close()


def padded(size: int) -> bytes:
    return json.dumps(job()).encode().ljust(size)


def begin(server: RawServer, token: str, chunked: bool) -> socket:
    """A connection on which half of a request was sent."""
    client = server.connect()
    if chunked:
        head = request(token, "Content-Type: application/json", "Transfer-Encoding: chunked")
        client.sendall(head + b"1c2\r\n" + padded(900)[:450] + b"\r\n")
    else:
        client.sendall(request(token, body=padded(900))[:-450])
    return client


def end(client: socket, chunked: bool) -> bytes:
    """The answer to the whole request."""
    rest = padded(900)[450:]
    with client:
        client.sendall(b"1c2\r\n" + rest + b"\r\n0\r\n\r\n" if chunked else rest)
        found = b""
        while part := client.recv(65536):
            found += part
    return found
