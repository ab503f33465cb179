"""The real server on a loopback port, and requests that are written byte by byte."""

from __future__ import annotations

import asyncio
import json
import threading
from socket import SHUT_WR, create_connection, socket
from typing import Any

from penstock import Penstock
from penstock.config.server_settings import ServerSettings, WebSettings
from penstock.http.application import create
from penstock.http.server import Server, bound

PATIENCE = 20.0
GOOD = b'{"definitionKey":"work","params":{"text":"x"}}'


class RawServer:
    """As `penstock serve` answers, in a thread of this process."""

    token = ""
    """What its callers may send, where a test has made one."""

    def __init__(
        self, app: Penstock, settings: ServerSettings | None = None, *, web: WebSettings | None = None
    ) -> None:
        self._app = app
        self._web = create(app, web or WebSettings())
        self.bodies = self._web.state.server.bodies
        self._settings = settings or ServerSettings()
        self._sockets = bound("127.0.0.1", 0)
        self.address: tuple[str, int] = self._sockets[0].getsockname()[:2]
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = Server(self._web, self._settings, self._sockets)
        running = asyncio.ensure_future(self._server.run())
        await self._server.answers.wait()
        self._ready.set()
        await running
        await self._app.aclose()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server does not stop"

    def stop_if_running(self) -> None:
        if self._thread.is_alive():
            self.stop()

    @property
    def connections(self) -> int:
        """How many the server has open."""
        return len(self._server.server_state.connections)

    def connect(self) -> socket:
        made = create_connection(self.address, timeout=PATIENCE)
        made.settimeout(PATIENCE)
        return made

    def answer(self, request: bytes, *, half_close: bool = True) -> bytes:
        """All that comes back on a connection over which exactly this was sent."""
        with self.connect() as client:
            client.sendall(request)
            if half_close:
                client.shutdown(SHUT_WR)
            found = b""
            try:
                while part := client.recv(65536):
                    found += part
            except ConnectionResetError:
                # The server had not read all of it; what it said may still have come.
                pass
        return found

    def start_job(self) -> str:
        """A good creation over a connection of its own."""
        answer = self.answer(request(body=GOOD))
        assert statuses(answer) == [201], answer
        job_id: str = body_of(answer)["jobId"]
        return job_id


def request(
    *headers: str, method: str = "POST", target: str = "/v1/jobs", version: str = "HTTP/1.1", body: bytes = b"",
    host: str | None = "127.0.0.1", length: bool = True,
) -> bytes:  # fmt: skip
    """A request that closes its connection; good, but for what it is told to be otherwise."""
    lines = [f"{method} {target} {version}", "Connection: close"]
    lines += [] if host is None else [f"Host: {host}"]
    lines += [f"Content-Length: {len(body)}"] if body and length else []
    lines += ["Content-Type: application/json"] if body else []
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def statuses(answer: bytes) -> list[int]:
    """The statuses of all answers in what came back."""
    return [int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]]


def body_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])
