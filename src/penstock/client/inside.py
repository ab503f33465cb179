"""Requests to an ASGI application in this very process: no server, no socket, and answers that may never end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping
from typing import Any, TypeVar

import httpx2

T = TypeVar("T")
Message = MutableMapping[str, Any]
Application = Callable[..., Awaitable[None]]

_AHEAD = 16
"""How many parts of an answer may wait for whoever reads it."""
_GOODBYE = 5.0


class InsideTransport(httpx2.BaseTransport):
    """Carries plain requests into an application that lives in an event loop of a thread of its own.

    `closing` is awaited in that loop at the end.
    """

    def __init__(self, application: Application, closing: Callable[[], Awaitable[None]] | None = None) -> None:
        self._application = application
        self._closing = closing
        self._tasks: set[asyncio.Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="penstock-inside", daemon=True)
        self._thread.start()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(request)
        patience = request.extensions.get("timeout", {}).get("read")
        self._loop.call_soon_threadsafe(self._begin, exchange)
        try:
            start = self.wait(exchange.parts.get(), patience)
        except BaseException:
            self._loop.call_soon_threadsafe(exchange.leave)
            raise
        if not isinstance(start, dict):
            raise httpx2.RemoteProtocolError("The application gave no answer.")
        return httpx2.Response(start["status"], headers=start["headers"], stream=_Body(self, exchange, patience))

    def wait(self, step: Coroutine[Any, Any, T], seconds: float | None) -> T:
        """Have something awaited in the application's loop; the caller's thread stands still meanwhile."""
        future = asyncio.run_coroutine_threadsafe(self._counted(step), self._loop)
        try:
            return future.result(seconds)
        except concurrent.futures.CancelledError:
            raise httpx2.ReadError("The application was closed.") from None
        except TimeoutError:
            raise httpx2.ReadTimeout("The application does not answer.") from None
        finally:
            future.cancel()

    def leave(self, exchange: _Exchange) -> None:
        """Tell the application that nobody reads its answer any more."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(exchange.leave)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_GOODBYE)

    def _begin(self, exchange: _Exchange) -> None:
        exchange.task = self._loop.create_task(self._counted(exchange.answer(self._application)))

    async def _counted(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a step as a task that is cancelled when the transport closes."""
        task = asyncio.ensure_future(step)
        self._tasks.add(task)
        try:
            return await task
        finally:
            self._tasks.discard(task)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        # Other tasks, such as those of a connection pool, are ended by `closing`.
        own = list(self._tasks)
        for each in own:
            each.cancel()
        await asyncio.gather(*own, return_exceptions=True)
        if self._closing is not None:
            await self._closing()


class _Exchange:
    """One request as an application sees it, and the parts of its answer."""

    def __init__(self, request: httpx2.Request) -> None:
        self.parts: asyncio.Queue[dict[str, Any] | bytes | None] = asyncio.Queue(_AHEAD)
        self.failed: bool = False
        self._body: bytes | None = request.read()
        self._scope = _scope(request)
        self._gone = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        self._gone.set()
        while not self.parts.empty():
            self.parts.get_nowait()

    async def answer(self, application: Application) -> None:
        try:
            await application(self._scope, self._receive, self._send)
        except Exception:
            # It has said so in its log; here it is an answer that breaks off.
            self.failed = True
        await self._put(None)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._put({"status": message["status"], "headers": list(message.get("headers", []))})
        elif message.get("body"):
            await self._put(message["body"])

    async def _put(self, part: dict[str, Any] | bytes | None) -> None:
        if not self._gone.is_set():
            await self.parts.put(part)


class _Body(httpx2.SyncByteStream):
    """The parts of an answer as they come."""

    def __init__(self, transport: InsideTransport, exchange: _Exchange, patience: float | None) -> None:
        self._transport = transport
        self._exchange = exchange
        self._patience = patience

    def __iter__(self) -> Iterator[bytes]:
        while True:
            part = self._transport.wait(self._exchange.parts.get(), self._patience)
            if isinstance(part, bytes):
                yield part
            elif self._exchange.failed:
                raise httpx2.ReadError("The application broke off its answer.")
            else:
                return

    def close(self) -> None:
        self._transport.leave(self._exchange)


def _scope(request: httpx2.Request) -> dict[str, Any]:
    target, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": target,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
    }
