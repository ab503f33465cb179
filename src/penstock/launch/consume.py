"""Handles one message of a queue, for hosts that get messages pushed and run no worker."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from penstock.app import Penstock
from penstock.config.project_file import load
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND, Duration, microseconds
from penstock.domain.job import Claimed, Job, QueuePosition
from penstock.domain.plan import Plan
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.states import Status
from penstock.launch.application_source import is_zygote, source_of
from penstock.launch.worker_host import WorkerHost
from penstock.operations.session import not_inside_a_job
from penstock.runtime.service import log
from penstock.storage import ports

_POLL_SECONDS = 0.02
_LEAST = 5.0
_LONGEST_ID = 64

Acknowledge = Callable[[], Any]


async def consume(
    app: Penstock,
    message: Any,
    *,
    within: Duration = 600,
    acknowledge: Acknowledge | None = None,
    settings: WorkerSettings | None = None,
) -> Job | None:
    """Run the job that a message names, if it is ready; the job as it is afterwards.

    None: the message names no job that is ready, and was dropped. `acknowledge` is called once, as soon as the claim
    was committed or refused; it may be async. When `within` is over, the attempt is stopped and its job is queued
    again. `TimeoutError`: the job was not claimed within that time, and the message is not acknowledged. Settings of
    workers in `penstock.toml` and the environment hold here too.
    """
    if app._errands is not None or is_zygote():
        raise not_inside_a_job("app.consume")
    seconds = microseconds(within, "within") / SECOND
    if seconds < _LEAST:
        raise InvalidInput(f"within must be at least {_LEAST:g} seconds: a worker has to start.")
    deadline = time.monotonic() + seconds
    acknowledgement = _Acknowledgement(app, message, acknowledge)
    job_id = job_id_of(message)
    if job_id is None or not await _is_ready(app, job_id):
        await acknowledgement.acknowledge()
        return None
    source = source_of(app)
    only = _OneJobPort(ports.jobs, job_id)
    found = load()
    configured = settings or WorkerSettings(**found.worker)
    chosen = replace(
        configured, stop_grace=min(configured.stop_grace, seconds / 4),
        slots=1, inline_slots=1, ahead=0, drain=0.0, own_process=False, poll=0.1,
    )  # fmt: skip
    host = WorkerHost(
        source, settings=chosen, ticking=False, jobs=cast("JobsPort", only), timed=False,
        store=None if app.address is None else app.address["store"], queue=app.queue if app.has_own_queue else None,
        secrets=SecretPolicy(found.secret_patterns),
    )  # fmt: skip
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + max(0.0, deadline - time.monotonic())):
            await host.load()
        only.claimed = lambda: host.counts.get("claimed", 0) > 0
        await _run(host, acknowledgement, deadline - chosen.stop_grace)
    finally:
        await host.close()
    if not host.counts["claimed"]:
        return None
    return await _afterwards(app, job_id)


async def _run(host: WorkerHost, acknowledgement: _Acknowledgement, deadline: float) -> None:
    """Run the worker until its only attempt has ended, or the time is over."""
    worker = host.worker
    running = asyncio.ensure_future(worker.run())
    try:
        while not running.done() and not worker.counts["claimed"] and not worker.claimer.idle.is_set():
            await asyncio.sleep(_POLL_SECONDS)
            if time.monotonic() >= deadline:
                break
        if not worker.counts["claimed"] and not worker.claimer.idle.is_set():
            raise TimeoutError("The job was not claimed in time.")
        await acknowledgement.acknowledge()
        while worker.held() and not running.done() and time.monotonic() < deadline:  # noqa: ASYNC110 (as in `one_pass`)
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        worker.stop()
        await running


async def _afterwards(app: Penstock, job_id: str) -> Job | None:
    """The job; one that is queued again needs another message."""
    found = await asyncio.to_thread(lambda: app.store.run(ports.admin.get([job_id])))
    if found and found[0].status is Status.QUEUED:
        app.guarded_queue.publish([job_id])
    return found[0] if found else None


async def _is_ready(app: Penstock, job_id: str) -> bool:
    """Whether the job is queued, so that starting a worker is worth while; it costs one statement."""
    found = await asyncio.to_thread(lambda: app.store.run(ports.admin.get([job_id])))
    return bool(found) and found[0].status is Status.QUEUED


def job_id_of(message: Any) -> str | None:
    """The job id in a message: the id itself, as text or bytes, in JSON or as `job_id`; None in anything else."""
    if isinstance(message, Mapping):
        message = message.get("job_id", message.get("jobId"))
    elif not isinstance(message, str | bytes | bytearray | memoryview):
        message = getattr(message, "job_id", None)
    if isinstance(message, bytes | bytearray | memoryview):
        message = bytes(message).decode(errors="replace")
    if not isinstance(message, str):
        return None
    text = message.strip()
    if text[:1] in ("{", '"'):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return None
        return job_id_of(inner) if inner != message else None
    if len(text) > _LONGEST_ID:
        return None
    try:
        return str(UUID(text))
    except ValueError:
        return None


class _Acknowledgement:
    """Acknowledges a message once; a failure is logged, since the claim is decided."""

    def __init__(self, app: Penstock, message: Any, acknowledge: Acknowledge | None) -> None:
        self._app = app
        self._message = message
        self._acknowledge = acknowledge
        self._done = False

    async def acknowledge(self) -> None:
        if self._done:
            return
        self._done = True
        try:
            if self._acknowledge is not None:
                if inspect.isawaitable(answer := self._acknowledge()):
                    await answer
            elif hasattr(self._message, "job_id"):
                await self._app.guarded_queue.acknowledge([self._message])
        except Exception as error:
            log.warning("a message could not be acknowledged: %s: %.200s", type(error).__name__, error)


class _OneJobPort:
    """The jobs port of a worker that claims only one job."""

    def __init__(self, jobs: JobsPort, job_id: str) -> None:
        self._jobs = jobs
        self._job_id = job_id
        self.claimed: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def claim(
        self,
        worker: str,
        lanes: Sequence[int],
        limit: int,
        *,
        limited: Sequence[int] = (),
        start: bool = True,
        after: Mapping[int, QueuePosition] = {},
    ) -> Plan[list[Claimed]]:
        if limit < 1 or self.claimed():
            return self._jobs.claim(worker, (), 0)
        return self._jobs.claim_job(worker, self._job_id, lanes, start=start)
