"""Carries operations out through a server: each is encoded as a request to its route."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from penstock.client.exchange import Answered, Talk, error_of
from penstock.client.lines import Lines
from penstock.client.routes.jobs import job_path
from penstock.client.table import ROUTES
from penstock.client.transport import Transport
from penstock.client.waiting import Wait, cuts
from penstock.domain.errors import Conflict
from penstock.domain.job import Job
from penstock.surface.jobs import ReadJob, WaitForJob
from penstock.surface.session import Operation

T = TypeVar("T")


class ServerSession:
    """Carries operations out by requests to one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def do(self, operation: Operation[T]) -> T:
        """Carry an operation out in the caller's thread."""
        if isinstance(operation, WaitForJob):
            return self._wait(operation)  # type: ignore[return-value]
        return self._transport.hold(_talk(operation))

    async def ado(self, operation: Operation[T]) -> T:
        """Carry an operation out in an event loop."""
        if isinstance(operation, WaitForJob):
            return await self._await(operation)  # type: ignore[return-value]
        return await self._transport.ahold(_talk(operation))

    def _wait(self, asked: WaitForJob) -> Job:
        """Wait for the end of a job, notified by its live events; a server that is away for a while is waited for."""
        wait = Wait(job_path(asked.job_id), asked.timeout)
        while True:
            try:
                job = self.do(ReadJob(asked.job_id))
                if wait.is_over(job):
                    return job
                self._listen(wait)
            except cuts() as error:
                wait.cut(error)
            time.sleep(wait.pause())

    async def _await(self, asked: WaitForJob) -> Job:
        wait = Wait(job_path(asked.job_id), asked.timeout)
        while True:
            try:
                job = await self.ado(ReadJob(asked.job_id))
                if wait.is_over(job):
                    return job
                await self._alisten(wait)
            except cuts() as error:
                wait.cut(error)
            await asyncio.sleep(wait.pause())

    def _listen(self, wait: Wait) -> None:
        """Read a job's events until one of them may have ended it."""
        lines = Lines()
        with self._transport.sync.stream("GET", wait.path, **wait.arguments()) as answer:
            if answer.status_code != 200:
                raise error_of(Answered(answer.status_code, answer.read(), answer.headers))
            for part in answer.iter_bytes():
                if any(wait.heard(lines, line) for line in lines.split(part)):
                    return

    async def _alisten(self, wait: Wait) -> None:
        lines = Lines()
        async with self._transport.asynchronous.stream("GET", wait.path, **wait.arguments()) as answer:
            if answer.status_code != 200:
                raise error_of(Answered(answer.status_code, await answer.aread(), answer.headers))
            async for part in answer.aiter_bytes():
                if any(wait.heard(lines, line) for line in lines.split(part)):
                    return


def _talk(operation: Operation[T]) -> Talk[T]:
    route = ROUTES.get(type(operation))
    if route is None:
        raise Conflict(
            f"client.{operation.call} is not possible: the HTTP API has no route for it.",
            hint="Use a Penstock on the store for that.",
        )
    return route(operation)
