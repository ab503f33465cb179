"""Requests that no client library would send: each gets its code, and the server goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Penstock
from penstock.config.server_settings import ServerSettings
from tests.http.raw import GOOD, RawServer, body_of, request, statuses
from tests.http.streams import define
from tests.waiting import wait_until


@pytest.fixture
def server(app: Penstock) -> Iterator[RawServer]:
    assert app.address is not None
    define(app)
    made = RawServer(Penstock(**app.address), ServerSettings(header_timeout=5, body_timeout=5))
    yield made
    made.stop()


CHUNKED = "Transfer-Encoding: chunked"
MALFORMED: dict[str, bytes] = {
    "no http": b"hello\r\n\r\n",
    "http 9": request(method="GET", version="HTTP/9.9"),
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no method": b" /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "method in small letters": request(method="post", body=GOOD),
    "space in the target": request(method="GET", target="/v1/jobs x"),
    "negative length": request("Content-Length: -1", body=GOOD, length=False),
    "length with plus": request("Content-Length: +46", body=GOOD, length=False),
    "length that is no number": request("Content-Length: many", body=GOOD, length=False),
    "length without end": request("Content-Length: " + "9" * 40, body=GOOD, length=False),
    "two lengths": request("Content-Length: 46", "Content-Length: 5", body=GOOD, length=False),
    "two lengths in one": request("Content-Length: 46, 5", body=GOOD, length=False),
    "length and chunks": request(CHUNKED, body=GOOD),
    "another coding": request("Transfer-Encoding: xchunked", body=GOOD, length=False),
    "chunks not last": request("Transfer-Encoding: chunked, gzip", body=GOOD, length=False),
    "chunk size that is no number": request(CHUNKED, body=b"zz\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False),
    "negative chunk size": request(CHUNKED, body=b"-5\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False),
    "endless chunk size": request(CHUNKED, body=b"f" * 40 + b"\r\n" + GOOD, length=False),
    "chunk that is longer than said": request(CHUNKED, body=b"1\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False),
    "folded header": request("X-Long: a\r\n b", method="GET"),
    "header without colon": request("Nonsense", method="GET"),
    "space before the colon": request("X-Name : a", method="GET"),
    "NUL in a header": request("X-Name: a\x00b", method="GET"),
    "return in a header": request("X-Name: a\rb", method="GET"),
    "two hosts": request("Host: localhost", method="GET"),
    "two tokens": request("Authorization: Bearer a", "Authorization: Bearer b", method="GET"),
}
OTHERS: dict[str, tuple[bytes, int]] = {
    "older than headers": (b"GET /v1/jobs\r\n\r\n", 401),
    "trace": (request(method="TRACE"), 405),
    "another method": (request(method="DELETE"), 405),
    "unknown path": (request(method="GET", target="/v1/nothing"), 404),
    "dots": (request(method="GET", target="/v1/../etc/passwd"), 404),
    "quoted NUL": (request(method="GET", target="/v1/jobs/%00"), 400),
    "not UTF-8": (request(method="GET", target="/v1/definitions/%ff"), 400),
    "long target": (request(method="GET", target="/" + "x" * 9000), 414),
    "foreign host": (request(method="GET", host="evil.example"), 421),
    "host of another kind": (request(method="GET", host="127.0.0.1.evil.example"), 421),
    "without host": (request(method="GET", host=None), 421),
    "old and without host": (request(method="GET", host=None, version="HTTP/1.0"), 401),
    "many headers": (request(*(f"X-{number}: a" for number in range(200)), method="GET"), 431),
    "large header": (request("X-Large: " + "x" * 40_000, method="GET"), 431),
    "large token": (request("Authorization: Bearer " + "x" * 40_000, method="GET"), 431),
    "wrong token": (request("Authorization: Bearer pst_x", method="GET"), 401),
    "no length": (request(body=GOOD, length=False), 400),
    "shorter than said": (request("Content-Length: 20", body=GOOD, length=False), 400),
    "declared too large": (request("Content-Length: 1073741824", body=GOOD, length=False), 413),
    "compressed": (request("Content-Encoding: gzip", body=b"\x1f\x8b\x08"), 415),
    "no type": (request("Content-Length: 46") + GOOD, 415),
    "wrong body": (request(body=b"[]"), 422),
    "old, as proxies send it": (request(method="GET", version="HTTP/1.0", host="localhost"), 401),
    "old and for everybody": (request(method="GET", version="HTTP/1.0", host="localhost", target="/healthz"), 200),
    "whole address": (request(method="GET", target="http://127.0.0.1/v1/jobs"), 200),
    "in chunks": (request(CHUNKED, body=b"2e\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False), 201),
    "chunks with extensions": (request(CHUNKED, body=b"2e;a=b\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False), 201),
}


def test_what_is_not_well_formed_is_refused_and_the_server_goes_on(server: RawServer, app: Penstock) -> None:
    wrong = {}
    for name, sent in MALFORMED.items():
        answer = server.answer(sent)
        found = statuses(answer)
        if found[:1] != [400] or len(found) > 1:
            wrong[name] = answer[:300]
    assert wrong == {}
    assert app.jobs.list().jobs == []
    server.start_job()


@pytest.mark.parametrize("name", OTHERS)
def test_each_has_its_own_code(server: RawServer, name: str) -> None:
    sent, status = OTHERS[name]

    answer = server.answer(sent)

    assert statuses(answer) == [status], answer[:500]
    assert status < 400 or body_of(answer).keys() == {"error"}
    server.start_job()


def test_what_follows_a_body_of_the_length_that_was_said_is_another_request(server: RawServer, app: Penstock) -> None:
    smuggled = request(body=GOOD) + request(body=GOOD)
    answer = server.answer(smuggled.replace(b"Connection: close", b"Connection: keep-alive", 1))

    assert statuses(answer) == [201, 201]
    assert len(app.jobs.list().jobs) == 2


def test_a_chunk_with_endless_extensions_is_given_up(server: RawServer) -> None:
    answer = server.answer(
        request(CHUNKED, body=b"2e;" + b"a" * 2_000_000 + b"\r\n" + GOOD + b"\r\n0\r\n\r\n", length=False)
    )

    assert statuses(answer) in ([400], [413], [201], [])
    server.start_job()


def test_a_gigabyte_in_chunks_is_cut_off_at_the_limit(server: RawServer) -> None:
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    sent = 0
    with server.connect() as client:
        client.sendall(request(CHUNKED, body=b"x", length=False)[:-1])
        try:
            while sent < 2**30:
                client.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass

    assert sent < 2**27
    server.start_job()


def test_clients_that_vanish_do_no_harm(server: RawServer, app: Penstock) -> None:
    whole = request(body=GOOD)
    for cut in (1, 20, whole.index(b"\r\n\r\n") + 2, len(whole) - 10):
        with server.connect() as client:
            client.sendall(whole[:cut])
    for _ in range(20):
        with server.connect() as client:
            client.sendall(whole)
    with server.connect() as client:
        client.sendall(request("Accept: text/event-stream", method="GET", target="/v1/events"))
        client.recv(100)

    # Whoever has sent a whole request may have its job, whether or not it waits for the answer.
    server.start_job()
    wait_until(lambda: 1 <= len(app.jobs.list().jobs) <= 21, "only whole requests make jobs")
    server.start_job()
