"""One hostile caller next to ordinary ones: crafted bodies, all streams it can get, and heads that never end."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.server_settings import MEGABYTE
from penstock.domain.access import Role
from penstock.http.server import make_room
from tests.conftest import Counts, Figures
from tests.http.servers import ServerProcess, opened, serve
from tests.http.streams import run
from tests.worker.fleet import Stage

MOST_MEMORY = 300_000_000
CRAFTED = {
    "objects": b'{"jobs":[' + b"{}," * 1_398_000 + b"{}]}",
    "repeated keys": b'{"jobs":[' + b'{"a":1,"a":2},' * 299_000 + b"{}]}",
    "zeros": b'{"jobs":[' + b"0," * 2_097_000 + b"0]}",
    "lists": b'{"jobs":[' + b"[]," * 1_398_000 + b"[]]}",
}
"""Bodies as large as a batch may be."""


@pytest.fixture(params=["sqlite", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    yield from opened(request, tmp_path, request.param)


class Connection:
    """One connection to a server, over which requests are made one after the other."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        self._host, _, port = server.url.removeprefix("http://").rpartition(":")
        self._port = int(port)
        self._token = token

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def head(self, method: str, path: str, *headers: str) -> bytes:
        own = (f"Host: {self._host}", f"Authorization: Bearer {self._token}", "Content-Type: application/json")
        return "\r\n".join([f"{method} {path} HTTP/1.1", *own, *headers, "", ""]).encode()

    async def ask(self, method: str, path: str, body: bytes = b"") -> int:
        """The status of the answer, which is read to its end."""
        self.writer.write(self.head(method, path, f"Content-Length: {len(body)}") + body)
        return await self.answered()

    async def answered(self) -> int:
        head = await self.reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await self.reader.readexactly(int(line.partition(b":")[2]))
        return int(head.split(b" ", 2)[1])


class Ordinary:
    """Callers that create and read jobs, and what each of their requests took."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        self._server = server
        self._token = token
        self.statuses: Counter[int] = Counter()
        self.took: list[float] = []

    async def go_on(self, least: int, until: asyncio.Event | None = None) -> None:
        """Make at least so many requests, and go on until something has happened."""
        job = json.dumps({"definitionKey": "script", "params": {"script": []}}).encode()
        async with Connection(self._server, self._token) as connection:
            for number in itertools.count():
                if number >= least and (until is None or until.is_set()):
                    return
                calls = [("POST", "/v1/jobs", job), ("GET", "/v1/jobs?limit=5", b""), ("GET", "/healthz", b"")]
                begun = time.perf_counter()
                self.statuses[await connection.ask(*calls[number % 3])] += 1
                self.took.append(time.perf_counter() - begun)

    def take(self) -> dict[str, float]:
        """What requests took, in milliseconds; the next ones are counted apart."""
        took, self.took = sorted(self.took), []
        return {"p50": 1000 * took[len(took) // 2], "p99": 1000 * took[len(took) * 99 // 100], "max": 1000 * took[-1]}


class Hostile:
    """A caller with one token that takes what it can get."""

    def __init__(self, server: ServerProcess, token: str) -> None:
        self._server = server
        self._token = token
        self.bodies: dict[str, int | None] = {}
        self.streams: Counter[int] = Counter()
        self.sent = 0
        self._held: list[Connection] = []

    async def send_bodies(self) -> None:
        async with Connection(self._server, self._token) as connection:
            connection.writer.write(connection.head("POST", "/v1/jobs/batch", f"Content-Length: {64 * MEGABYTE}"))
            self.bodies["64 MB said"] = await connection.answered()
        self.bodies["64 MB in chunks"] = await self._send_chunks()
        for name, body in CRAFTED.items():
            async with Connection(self._server, self._token) as connection:
                self.bodies[name] = await connection.ask("POST", "/v1/jobs/batch", body)

    async def _send_chunks(self) -> int | None:
        chunk = b"10000\r\n" + b"0," * 32_768 + b"\r\n"
        async with Connection(self._server, self._token) as connection:
            try:
                connection.writer.write(connection.head("POST", "/v1/jobs/batch", "Transfer-Encoding: chunked"))
                for _ in range(64 * MEGABYTE // 65_536):
                    connection.writer.write(chunk)
                    await connection.writer.drain()
                    self.sent += 65_536
                return await connection.answered()
            except (ConnectionError, asyncio.IncompleteReadError):
                # It was refused while it was still being sent.
                return None

    async def open_streams(self, count: int) -> None:
        for _ in range(count):
            connection = await self._hold()
            connection.writer.write(connection.head("GET", "/v1/events", "Accept: text/event-stream"))
            self.streams[await connection.answered()] += 1

    async def begin_heads(self, count: int) -> None:
        for _ in range(count):
            connection = await self._hold()
            connection.writer.write(connection.head("GET", "/v1/jobs")[:-9])
            await connection.writer.drain()

    async def leave(self) -> None:
        for each in self._held:
            await each.__aexit__()

    async def _hold(self) -> Connection:
        self._held.append(await Connection(self._server, self._token).__aenter__())
        return self._held[-1]


@pytest.mark.timeout(900)  # a soak opens thousands of connections one after the other
def test_ordinary_callers_are_served_while_one_caller_takes_what_it_can_get(
    stage: Stage, counts: Counts, figures: Figures
) -> None:
    share, streams, heads = counts(ci=20, soak=500), counts(ci=60, soak=2000), counts(ci=20, soak=100)
    make_room(2 * streams)
    server = serve(stage, worker=False, environment={"PENSTOCK_WEB_MAX_STREAMS_PER_TOKEN": str(share)})
    tokens = {name: stage.app.tokens.create(name, Role.CREATOR).text for name in ("ordinary", "hostile")}
    ordinary, hostile = Ordinary(server, tokens["ordinary"]), Hostile(server, tokens["hostile"])

    async def load() -> tuple[dict[str, float], dict[str, float], int]:
        await asyncio.gather(*(ordinary.go_on(counts(ci=30, soak=3000)) for _ in range(4)))
        quiet, base = ordinary.take(), memory(server, "VmRSS")
        over = asyncio.Event()
        traffic = [asyncio.ensure_future(ordinary.go_on(counts(ci=30, soak=3000), over)) for _ in range(4)]
        await asyncio.gather(hostile.open_streams(streams), hostile.begin_heads(heads), hostile.send_bodies())
        async with Connection(server, tokens["ordinary"]) as connection:
            connection.writer.write(connection.head("GET", "/v1/events", "Accept: text/event-stream"))
            assert await connection.answered() == 200
        over.set()
        await asyncio.gather(*traffic)
        await hostile.leave()
        return quiet, ordinary.take(), base

    quiet, loaded, base = run(load(), counts(ci=120, soak=600))

    peak = memory(server, "VmHWM") - base
    store = stage.app.store.dialect
    for name, found in (("quiet", quiet), ("loaded", loaded)):
        figures(f"hostile-load-{name}", store=store, **{key: f"{value:.1f}ms" for key, value in found.items()})
    figures("hostile-load", store=store, p99_ratio=f"{loaded['p99'] / quiet['p99']:.1f}", memory=f"{peak / 1e6:.0f}MB")
    assert ordinary.statuses.keys() == {200, 201}
    assert hostile.streams == {200: share, 429: streams - share}
    assert hostile.bodies.pop("64 MB in chunks") in (413, None)
    assert hostile.bodies == {"64 MB said": 413} | dict.fromkeys(CRAFTED, 422)
    # The server reads `linger_bytes` more after its refusal, and then nothing.
    assert hostile.sent < 56 * MEGABYTE
    assert peak < MOST_MEMORY


def memory(server: ServerProcess, what: str) -> int:
    """Bytes of memory that the server's process has, or had at most."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(each.split()[1]) * 1024 for each in lines if each.startswith(f"{what}:"))
