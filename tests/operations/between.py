"""Something between a client and a server that loses answers, or gives answers of its own."""

from __future__ import annotations

import contextlib
import re
import socket
import threading

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NOT_NOW = b"HTTP/1.1 %d Not Now\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n"


class Between:
    """Hands requests on, one connection after another; what it shall do otherwise it is told before."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._to = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.handed_on: list[bytes] = []
        """The first lines of the requests that the server got."""
        self.to_lose = 0
        """So many answers are read and not handed back."""
        self.refusals: list[tuple[int, bytes]] = []
        """Status and Retry-After of answers that are given without asking the server."""
        threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _work(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while request := _message(client):
                if self.refusals:
                    client.sendall(_NOT_NOW % self.refusals.pop(0))
                    continue
                answer = self._asked(request)
                if self.to_lose:
                    self.to_lose -= 1
                    return
                client.sendall(answer)

    def _asked(self, request: bytes) -> bytes:
        with socket.create_connection(self._to, timeout=20) as server:
            server.sendall(request)
            answer = _message(server)
        self.handed_on.append(request.partition(b"\r\n")[0])
        return answer


def _message(connection: socket.socket) -> bytes:
    """One whole request or answer; nothing when the other side has closed."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = connection.recv(65536)
        if not part:
            return b""
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    missing = 0 if length is None else int(length[1]) - len(body)
    while missing > 0:
        part = connection.recv(65536)
        found, missing = found + part, missing - len(part)
    return found
