"""Clients that send half a request, send it slowly, or read nothing: each is given up, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import resource
import threading
from collections.abc import Iterator
from socket import SHUT_WR, create_connection, socket

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from penstock.config.server_settings import ServerSettings
from penstock.domain.errors import InvalidInput
from penstock.http.middleware import MARKS
from penstock.http.server import Server, bound, is_loopback, make_room
from tests.waiting import wait_until

PATIENCE = 15.0
LARGE = 32 * 1024 * 1024
QUICK = {"header_timeout": 0.5, "body_timeout": 0.5, "write_timeout": 0.5, "keep_alive": 0.5}


class _Streams:
    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


class _Site:
    streams = _Streams()


class Running:
    """A server in a thread of this process, with an application that echoes."""

    def __init__(self, **settings: object) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        web = Starlette(routes=[Route("/echo", self._echo, methods=["POST"]), Route("/large", _large)])
        web.state.server = _Site()
        self.sockets = bound("127.0.0.1", 0)
        self.address: tuple[str, int] = self.sockets[0].getsockname()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(web, ServerSettings(**{**QUICK, **settings})))  # type: ignore[arg-type]
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> socket:
        made = create_connection(self.address, timeout=PATIENCE)
        made.settimeout(PATIENCE)
        return made

    def ask(self, body: bytes = b"hello") -> bytes:
        """One good request over a connection of its own; the whole answer."""
        with self.connect() as client:
            client.sendall(_head(len(body), "Connection: close") + body)
            return _all(client)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self.server.stop)
        self._thread.join(PATIENCE)

    def _run(self, web: Starlette, settings: ServerSettings) -> None:
        async def serve() -> None:
            self.server = Server(web, settings, self.sockets)  # type: ignore[arg-type]
            running = asyncio.ensure_future(self.server.run())
            await self.server.answers.wait()
            self._ready.set()
            await running

        self._loop.run_until_complete(serve())
        self._loop.close()

    async def _echo(self, request: Request) -> Response:
        body = await request.body()
        self.bodies.append(body)
        self.headers.append(list(request.scope["headers"]))
        return PlainTextResponse(body)


async def _large(request: Request) -> Response:
    return PlainTextResponse(b"x" * LARGE)


def _head(length: int, *more: str) -> bytes:
    lines = ["POST /echo HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def _all(client: socket) -> bytes:
    """Everything that comes until the other side closes."""
    found = b""
    while part := client.recv(65536):
        found += part
    return found


def _error(answer: bytes) -> str:
    code: str = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"]
    return code


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.stop()


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"POST /ec", b"POST /echo HTTP/1.1\r\nHost: x\r\n", b"POST /echo HTTP/1.1\r\nX-Long: aaaa"]
)
def test_who_does_not_send_a_whole_head_is_told_and_closed(running: Running, sent: bytes) -> None:
    with running.connect() as client:
        client.sendall(sent)
        answer = _all(client)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert _error(answer) == "timeout"
    wait_until(lambda: running.connections == 0, "nothing of it is left", PATIENCE)


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(running: Running) -> None:
    with running.connect() as client:
        client.settimeout(0.1)
        answer = b""
        for byte in b"POST /echo HTTP/1.1\r\n" + b"X-Slow: " + b"a" * 200:
            try:
                client.sendall(bytes([byte]))
                answer += client.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if answer:
                break

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_who_stops_in_the_middle_of_a_body_is_closed_and_nothing_is_done(running: Running) -> None:
    with running.connect() as client:
        client.sendall(_head(100) + b"only this")
        answer = _all(client)

    assert answer == b""
    assert running.bodies == []
    assert running.ask().endswith(b"hello")


def test_a_connection_that_was_used_may_not_dawdle_either(running: Running) -> None:
    with running.connect() as client:
        client.sendall(_head(2) + b"hi")
        # What comes together with the request would be taken for its end.
        answer = client.recv(65_536)
        client.sendall(b"\r\n")
        answer += _all(client)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"HTTP/1.1 408 " in answer


def test_who_does_not_read_its_answer_is_cut_off(running: Running) -> None:
    with running.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        wait_until(lambda: running.connections == 1, "it is connected", PATIENCE)

        wait_until(lambda: running.connections == 0, "it is cut off", PATIENCE)

    assert running.ask().endswith(b"hello")


def test_a_head_without_end_is_refused_before_it_is_kept() -> None:
    running = Running(header_timeout=60.0)
    with running.connect() as client:
        answer = b""
        try:
            client.sendall(b"POST /echo HTTP/1.1\r\nX-Long: ")
            for _ in range(40):
                client.sendall(b"a" * 65536)
        except OSError:
            pass
        try:
            answer = _all(client)
        except ConnectionResetError:
            answer = b""

    running.stop()
    assert running.bodies == []
    assert answer == b"" or _error(answer) == "headers_too_large"


def test_what_follows_a_body_is_no_header(running: Running) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with running.connect() as client:
        client.sendall(head + b"2\r\nhi\r\n0\r\nAuthorization: Bearer pst_x\r\n\r\n")
        answer = _all(client)

    assert answer.endswith(b"hi")
    assert all(name != b"authorization" for name, _ in running.headers[0])


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_the_offer_of_another_protocol_is_passed_over_and_the_body_read(running: Running, protocol: str) -> None:
    with running.connect() as client:
        client.sendall(_head(2, "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}") + b"hi")
        answer = _all(client)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert running.bodies == [b"hi"]


def test_what_is_no_http_is_refused_in_the_one_shape(running: Running) -> None:
    with running.connect() as client:
        client.sendall(b"HELLO\r\n\r\n")
        answer = _all(client)

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert _error(answer) == "malformed"


def _headers(answer: bytes) -> dict[str, str]:
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def test_answers_to_what_reaches_no_application_tell_browsers_to_be_careful(running: Running) -> None:
    full = Running(max_connections=1, header_timeout=60.0)
    long = b"POST /echo HTTP/1.1\r\nX-Long: " + b"a" * 70_000
    asked = [(running, b"HELLO\r\n\r\n", 400), (running, b"POST /ec", 408), (running, long, 431)]
    with full.connect():
        wait_until(lambda: full.connections == 1, "one is connected", PATIENCE)
        asked.append((full, _head(0), 503))
        for server, sent, status in asked:
            with server.connect() as client:
                client.sendall(sent)
                answer = _all(client)

            assert answer.startswith(b"HTTP/1.1 %d " % status), answer
            found = _headers(answer)
            assert {name: found.get(name.decode()) for name, _ in MARKS} == {
                name: value.decode() for name, value in MARKS
            }, status
            assert len(found["x-request-id"]) > 8
            assert "server" not in found
    full.stop()


def test_a_client_that_has_nothing_more_to_say_gets_its_answer(running: Running) -> None:
    with running.connect() as client:
        client.sendall(_head(2, "Connection: close") + b"hi")
        client.shutdown(SHUT_WR)

        assert _all(client).endswith(b"hi")


def test_connections_beyond_the_limit_are_told_to_come_back() -> None:
    running = Running(max_connections=3, header_timeout=60.0)
    held = [running.connect() for _ in range(3)]
    wait_until(lambda: running.connections == 3, "three are connected", PATIENCE)

    refused = running.ask()
    held.pop().close()
    wait_until(lambda: running.connections == 2, "one has gone", PATIENCE)
    answered = running.ask()

    for each in held:
        each.close()
    running.stop()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in refused
    assert _error(refused) == "unavailable"
    assert answered.startswith(b"HTTP/1.1 200 ")


def test_hundred_half_sent_requests_do_not_keep_others_from_their_answer(running: Running) -> None:
    half = [running.connect() for _ in range(100)]
    for each in half:
        each.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\n")

    assert running.ask().endswith(b"hello")

    for each in half:
        each.close()


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
    ],
)
def test_it_is_known_which_addresses_only_this_host_reaches(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_a_host_that_is_unknown_is_named() -> None:
    with pytest.raises(InvalidInput, match="no-such-host"):
        bound("no-such-host.invalid", 0)


def test_a_port_that_is_taken_is_named() -> None:
    taken = bound("127.0.0.1", 0)
    taken[0].listen()

    with pytest.raises(InvalidInput, match="is in use"):
        bound("127.0.0.1", taken[0].getsockname()[1])

    taken[0].close()


def test_a_server_may_open_as_many_files_as_its_connections_take() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(soft, 1024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))

    make_room(low)
    raised = resource.getrlimit(resource.RLIMIT_NOFILE)

    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert raised == (low + 500 if hard == resource.RLIM_INFINITY else min(low + 500, hard), hard)
