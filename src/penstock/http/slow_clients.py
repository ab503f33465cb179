"""One client's connection, with deadlines for the request's head and body and for reading the answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from penstock.config.server_settings import ServerSettings
from penstock.http.errors import CODES, error_response
from penstock.http.middleware import MARKS, new_request_id

_NEVER = float("inf")
_SLOWEST = 64 * 1024
"""Bytes of a body that extend the client's deadline by one second."""
_HEAD = b"HTTP/1.1 "
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)
_PHRASES = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with deadlines; the server checks them once a second."""

    def __init__(self, settings: ServerSettings, **given: Any) -> None:
        super().__init__(**given)
        self._settings = settings
        self._head = 0
        """Bytes of a request whose head is incomplete."""
        self._in_head = True
        self._late_at = _NEVER
        """Deadline for what the client sends."""
        self._stalled_at = _NEVER
        """Since when the client has not read the answer."""
        self._unread: int | None = None
        """Bytes of an answered request that are still read and dropped; None: it is not answered."""
        self._lingers = False
        """The answer is complete, and the client still sends."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._answers = _Answers(transport, self.loop, self._end)
        self._late_at = self.loop.time() + self._settings.header_timeout
        if len(self.connections) > self._settings.max_connections:
            self.app = _overloaded

    def end_if_late(self, now: float) -> None:
        """Drop the client if it has missed one of its deadlines."""
        if now - self._stalled_at > self._settings.write_timeout:
            self.transport.abort()
        elif now > self._late_at and not self.flow.read_paused and not self.transport.is_closing():
            if self._lingers:
                self.transport.abort()
            elif self._in_head and self._may_answer:
                self._refuse("timeout", "The request was not sent in time.", lingers=False)
            else:
                self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._unread is not None:
            self._unread -= len(data)
            if self._unread < 0:
                self.transport.abort()
            if self._unread < 0 or self._lingers:
                return
        elif self._in_head:
            if self._late_at is _NEVER:
                self._late_at = self.loop.time() + self._settings.header_timeout
            if self._head == 0:
                data = _without_upgrade(data)
            self._head += len(data)
        else:
            self._late_at += len(data) / _SLOWEST
        super().data_received(data)
        if self._in_head and self._head > self._settings.max_head and self._may_answer and not self._lingers:
            self._refuse(
                "headers_too_large", f"More than {self._settings.max_head} bytes came before the headers' end."
            )

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that half-closes after a complete request still gets its response; others are disconnected."""
        cycle = self.cycle
        if self._lingers or cycle is None or cycle.response_started or cycle.more_body:
            return False
        cycle.keep_alive = False
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        if self._late_at is _NEVER:
            self._late_at = self.loop.time() + self._settings.header_timeout

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers after a body are not validated, so they are ignored.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        self._late_at = self.loop.time() + self._settings.body_timeout
        super().on_headers_complete()
        if self.cycle is not None:
            self.cycle.transport = self._answers  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        self._in_head, self._late_at, self._unread = True, _NEVER, None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._lingers:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if not self._in_head and not self.transport.is_closing():
            self._drop_the_rest()

    def pause_writing(self) -> None:
        self._stalled_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_at = _NEVER
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        if self._may_answer:
            self._refuse("malformed", "The request is not valid HTTP.")
        else:
            self.transport.close()

    @property
    def _may_answer(self) -> bool:
        """Whether no other answer is in progress on this connection."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        return not self._in_head and not self.cycle.response_started

    def _refuse(self, code: str, message: str, *, lingers: bool = True) -> None:
        """Answer without the application, and close."""
        status = CODES[code][0]
        answer = error_response(code, message, headers={"Connection": "close"})
        head = b"HTTP/1.1 %d %s\r\n" % (status, _PHRASES[status])
        for name, value in (*self.server_state.default_headers, *answer.raw_headers, *_marks()):
            head += name + b": " + value + b"\r\n"
        self._answers.write(head + b"\r\n" + bytes(answer.body))
        self._answers.flush()
        self._close(lingers=lingers)

    def _end(self) -> None:
        """Close after the last answer."""
        self._close(lingers=not self._in_head and self.app is not _overloaded)

    def _close(self, *, lingers: bool) -> None:
        """Close; if the client still sends, keep reading for a while, because a reset would discard the answer."""
        if not lingers or self.transport.is_closing():
            self.transport.close()
            return
        self._lingers = True
        self._drop_the_rest()
        self.transport.write_eof()

    def _drop_the_rest(self) -> None:
        """Read the rest of an answered request, up to a limit of bytes and time."""
        self._unread = self._settings.linger_bytes
        self._late_at = self.loop.time() + self._settings.linger_timeout
        self.flow.resume_reading()


class _Answers:
    """Delays the head of an answer until its body follows, so that both are sent in one packet."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._close = close
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines([head, data])
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self.flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def flush(self) -> None:
        """Write a delayed head."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


def _without_upgrade(data: bytes) -> bytes:
    """Remove the header `Upgrade`, which some clients always send: the parser would lose their body."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if _UPGRADE.search(head) is None:
        return data
    return _UPGRADE.sub(b"\r\nX-Upgrade:", head) + end + rest


async def _overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer connections beyond the limit."""
    answer = error_response(
        "unavailable", "The server has reached its limit of connections.", "Retry in a moment.",
        headers={"Retry-After": "1", "Connection": "close"},
    )  # fmt: skip
    answer.raw_headers += _marks()
    await answer(scope, receive, send)


def _marks() -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer, for answers that bypass the guard."""
    return [(b"x-request-id", new_request_id().encode()), *MARKS]
