"""Limits on the bodies of requests: the size of one body, and the bytes in flight of a caller and of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.types import Message, Receive, Scope

from penstock.config.server_settings import MEGABYTE, WebSettings
from penstock.http.errors import RequestError
from penstock.http.paths import route_path

LARGE = 64 * 1024
"""Larger bodies are parsed in a thread; parsing smaller ones takes less time than other requests notice."""
_CLOSE = {"Retry-After": "1", "Connection": "close"}

T = TypeVar("T")


class BodiesInFlight:
    """Counts the bytes of unanswered bodies, per caller and in total."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._of_caller: dict[str, int] = {}
        self._of_all = 0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    @property
    def in_flight(self) -> int:
        """Bytes of all callers."""
        return self._of_all

    def take(self, caller: str, count: int, own: int) -> None:
        """Count more bytes of a request that has `own` already; refuse what exceeds a limit.

        A single body is never refused here: the size of one body has its own limit.

        """
        of_caller, settings = self._of_caller.get(caller, 0), self._settings
        if of_caller > own and of_caller + count > settings.max_bytes_per_caller:
            raise RequestError(
                "rate_limited",
                f"Bodies of this caller with {_megabytes(of_caller)} are in progress; "
                f"{_megabytes(settings.max_bytes_per_caller)} are accepted at a time.",
                hint="Repeat the request after an earlier one is answered.",
                headers=_CLOSE,
            )
        if self._of_all > own and self._of_all + count > settings.max_bytes_in_flight:
            raise RequestError(
                "unavailable",
                f"Bodies with {_megabytes(self._of_all)} are in progress; this server takes "
                f"{_megabytes(settings.max_bytes_in_flight)} at a time.",
                hint="Repeat the request in a moment.",
                headers=_CLOSE,
            )
        self._of_caller[caller] = of_caller + count
        self._of_all += count

    def give_back(self, caller: str, count: int) -> None:
        """Subtract bytes when a request is answered or its caller has disconnected."""
        self._of_all -= count
        left = self._of_caller.pop(caller, 0) - count
        if left > 0:
            self._of_caller[caller] = left

    @asynccontextmanager
    async def reader(self, body: bytes) -> AsyncIterator[BodyReader]:
        """Return a reader for a body. Large bodies are processed one at a time: each needs many times its size."""
        if len(body) < LARGE:
            yield BodyReader(is_large=False)
            return
        async with self._lock():
            yield BodyReader(is_large=True)

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]


class BodyReader:
    """Processes one body: in the event loop, or in a thread if the body is large."""

    def __init__(self, *, is_large: bool) -> None:
        self.is_large = is_large

    async def do(self, work: Callable[[bytes], T], body: bytes) -> T:
        """Return the result of a function that uses nothing but the body."""
        return await asyncio.to_thread(work, body) if self.is_large else work(body)


def _megabytes(count: int) -> str:
    return f"{count / MEGABYTE:.1f} MiB"


BATCH = "/v1/jobs/batch"
"""The only route whose body may be large."""


_SESSION = "/v1/session"


_MOST_OF_A_TOKEN = 4096
"""Limit for the body that begins a session; callers without a token may send it."""


_STEP = 64 * 1024
"""Bytes that are counted at a time for a body without a declared length."""


class RequestBody:
    """Receives a body: counts its bytes as in flight until the answer, and refuses it when it is too large."""

    def __init__(self, bodies: BodiesInFlight, scope: Scope, receive: Receive, most: int) -> None:
        self._bodies = bodies
        self._scope = scope
        self._receive = receive
        self._most = most
        self._read = 0
        self._caller = ""
        self._taken = 0

    async def __call__(self) -> Message:
        if not self._taken:
            # The caller is known now, and nothing of the body has been read.
            self._caller = self._scope["state"].get("bucket", "")
            self._take(declared_length(self._scope["headers"]))
        message = await self._receive()
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            if self._read > self._most:
                raise too_large(self._most)
            if self._read > self._taken:
                self._take(max(_STEP, self._read - self._taken))
        return message

    def give_back(self) -> None:
        """End the request."""
        if self._taken:
            self._bodies.give_back(self._caller, self._taken)
            self._taken = 0

    def _take(self, count: int) -> None:
        if count:
            self._bodies.take(self._caller, count, self._taken)
            self._taken += count


def declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the declared length of the body; 0 if there is none."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and len(value) < 19:
            return int(value)
    return 0


def too_large(most: int) -> RequestError:
    return RequestError(
        "too_large",
        f"The body has more than {most} bytes.",
        hint="Keep large data elsewhere and pass a reference to it.",
        headers={"Connection": "close"},
    )


def max_body_bytes(scope: Scope, settings: WebSettings) -> int:
    """The size that a request's body may have."""
    path = route_path(scope) if scope["method"] == "POST" else ""
    if path == BATCH:
        return settings.max_batch_body
    return min(_MOST_OF_A_TOKEN, settings.max_body) if path == _SESSION else settings.max_body
