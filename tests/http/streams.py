"""A real server on a loopback port, and clients that read its streams."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.config.server_settings import WebSettings
from penstock.domain.instant import DAY
from penstock.http.application import create
from penstock.storage.commands import admin, feed
from tests.waiting import wait_until

STREAM = "text/event-stream"

T = TypeVar("T")


class StreamServer:
    """Serves an application from a thread of its own until it is stopped; it can be started again on its port."""

    def __init__(self, app: Penstock, port: int = 0, mounted_at: str = "", **settings: Any) -> None:
        self.web = create(app, WebSettings(**settings))
        self.streams = self.web.state.server.streams
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        served = Starlette(routes=[Mount(mounted_at, self.web)]) if mounted_at else self.web
        config = uvicorn.Config(served, log_level="critical", lifespan="off", timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._app = app
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        wait_until(lambda: self._server.started, "the server has started")

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._socket])
        await self.streams.wait_closed()
        # Connections of this loop are closed here; others of the application open again when they are needed.
        await self._app.aclose()
        # One may have come in at the last moment; where a process ends, it is closed with all others.
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    def call(self, function: Any, *arguments: Any) -> None:
        """Have the server's event loop call something."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """As `penstock serve` stops: a goodbye to the streams, then the server."""
        if self._thread.is_alive():
            self.call(self.streams.close)
            self._server.should_exit = True
            self._thread.join(20)
            assert not self._thread.is_alive(), "the server does not stop"


def run(work: Coroutine[Any, Any, T], seconds: float = 30) -> T:
    """Do something in an event loop; a stream that stays silent does not hold the tests up for ever."""
    return asyncio.run(asyncio.wait_for(work, seconds))


class Refused(Exception):
    """There is no stream, but an answer of another kind."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a browser would hand to its page."""

    event: str
    id: str | None
    data: Any

    @property
    def seq(self) -> int:
        number: int = self.data["seq"]
        return number


@asynccontextmanager
async def reading(
    url: str, path: str = "/v1/events", *, last: str | None = None, token: str | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[Message]]:
    """The messages of a stream; leaving the block cuts the connection."""
    headers = {"Accept": STREAM, **({} if last is None else {"Last-Event-ID": last})}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    timeout = httpx2.Timeout(30)
    async with (
        # To read all certificates of this host for each connection would take longer than the test.
        httpx2.AsyncClient(timeout=timeout, trust_env=False, verify=False) as http,
        http.stream("GET", url + path, headers=headers, params=query) as answer,
    ):
        if answer.status_code != 200:
            raise Refused(f"{answer.status_code} {(await answer.aread()).decode()}")
        yield parsed(answer.aiter_bytes())


async def parsed(chunks: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    """The messages in a stream of bytes, by the rules that browsers follow; one that is cut short is none."""
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        *blocks, buffer = buffer.split(b"\n\n")
        for block in blocks:
            fields: dict[str, list[str]] = {}
            for line in block.decode().split("\n"):
                name, _, value = line.partition(":")
                fields.setdefault(name, []).append(value.removeprefix(" "))
            if "data" in fields:
                event, id = fields.get("event", ["message"])[-1], fields.get("id", [None])[-1]
                yield Message(event, id, json.loads("\n".join(fields["data"])))


async def until(messages: AsyncIterator[Message], event: str) -> list[Message]:
    """All messages up to the first of a kind, that one included."""
    found: list[Message] = []
    async for each in messages:
        found.append(each)
        if each.event == event:
            return found
    raise AssertionError(f"the stream ended without {event!r}, after {[each.event for each in found]}")


async def ended(messages: AsyncIterator[Message]) -> list[Message]:
    """All messages up to the end of the stream."""
    return [each async for each in messages]


def answers(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def define(app: Penstock) -> None:
    """The definitions whose jobs are followed."""
    app.job("work")(_work)
    app.job("other")(_work)
    app.definitions.register()


def enqueue(app: Penstock, key: str = "work", text: str = "x", **options: Any) -> str:
    return app.enqueue(key, {"text": text}, **options).id


def ended_job(app: Penstock) -> str:
    job = enqueue(app)
    app.jobs.cancel(job)
    return job


def forget_a_job(app: Penstock) -> None:
    """Let the events of a job be deleted, as retention does long after its end."""
    app.jobs.delete(ended_job(app))
    assert app.store.run(feed.prune(0), now=app.store.run(admin.clock()) + DAY)


def _work(text: str, password: str = "") -> None: ...


def unchunked(text: bytes) -> bytes:
    """The body in an answer that is sent in pieces, as far as it came."""
    body = b""
    while text:
        size, _, text = text.partition(b"\r\n")
        if not size:
            break
        body, text = body + text[: int(size, 16)], text[int(size, 16) + 2 :]
    return body
