"""What a child asks of its worker while it runs, done in order and answered."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from penstock.domain.context import Errands
from penstock.domain.errors import LeaseLost, PenstockError
from penstock.isolation.jobs_on_wire import job_to_json
from penstock.isolation.wire import MAX_ANSWER, Frame, pack
from penstock.runtime.service import log

_MOST_WAITING = 16
"""A child waits for the answer to each question; what asks on without that is no longer our code."""


class ChildRequests:
    """Does what one child asks for, one after the other, and tells it what came of it."""

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
        """Take in a question; from the loop's thread. Raise when too many wait for their answers."""
        if len(self._asked) >= _MOST_WAITING:
            raise ValueError(f"{_MOST_WAITING} questions wait for an answer, and another one came")
        self._asked.append(frame)
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Nobody waits for answers any more."""
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
                answer = {"error": _told(error)}
            except Exception as error:
                log.exception("%s asked for something that failed", self._what)
                answer = {"error": {"type": "PenstockError", "message": f"{type(error).__name__}: {error}"}}
            with contextlib.suppress(OSError):
                await loop.sock_sendall(self._line, pack(answer, MAX_ANSWER))


async def run_errand(errands: Errands, ask: Frame) -> Any:
    """Do one of the errands that any child may ask for."""
    match ask["ask"]:
        case "create":
            created = await asyncio.to_thread(errands.create, ask["orders"])
            return [[each.job_id, each.status, each.created] for each in created]
        case "read":
            return job_to_json(await asyncio.to_thread(errands.read, str(ask["job_id"])))
        case "cancel":
            return await asyncio.to_thread(errands.cancel, str(ask["job_id"]))
        case other:
            raise ValueError(f"nobody can do {other!r:.40}")


def _told(error: PenstockError) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    for name in ("job_id", "kind", "name"):
        if isinstance(getattr(error, name, None), str):
            facts[name] = getattr(error, name)
    return facts
