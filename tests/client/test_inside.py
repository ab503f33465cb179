"""Requests into an application of this process: bodies, streams, faults, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock import Penstock
from penstock.client.inside import InsideTransport
from penstock.http.application import create
from tests.waiting import wait_until


class Application:
    """Does what the path says."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.sent = 0
        self.closed = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        if scope["path"] == "/broken":
            raise RuntimeError("no answer at all")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-path", scope["raw_path"])]})
        if scope["path"] == "/endless":
            await self._stream(receive, send)
        elif scope["path"] == "/cut":
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise RuntimeError("the other half")
        elif scope["path"] == "/silent":
            await receive()
            self.left.append("silent")
        else:
            await send({"type": "http.response.body", "body": scope["query_string"] + b"|" + body})

    async def _stream(self, receive: Any, send: Any) -> None:
        leaving = asyncio.ensure_future(receive())
        try:
            while not leaving.done():
                await send({"type": "http.response.body", "body": b"line\n", "more_body": True})
                self.sent += 1
                await asyncio.sleep(0)
            self.left.append("endless")
        finally:
            leaving.cancel()

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def client(application: Application) -> Iterator[httpx2.Client]:
    transport = InsideTransport(application, application.close)
    with httpx2.Client(transport=transport, base_url="http://127.0.0.1", timeout=5) as client:
        yield client


def test_a_request_goes_in_and_its_answer_comes_out(client: httpx2.Client) -> None:
    answer = client.post("/a%2Fb", params={"x": "1"}, content=b"body")

    assert (answer.status_code, answer.content, answer.headers["x-path"]) == (200, b"x=1|body", "/a%2Fb")


def test_a_stream_is_read_as_it_comes_and_ends_when_nobody_reads(
    client: httpx2.Client, application: Application
) -> None:
    with client.stream("GET", "/endless") as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(3)] == ["line"] * 3

    wait_until(lambda: application.left == ["endless"], "the application knows that nobody reads")


def test_an_answer_that_nobody_reads_does_not_pile_up(client: httpx2.Client, application: Application) -> None:
    with client.stream("GET", "/endless"):
        wait_until(lambda: application.sent >= 10, "the application sends")
        assert client.get("/other").status_code == 200
        assert application.sent < 100


def test_an_application_that_says_nothing_is_not_waited_for_for_ever(
    client: httpx2.Client, application: Application
) -> None:
    with client.stream("GET", "/silent", timeout=0.1) as answer, pytest.raises(httpx2.ReadTimeout):
        answer.read()

    wait_until(lambda: application.left == ["silent"], "the application knows that nobody waits")


@pytest.mark.parametrize("path", ["/broken", "/cut"])
def test_a_fault_of_the_application_is_an_error_of_the_transport(client: httpx2.Client, path: str) -> None:
    with pytest.raises(httpx2.TransportError):
        client.get(path)


def test_the_end_waits_for_the_application_and_ends_what_reads(application: Application) -> None:
    client = httpx2.Client(transport=InsideTransport(application, application.close), base_url="http://127.0.0.1")
    ended: list[Exception | None] = []

    def read() -> None:
        try:
            with client.stream("GET", "/silent", timeout=None) as answer:
                ended.append(None)
                answer.read()
        except httpx2.TransportError as error:
            ended.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: ended, "the answer has begun")
    client.close()
    reader.join(10)

    assert isinstance(ended[-1], httpx2.ReadError)
    assert application.closed
    assert not [each for each in threading.enumerate() if each.name == "penstock-inside"]


def test_a_trusted_caller_may_do_everything_and_is_named_in_the_audit(tmp_path: Path) -> None:
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    app.tokens.create("somebody", "viewer")

    with httpx2.Client(transport=InsideTransport(create(app, trusted="cli:ann")), base_url="http://store") as client:
        made = client.post("/v1/tokens", json={"name": "new", "role": "admin"})
    with httpx2.Client(transport=InsideTransport(create(app), app.aclose), base_url="http://127.0.0.1") as client:
        refused = client.get("/v1/jobs")

    assert made.status_code == 201
    assert refused.status_code == 401
    assert app.audit.list(limit=1, action="token.create")[0].actor == "cli:ann"
    app.close()
