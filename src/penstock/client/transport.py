"""How requests travel: in the caller's thread or in an event loop, tried again where that is safe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.exchange import LOST, Answered, Asked, Talk, error_of, may_ask_again, pause_before
from penstock.client.server import authorization, server_name
from penstock.domain.errors import InvalidInput, PenstockError, StoreUnavailable

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
_MOST_CONNECTIONS = 100


class Transport:
    """Sends requests to one server, with its token; connections are opened when they are needed."""

    def __init__(self, url: str, token: str | None, timeout: float, tries: int) -> None:
        self._name = server_name(url)
        if tries < 1 or timeout <= 0:
            raise InvalidInput("tries must be at least 1, and timeout more than 0 seconds.")
        self.url: str = url.rstrip("/")
        self._headers = {**authorization(token), "Penstock-Reader": "python"}
        self._timeout = timeout
        self._tries = tries
        self._sync: httpx2.Client | None = None
        self._async: tuple[asyncio.AbstractEventLoop, httpx2.AsyncClient] | None = None

    def hold(self, talk: Talk[T]) -> T:
        """Hold a conversation in the caller's thread."""
        try:
            asked = next(talk)
            while True:
                try:
                    answer = self._send(asked)
                except PenstockError as error:
                    asked = talk.throw(error)
                else:
                    asked = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def ahold(self, talk: Talk[T]) -> T:
        """Hold a conversation in an event loop."""
        try:
            asked = next(talk)
            while True:
                try:
                    answer = await self._asend(asked)
                except PenstockError as error:
                    asked = talk.throw(error)
                else:
                    asked = talk.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    @property
    def sync(self) -> httpx2.Client:
        """The connections of plain calls."""
        if self._sync is None:
            import httpx2

            self._sync = httpx2.Client(**self._options(), limits=_limits())
        return self._sync

    @property
    def asynchronous(self) -> httpx2.AsyncClient:
        """The connections of the event loop that runs now; those of another loop are of no use to it."""
        loop = asyncio.get_running_loop()
        if self._async is None or self._async[0] is not loop:
            import httpx2

            self._async = loop, httpx2.AsyncClient(**self._options(), limits=_limits())
        return self._async[1]

    def close(self) -> None:
        if self._sync is not None:
            self._sync.close()
            self._sync = None

    async def aclose(self) -> None:
        if self._async is not None and self._async[0] is asyncio.get_running_loop():
            await self._async[1].aclose()
        self._async = None
        self.close()

    def _send(self, asked: Asked) -> Answered:
        import httpx2

        repeated = False
        for attempt in range(self._tries):
            last = attempt == self._tries - 1
            try:
                found = self.sync.request(asked.method, asked.path, **_arguments(asked))
                answer = Answered(found.status_code, found.content, found.headers, repeated)
            except httpx2.TransportError as error:
                if last or not _may_repeat(asked, error):
                    raise _unreachable(self._name, error) from error
                repeated = True
                time.sleep(pause_before(attempt, None))
                continue
            if last or not may_ask_again(asked, answer.status):
                return answer if asked.may_be_refused else _checked(answer)
            repeated = repeated or answer.status in LOST
            time.sleep(pause_before(attempt, answer.headers.get("retry-after")))
        raise AssertionError("unreachable")

    async def _asend(self, asked: Asked) -> Answered:
        import httpx2

        repeated = False
        for attempt in range(self._tries):
            last = attempt == self._tries - 1
            try:
                found = await self.asynchronous.request(asked.method, asked.path, **_arguments(asked))
                answer = Answered(found.status_code, found.content, found.headers, repeated)
            except httpx2.TransportError as error:
                if last or not _may_repeat(asked, error):
                    raise _unreachable(self._name, error) from error
                repeated = True
                await asyncio.sleep(pause_before(attempt, None))
                continue
            if last or not may_ask_again(asked, answer.status):
                return answer if asked.may_be_refused else _checked(answer)
            repeated = repeated or answer.status in LOST
            await asyncio.sleep(pause_before(attempt, answer.headers.get("retry-after")))
        raise AssertionError("unreachable")

    def _options(self) -> dict[str, Any]:
        return {"base_url": self.url, "headers": self._headers, "timeout": self._timeout, "follow_redirects": False}


def _limits() -> Any:
    import httpx2

    return httpx2.Limits(max_connections=_MOST_CONNECTIONS)


def _arguments(asked: Asked) -> Mapping[str, Any]:
    from penstock.domain import payload

    arguments: dict[str, Any] = {"headers": dict(asked.headers)}
    if asked.query:
        arguments["params"] = asked.query
    if asked.body is not None:
        arguments["content"] = payload.to_json(asked.body)
        arguments["headers"]["Content-Type"] = "application/json"
    return arguments


def _may_repeat(asked: Asked, error: Exception) -> bool:
    """Whether a failed request may be sent again: it does no harm twice, or it never left."""
    import httpx2

    return asked.repeatable or isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def _checked(answer: Answered) -> Answered:
    if answer.status >= 300:
        raise error_of(answer)
    return answer


def _unreachable(server: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"The server at {server} does not answer: {type(error).__name__}: {str(error)[:200]}.",
        hint="Is it running? The same call may be made again.",
    )
