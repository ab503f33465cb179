"""A server process: the HTTP interface, timed work and a worker together, until a signal ends them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock.app import Penstock
from penstock.background.archive import Archive
from penstock.config.server_settings import ServerSettings, WebSettings
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.errors import InvalidInput
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings
from penstock.http.application import create
from penstock.http.authentication import new_setup_code
from penstock.http.server import Server, bound, is_loopback, make_room
from penstock.launch import services
from penstock.launch.one_pass import Pass, dispatch, run_pass
from penstock.launch.reload import FileStamps, file_stamps
from penstock.launch.services import ServicesWithoutWorker, TimedWork
from penstock.launch.sources import Source
from penstock.launch.worker_host import WorkerHost
from penstock.runtime import stop_signals

_TRIGGER_SECONDS = 25.0
"""Seconds to wait for a dispatch cycle; jobs that take longer go on after the answer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts and settings of a server process."""

    source: Source | None = None
    """The code; without it the server serves HTTP and does timed work, and runs no jobs."""
    store: str | None = field(default=None, repr=False)
    """Another store than the source names."""
    address: Mapping[str, Any] | None = field(default=None, repr=False)
    """How to open the store where there is no source."""
    working: bool = True
    """Whether it runs jobs as well."""
    watch: bool = False
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    web: WebSettings = field(default_factory=WebSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    secrets: SecretPolicy = field(default_factory=SecretPolicy)
    archive: Archive | None = None
    """Where jobs are written down before retention deletes them."""

    def __post_init__(self) -> None:
        if self.watch and self.source is None:
            raise InvalidInput("There is no code to watch.", hint="Give module:app or --jobs DIR.")

    def host(self, settings: WorkerSettings, *, timed: bool = True) -> WorkerHost:
        """A host for the code; the plan must name code."""
        if self.source is None:
            raise InvalidInput("This server has no code.", hint="Give module:app or --jobs DIR.")
        return WorkerHost(
            self.source, store=self.store, settings=settings, timed=timed, webhooks=self.webhooks,
            secrets=self.secrets, archive=self.archive,
        )  # fmt: skip


async def serve(plan: Plan, *, ready: Callable[[Server], None] | None = None, signals: bool = True) -> None:
    """Serve HTTP until SIGTERM, SIGINT or SIGHUP; a second signal waits neither for requests nor for jobs."""
    make_room(plan.server.max_connections)
    # A port that is taken should be known before anything is loaded.
    sockets = bound(plan.server.host, plan.server.port)
    part: _Work = _WithWorker(plan) if plan.source is not None and plan.working else _WithoutWorker(plan)
    try:
        app = await part.open()
        await _refuse_open_server(app, plan.server.host)
        code = None if await app.tokens.aneeds_token() else new_setup_code()
        server = Server(create(app, plan.web, trigger=part.trigger, setup_code=code), plan.server, sockets)

        def stop() -> None:
            server.stop()
            part.stop()

        if signals:
            stop_signals.handle(stop)
        await _together(server.run(), part.run(), _announce(server, ready), stop)
    finally:
        for each in sockets:
            each.close()
        await part.close()


class _Work(Protocol):
    """The work of a server process next to HTTP."""

    async def open(self) -> Penstock: ...

    async def run(self) -> None: ...

    def stop(self) -> None: ...

    async def close(self) -> None: ...

    async def trigger(self) -> Pass: ...


class _WithWorker:
    """Runs jobs in a worker."""

    def __init__(self, plan: Plan) -> None:
        self._host = plan.host(plan.worker)
        self._watch = plan.watch
        self._seen: FileStamps = {}

    async def open(self) -> Penstock:
        if self._watch:
            self._seen = await asyncio.to_thread(file_stamps, self._host.source.watched)
        await self._host.load()
        return self._host.app

    async def run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if self._watch:
                stack.push_async_callback(_cancel, asyncio.ensure_future(self._host.watch(self._seen)))
            await self._host.worker.run()

    def stop(self) -> None:
        self._host.stop()

    async def close(self) -> None:
        await self._host.close()

    async def trigger(self) -> Pass:
        return await dispatch(self._host, _TRIGGER_SECONDS)


class _WithoutWorker:
    """Does timed work, and runs jobs only on request, as `penstock tick --drain` does."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._host = None if plan.source is None else plan.host(plan.worker)
        self._app: Penstock | None = None
        self._seen: FileStamps = {}
        self._passes = _Passes(plan)
        self._stopping = asyncio.Event()

    async def open(self) -> Penstock:
        if self._host is None:
            app = self._app = Penstock(**(self._plan.address or {}))
            app.webhooks.settings = self._plan.webhooks
            await asyncio.to_thread(lambda: app.store)
            return app
        if self._plan.watch:
            self._seen = await asyncio.to_thread(file_stamps, self._host.source.watched)
        self._app = await self._host.declare()
        return self._app

    async def run(self) -> None:
        work = TimedWork(self._plan.webhooks, self._plan.secrets, self._plan.archive)
        services_run = ServicesWithoutWorker(self._opened, work).run()
        tasks = [asyncio.ensure_future(services_run), asyncio.ensure_future(self._stopping.wait())]
        if self._host is not None and self._plan.watch:
            tasks.append(asyncio.ensure_future(self._host.watch(self._seen)))
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
            await self._passes.wait()
        finally:
            for each in tasks:
                await _cancel(each)

    def stop(self) -> None:
        self._passes.stop()
        self._stopping.set()

    async def close(self) -> None:
        await self._passes.wait()
        if self._host is not None:
            await self._host.close()
        elif self._app is not None:
            await self._app.aclose()

    async def trigger(self) -> Pass:
        config, _ = await self._opened.workers.aconfiguration()
        if not config.enabled:
            return Pass(0, 0, 0)
        if self._host is not None:
            return await self._passes.trigger()
        done = await services.once(self._opened)
        return Pass(0, done.errors, done.ticks)

    @property
    def _opened(self) -> Penstock:
        if self._app is None:
            raise InvalidInput("The store is not open yet.", hint="Call open() first.")
        return self._app


class _Passes:
    """Dispatch cycles of a server that has code and no worker: each as `penstock tick --drain`, one at a time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._host: WorkerHost | None = None
        self._running: asyncio.Future[Pass] | None = None

    async def trigger(self) -> Pass:
        """Run one cycle; a request during a cycle gets the counts from then on."""
        if self._running is None or self._running.done():
            settings = replace(self._plan.worker, poll=0.2, own_process=False)
            # The server's own duties send webhooks: a pass that did would wait for every receiver.
            self._host = self._plan.host(settings, timed=False)
            self._running = asyncio.ensure_future(_one_pass(self._host))
        before = self._so_far
        await asyncio.wait([self._running], timeout=_TRIGGER_SECONDS)
        done = self._running.result() if self._running.done() else self._so_far
        return Pass(done.processed - before.processed, done.errors - before.errors, done.ticks - before.ticks)

    @property
    def _so_far(self) -> Pass:
        counts = self._host.counts if self._host is not None else {}
        return Pass(counts.get("settled", 0), counts.get("failed", 0), 0)

    def stop(self) -> None:
        if self._running is not None and not self._running.done() and self._host is not None:
            self._host.stop()

    async def wait(self) -> None:
        """Until nothing runs any more."""
        if self._running is not None:
            await asyncio.wait([self._running])


async def _one_pass(host: WorkerHost) -> Pass:
    try:
        await host.load()
        return await run_pass(host, drain=True)
    finally:
        await host.close()


async def _refuse_open_server(app: Penstock, host: str) -> None:
    """Refuse to serve other hosts while there is no token: every caller could do everything."""
    if await asyncio.to_thread(is_loopback, host) or await app.tokens.aneeds_token():
        return
    raise InvalidInput(
        f"There is no token yet, so the server may not be reached from other hosts, as on {host} it could.",
        hint="Make one first: penstock tokens create NAME --role admin. Or serve on 127.0.0.1.",
    )


async def _announce(server: Server, ready: Callable[[Server], None] | None) -> None:
    await server.answers.wait()
    if ready is not None:
        ready(server)


async def _together(
    answering: Coroutine[Any, Any, None],
    working: Coroutine[Any, Any, None],
    announcing: Coroutine[Any, Any, None],
    stop: Callable[[], None],
) -> None:
    """Run all of these; when one ends, the others are stopped, and its error is raised."""
    tasks = [asyncio.ensure_future(answering), asyncio.ensure_future(working)]
    announcement = asyncio.ensure_future(announcing)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if any(each.done() and each.exception() is not None for each in tasks):
            stop()
        await asyncio.gather(*tasks)
    finally:
        await _cancel(announcement)
        for each in tasks:
            await _cancel(each)


async def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
