"""A client that is refused before all its body was read gets the answer, whatever it still sends, and no more time."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from socket import socket

import pytest

from penstock import Penstock
from penstock.config.server_settings import MEGABYTE, ServerSettings, WebSettings
from tests.http.raw import PATIENCE, RawServer, body_of, request, statuses
from tests.http.streams import define
from tests.waiting import wait_until

LARGE = b"x" * (16 * MEGABYTE)
JSON = {"Content-Type": "application/json"}
TAKES_LARGE = WebSettings(max_body=1024 * MEGABYTE)
Serve = Callable[..., RawServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server on one store; the arguments are those of ServerSettings."""
    running: list[RawServer] = []
    app = Penstock(f"sqlite:///{tmp_path}/jobs.db")
    assert app.address is not None
    define(app)

    def start(web: WebSettings | None = None, *, closed: bool = False, **settings: object) -> RawServer:
        if closed:
            app.tokens.create("somebody", "viewer")
        made = RawServer(Penstock(**app.address), ServerSettings(**settings), web=web)  # type: ignore[arg-type]
        running.append(made)
        return made

    yield start
    for each in running:
        each.stop_if_running()
    app.close()


REFUSALS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "too_large": ("POST", "/v1/jobs", JSON, 413),
    "not_found": ("POST", "/v1/nothing", JSON, 404),
    "method_not_allowed": ("PUT", "/v1/jobs", JSON, 405),
    "target_too_long": ("POST", "/v1/jobs?" + "x" * 9000, JSON, 414),
    "headers_too_large": ("POST", "/v1/jobs", {**JSON, "X-Long": "x" * 40_000}, 431),
    "malformed": ("POST", "/v1/%00", JSON, 400),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_urllib_gets_the_answer_to_a_body_that_nobody_reads(
    serve: Serve, code: str, counts: Callable[..., int]
) -> None:
    server = serve(None if code == "too_large" else TAKES_LARGE)
    method, target, headers, status = REFUSALS[code]
    url = "http://{}:{}".format(*server.address)

    for _ in range(counts(ci=3, soak=50)):
        asked = urllib.request.Request(url + target, LARGE, headers, method=method)  # noqa: S310
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=PATIENCE)  # noqa: S310

        with refused.value as answer:
            assert (answer.code, json.load(answer)["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    ("web", "closed", "status"),
    [
        (TAKES_LARGE, True, 401),
        (replace(TAKES_LARGE, anonymous_create=True, anonymous_limit=1, creation_period=600), True, 429),
    ],
    ids=["unauthenticated", "rate_limited"],
)
def test_a_connection_that_stays_open_gets_the_answer_and_can_be_used_again(
    serve: Serve, web: WebSettings, closed: bool, status: int
) -> None:
    server = serve(web, closed=closed)
    connection = http.client.HTTPConnection(*server.address, timeout=PATIENCE)
    found = []

    for _ in range(3):
        connection.request("POST", "/v1/jobs", LARGE, JSON)
        with connection.getresponse() as answer:
            answer.read()
            found.append(answer.status)

    connection.close()
    assert found[1:] == [status] * 2


def test_a_body_in_chunks_that_grows_too_large_gets_the_answer(serve: Serve) -> None:
    server = serve()
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    head = request("Transfer-Encoding: chunked", "Content-Type: application/json", length=False)
    with server.connect() as client:
        client.sendall(head)
        for _ in range(200):
            client.sendall(chunk)
        answer = _all(client)

    assert (statuses(answer), body_of(answer)["error"]["code"]) == ([413], "too_large")


def test_a_head_without_end_gets_the_answer(serve: Serve) -> None:
    server = serve()
    with server.connect() as client:
        client.sendall(b"POST /v1/jobs HTTP/1.1\r\nX-Long: ")
        for _ in range(100):
            client.sendall(b"x" * 65536)
        answer = _all(client)

    assert (statuses(answer), body_of(answer)["error"]["code"]) == ([431], "headers_too_large")


CLOSING = request("Content-Type: application/json", "Content-Length: 999999999")
UNKNOWN = CLOSING.replace(b"/v1/jobs", b"/v1/nothing")
STAYING = UNKNOWN.replace(b"Connection: close\r\n", b"")
HEADLESS = b"no request\r\n\r\n"


@pytest.mark.parametrize("sent", [UNKNOWN, STAYING, HEADLESS], ids=["closing", "staying", "headless"])
def test_a_client_that_sends_byte_by_byte_after_its_refusal_is_given_up(serve: Serve, sent: bytes) -> None:
    server = serve(TAKES_LARGE, linger_timeout=0.3, body_timeout=600.0, header_timeout=600.0, keep_alive=600.0)
    with server.connect() as client:
        client.sendall(sent)
        client.recv(65536)

        wait_until(lambda: _is_refused(client, b"x"), "nothing more is taken", PATIENCE)


@pytest.mark.parametrize("sent", [UNKNOWN, STAYING, HEADLESS], ids=["closing", "staying", "headless"])
def test_a_client_that_sends_without_end_after_its_refusal_is_given_up(serve: Serve, sent: bytes) -> None:
    server = serve(TAKES_LARGE, linger_timeout=600.0, linger_bytes=MEGABYTE, body_timeout=600.0, keep_alive=600.0)
    with server.connect() as client:
        client.sendall(sent)
        client.recv(65536)

        assert any(_is_refused(client, b"x" * 65536) for _ in range(4096)), "256 MiB were taken"


def test_a_client_that_has_its_answer_and_sends_nothing_more_is_given_up(serve: Serve) -> None:
    server = serve(linger_timeout=0.3, body_timeout=600.0, header_timeout=600.0, keep_alive=600.0)
    with server.connect() as client:
        client.sendall(CLOSING)
        answer = _all(client)

        wait_until(lambda: server.connections == 0, "nothing of it is left", PATIENCE)

    assert statuses(answer) == [413]


def test_a_server_stops_while_a_refused_client_still_sends(serve: Serve) -> None:
    server = serve(linger_timeout=600.0, stop_timeout=600.0)
    client = server.connect()
    client.sendall(CLOSING)
    client.recv(65536)

    server.stop()

    client.close()


def _is_refused(client: socket, part: bytes) -> bool:
    """Whether the connection takes nothing more."""
    try:
        client.sendall(part)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def _all(client: socket) -> bytes:
    """Everything that comes until the other side says its end."""
    found = b""
    while part := client.recv(65536):
        found += part
    return found
