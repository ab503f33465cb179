"""A receiver of webhooks on this host that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import wait_until

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def told(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Listens on a port of loopback; each path answers with its script, whose last answer repeats."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.released = threading.Event()
        """Lets requests through that are being held."""
        self._scripts: dict[str, list[Answer]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                script = receiver._scripts.get(self.path, [status(200)])
                (script.pop(0) if len(script) > 1 else script[0])(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answers(self, path: str, *script: Answer) -> str:
        """Have a path answer so; its URL."""
        self._scripts[path] = list(script)
        return self.url(path)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def to(self, path: str) -> list[Request]:
        return [each for each in list(self.requests) if each.path == path]

    def wait(self, path: str, count: int = 1, timeout: float = 30) -> list[Request]:
        """Wait until a path was asked so often."""
        wait_until(lambda: len(self.to(path)) >= count, f"{path} has got {count} request(s)", timeout)
        return self.to(path)

    def hold(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer when it is released."""
        self.released.wait(60)
        status(200)(handler)

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer with a status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Promise more of an answer than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"half of ")
    handler.wfile.flush()
    handler.connection.close()


def endless(handler: BaseHTTPRequestHandler) -> None:
    """Answer with more than anybody wants to read."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(10_000):
        handler.wfile.write(b"x" * 65_536)
