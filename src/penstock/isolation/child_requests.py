"""The requests of a running child to its worker, carried out in order and answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.domain.context import JobRequests
from penstock.domain.errors import LeaseLost, PenstockError
from penstock.isolation.wire import MAX_ANSWER, Frame, job_to_json, pack
from penstock.runtime.service import log

_MOST_WAITING = 16
"""A child waits for the answer to each request; a child that does not is no longer running our code."""


class ChildRequests:
    """Carries out the requests of one child, one after the other, and answers them."""

    def __init__(
        self, line: socket.socket, do: Callable[[Frame], Awaitable[Any]], lost: Callable[[str], None], what: str
    ) -> None:
        self._line = line
        self._do = do
        self._lost = lost
        self._what = what
        self._asked: deque[Frame] = deque()
        self._working: asyncio.Task[None] | None = None

    def ask(self, frame: Frame) -> None:
        """Take a request, from the loop's thread; raise when too many wait for their answers."""
        if len(self._asked) >= _MOST_WAITING:
            raise ValueError(f"{_MOST_WAITING} requests wait for an answer, and another one came")
        self._asked.append(frame)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Answer nothing more: the child has ended."""
        if self._working is not None:
            self._working.cancel()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._asked:
            frame = self._asked.popleft()
            try:
                answer: Frame = {"value": await self._do(frame)}
            except LeaseLost as error:
                self._lost(str(error))
                return
            except PenstockError as error:
                answer = {"error": _facts_of(error)}
            except Exception as error:
                log.exception("%s asked for something that failed", self._what)
                answer = {"error": {"type": "PenstockError", "message": f"{type(error).__name__}: {error}"}}
            with contextlib.suppress(OSError):
                await loop.sock_sendall(self._line, pack(answer, MAX_ANSWER))


async def run_errand(errands: JobRequests, ask: Frame) -> Any:
    """Carry out a request that any child may make."""
    match ask["ask"]:
        case "create":
            created = await asyncio.to_thread(errands.create, ask["orders"])
            return [[each.job_id, each.status, each.created] for each in created]
        case "read":
            return job_to_json(await asyncio.to_thread(errands.read, str(ask["job_id"])))
        case "cancel":
            return await asyncio.to_thread(errands.cancel, str(ask["job_id"]))
        case other:
            raise ValueError(f"there is no request {other!r:.40}")


def _facts_of(error: PenstockError) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    for name in ("job_id", "kind", "name"):
        if isinstance(getattr(error, name, None), str):
            facts[name] = getattr(error, name)
    return facts
