"""`python -m bench http`: creation over HTTP beside a bare endpoint of its framework, batches, and event streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from penstock import Penstock

BARE = """
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

web = FastAPI()


class Asked(BaseModel):
    definitionKey: str
    params: dict[str, Any] = {}
    priority: int | None = None


class Told(BaseModel):
    jobId: str
    status: str
    created: bool


@web.get("/healthz")
async def healthz() -> dict[str, str]:
    return {}


@web.post("/v1/jobs", status_code=201)
async def start(asked: Asked) -> Told:
    return Told(jobId=asked.definitionKey, status="queued", created=True)


import sys
uvicorn.run(web, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
"""
CONNECTIONS = 32
REQUESTS = 20_000
BATCH = 10_000
BATCHES = 10
STREAMS = 1000
STREAMED = 200
_BODY = json.dumps({"definitionKey": "noop", "params": {"name": "somebody", "number": 7}}).encode()


def run(url: str, rounds: int, scale: float) -> str:
    """Tables of requests a second, of jobs a second in batches, and of events a second to many streams."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        (folder / "bare.py").write_text(BARE)
        stores = {"SQLite": f"sqlite:///{folder}/http.db", "PostgreSQL": f"{url}?schema=http&migrate=true"}
        for store in stores.values():
            _prepare(store)
        rates: dict[str, list[float]] = {"bare": [], **{each: [] for each in stores}}
        batches: dict[str, list[float]] = {each: [] for each in stores}
        for _ in range(rounds):
            with _server([sys.executable, str(folder / "bare.py")]) as port:
                rates["bare"].append(_requests(port, round(REQUESTS * scale)))
            for each, store in stores.items():
                with _server(_penstock(store)) as port:
                    rates[each].append(_requests(port, round(REQUESTS * scale)))
                    batches[each].append(_batches(port, max(1, round(BATCHES * scale))))
        streams = {}
        for each, store in stores.items():
            with _server(_penstock(store)) as port:
                streams[each] = _streams(port, STREAMS, max(10, round(STREAMED * scale)))
    return _tables(rates, batches, streams)


def _tables(
    rates: dict[str, list[float]], batches: dict[str, list[float]], streams: dict[str, tuple[float, float, float]]
) -> str:
    bare = statistics.median(rates["bare"])
    lines = [
        f"| `POST /v1/jobs`, {CONNECTIONS} connections | requests a second | of the bare endpoint |",
        "| --- | ---: | ---: |",
        f"| a bare FastAPI endpoint, nothing stored | {bare:,.0f} | 1.00 |",
    ]
    for each in batches:
        rate = statistics.median(rates[each])
        lines.append(f"| penstock, {each}, committed and flushed | {rate:,.0f} | {rate / bare:.2f} |")
    lines += ["", f"| `POST /v1/jobs/batch`, {BATCH:,} jobs each | jobs a second |", "| --- | ---: |"]
    lines += [f"| {each} | {statistics.median(found):,.0f} |" for each, found in batches.items()]
    lines += [
        "",
        f"| {STREAMS:,} event streams on one server | events sent a second | last client had the last event after, ms "
        "| server's memory, MB |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {each} | {rate:,.0f} | {late * 1000:,.0f} | {size:.0f} |" for each, (rate, late, size) in streams.items()
    ]
    return "\n".join(lines)


def _prepare(url: str) -> None:
    app = Penstock(url)

    @app.job("noop")
    def noop(name: str = "", number: int = 0) -> None: ...

    app.definitions.register()
    app.close()


def _penstock(store: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "serve", "--store", store, "--no-worker", "--port"]


@contextlib.contextmanager
def _server(command: list[str]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([*command, str(port)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _last.clear()
    _last.append(process.pid)
    try:
        _until_ready(port)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


_last: list[int] = []


def _until_ready(port: int) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def _requests(port: int, count: int) -> float:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_load(port, count // 10))
        begin = time.perf_counter()
        runner.run(_load(port, count))
        return count / (time.perf_counter() - begin)


async def _load(port: int, count: int) -> None:
    request = (
        b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
    )
    loop = asyncio.get_running_loop()
    left = [count]
    made = [await loop.create_connection(lambda: _Caller(request, left), "127.0.0.1", port) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(caller.done for _, caller in made))
    for transport, _ in made:
        transport.close()


class _Caller(asyncio.Protocol):
    """Sends one request after the other over one connection, until enough were sent by all."""

    def __init__(self, request: bytes, left: list[int]) -> None:
        self._request = request
        self._left = left
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        if len(body) < int(head[at:].split(b"\r\n", 1)[0]):
            return
        if not head.startswith(b"HTTP/1.1 201"):
            self.done.set_exception(SystemExit(self._buffer[:500].decode()))
            return
        self._buffer = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))

    def _next(self) -> None:
        if self._left[0] <= 0:
            if not self.done.done():
                self.done.set_result(None)
            return
        self._left[0] -= 1
        self._transport.write(self._request)


def _batches(port: int, count: int) -> float:
    body = json.dumps({"jobs": [json.loads(_BODY)] * BATCH}).encode()
    begin = time.perf_counter()
    for _ in range(count):
        _post(port, "/v1/jobs/batch", body)
    return count * BATCH / (time.perf_counter() - begin)


def _post(port: int, path: str, body: bytes) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        answer.read()


def _streams(port: int, clients: int, events: int) -> tuple[float, float, float]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_watch(port, clients, events))


async def _watch(port: int, clients: int, events: int) -> tuple[float, float, float]:
    """Open streams, create jobs one after the other, and wait until every client has seen each of them."""
    request = b"GET /v1/events?type=job.enqueued HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
    loop = asyncio.get_running_loop()
    made = []
    for _ in range(clients):
        made.append(await loop.create_connection(lambda: _Watcher(request, events), "127.0.0.1", port))
    await asyncio.gather(*(watcher.open for _, watcher in made))
    begin = time.perf_counter()
    for _ in range(events):
        await asyncio.to_thread(_post, port, "/v1/jobs", _BODY)
    created = time.perf_counter()
    await asyncio.gather(*(watcher.done for _, watcher in made))
    end = time.perf_counter()
    size = _memory(_last[0])
    for transport, _ in made:
        transport.close()
    return clients * events / (end - begin), end - created, size


class _Watcher(asyncio.Protocol):
    """Counts the events that come over one stream."""

    def __init__(self, request: bytes, wanted: int) -> None:
        self._request = request
        self._wanted = wanted
        self._seen = 0
        self._rest = b""
        loop = asyncio.get_running_loop()
        self.open: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: Any) -> None:
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.open.done():
            self.open.set_result(None)
        data = self._rest + data
        self._seen += data.count(b"event: job.enqueued\n")
        self._rest = data[-19:] if not data.endswith(b"\n") else b""
        if self._seen >= self._wanted and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        for future in (self.open, self.done):
            if not future.done():
                future.set_exception(error or ConnectionError("the stream ended"))


def _memory(pid: int) -> float:
    """Resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
