"""One worker with everything that it needs: a zygote, a store, a queue and timed work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from penstock.app import Penstock
from penstock.background.archive import Archive
from penstock.config.store_address import UNNAMED
from penstock.config.worker_settings import AT_START, WorkerSettings, configured
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.queue import Queue
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.worker import Duty
from penstock.domain.worker_config import WorkerConfig
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.launch import services
from penstock.launch.reload import CodeLoader, CodeWatch, FileStamps
from penstock.launch.services import TimedWork
from penstock.launch.sources import Source
from penstock.operations.job_requests import StoreErrands
from penstock.queues.database import DatabaseQueue, QueueWithDoorbell
from penstock.runtime.service import log
from penstock.storage import ports
from penstock.worker.live_config import stored_config
from penstock.worker.worker import Worker


class HostOptions(TypedDict, total=False):
    """Options of a host that every command which runs jobs has."""

    store: str | None
    settings: WorkerSettings | None
    webhooks: WebhookSettings | None
    secrets: SecretPolicy | None
    archive: Archive | None


class WorkerHost:
    """Makes one worker for a source of code; the code can be reloaded while the worker runs."""

    def __init__(
        self,
        source: Source,
        *,
        store: str | None = None,
        settings: WorkerSettings | None = None,
        ticking: bool = True,
        webhooks: WebhookSettings | None = None,
        secrets: SecretPolicy | None = None,
        archive: Archive | None = None,
        jobs: JobsPort = ports.jobs,
        timed: bool = True,
        queue: Queue | None = None,
    ) -> None:
        """`ticking`: the worker ticks schedules while it runs. `timed`: it also does housekeeping, webhooks and alerts.
        `queue`: created jobs are published there, and the worker takes no messages itself."""
        self.source = source
        self.settings: WorkerSettings = replace(settings or WorkerSettings(), secrets=secrets or SecretPolicy())
        self.webhooks: WebhookSettings = webhooks or WebhookSettings()
        self.secrets: SecretPolicy = secrets or SecretPolicy()
        self.archive = archive
        self.timed_work: TimedWork | None = TimedWork(self.webhooks, self.secrets, archive, ticking) if timed else None
        """The timed work that is done while the worker runs, in addition to promotion and rescue."""
        self.lanes: Sequence[int] = ()
        """The lanes of the definitions that were loaded at the start."""
        self._store = store
        self._jobs = jobs
        self._outlet = queue
        self._loader = CodeLoader(source, allow_threads=self.settings.allow_preload_threads)
        self._code_watch = CodeWatch(self._loader, self.reload)
        self._app: Penstock | None = None
        self._worker: Worker | None = None
        self._loading = asyncio.Lock()
        self._definitions: Sequence[Definition] = ()
        self._catching_up: asyncio.Future[None] | None = None

    @property
    def app(self) -> Penstock:
        """The application through which the worker uses the store; it has no code."""
        if self._app is None:
            raise InvalidInput("Nothing is loaded yet.", hint="Call load() first.")
        return self._app

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            raise InvalidInput("Nothing is loaded yet.", hint="Call load() first.")
        return self._worker

    @property
    def counts(self) -> Mapping[str, int]:
        """The worker's counts so far: claimed, settled, failed, refused; empty before anything is loaded."""
        return {} if self._worker is None else self._worker.counts

    @property
    def problems(self) -> Sequence[Mapping[str, Any]]:
        """File, line and error of each file that could not be loaded."""
        return self._loader.problems

    @property
    def served(self) -> set[tuple[str, int]]:
        """The keys and versions of the definitions that the worker runs."""
        return {(each.key, each.version) for each in self._definitions}

    def duties(self) -> list[Duty]:
        """The last success and the errors of each service of the worker."""
        return self.worker.duties()

    def stop(self) -> None:
        """Let the worker, if there is one, claim nothing more and drain; a second call kills what runs."""
        if self._worker is not None:
            self._worker.stop()

    async def load(self) -> Worker:
        """Load the code, open the store, register definitions and schedules; `worker.run()` then works."""
        zygote = await self._loader.load()
        try:
            inline = self.source.inline(zygote.definitions)
            app = await self._open_app(zygote)
            self._worker = await self._make_worker(app, zygote, inline)
            self._app, self._definitions = app, zygote.definitions
            self.lanes = sorted((await app.store.arun(ports.admin.register(zygote.definitions))).values())
            await self._apply_schedules(zygote)
        except BaseException:
            await zygote.close()
            raise
        return self._worker

    async def declare(self) -> Penstock:
        """Register definitions and schedules without a worker; the code is not kept."""
        zygote = await self._loader.load()
        try:
            if self._app is None:
                self._app = await self._open_app(zygote)
            await self.app.store.arun(ports.admin.register(zygote.definitions))
            await self._apply_schedules(zygote)
        finally:
            await zygote.close()
        return self.app

    async def reload(self) -> None:
        """Load the code again; running attempts keep theirs. Code that cannot be loaded changes nothing."""
        async with self._loading:
            if self._worker is None:
                await self.declare()
                return
            zygote = await self._loader.load_change()
            try:
                with self.worker.lease.excused():
                    inline = self.source.inline(zygote.definitions)
                await self.worker.adopt(zygote, inline)
            except BaseException:
                await zygote.close()
                raise
            self._definitions = zygote.definitions
            await self._apply_schedules(zygote)
            log.info("reloaded: %d definition(s)", len(zygote.definitions))

    async def watch(self, seen: FileStamps) -> None:
        """Reload whenever files differ from those last seen."""
        await self._code_watch.run(seen)

    async def config(self) -> WorkerConfig:
        """The configuration of all workers."""
        return await stored_config(self.app.store, ports.admin, WorkerConfig())

    async def close(self) -> None:
        """Close the zygote and the store; a running worker must have stopped."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.wait([self._catching_up])
        if self._worker is not None:
            await self._worker.close()
        if self._app is not None:
            await self._app.aclose()

    async def _make_worker(self, app: Penstock, zygote: ZygoteProcess, inline: Application | None) -> Worker:
        stored = await stored_config(app.store, ports.admin, WorkerConfig())
        return Worker(
            zygote, self._replacement_zygote, app.store, self._worker_queue(app), self._jobs, ports.admin,
            StoreErrands(app, self.secrets),
            lambda worker: services.services_of_worker(worker, app, self._jobs, self.timed_work),
            settings=configured(self.settings, stored, AT_START), inline=inline,
        )  # fmt: skip

    async def _replacement_zygote(self) -> ZygoteProcess:
        """A zygote in place of one that died; files may have changed since their definitions were registered."""
        zygote = await self._loader.load()
        if zygote.definitions != self._definitions:
            self._catching_up = asyncio.ensure_future(self._code_watch.reload_or_log())
        return zygote

    async def _apply_schedules(self, zygote: ZygoteProcess) -> None:
        unread = zygote.extras.get("unread", ())
        applied = await self.app._ado(self.app._apply_schedules(zygote.schedules, self.source.origin, unread))
        for warning in applied.warnings:
            log.warning("%s", warning)

    async def _open_app(self, zygote: ZygoteProcess) -> Penstock:
        app = Penstock(**self._address(zygote.address))
        app.webhook_settings = self.webhooks
        await asyncio.to_thread(lambda: app.store)
        return app

    def _worker_queue(self, app: Penstock) -> Queue:
        """The queue from which the worker takes messages."""
        if not app.has_own_queue:
            return app.queue
        _ = app.queue  # An adapter that cannot be made is an error at the start.
        return QueueWithDoorbell(app.guarded_queue, DatabaseQueue(app._bell), self._has_room)

    def _has_room(self) -> bool:
        return (
            self._outlet is None and self._worker is not None and len(self._worker.held()) < self._worker.settings.slots
        )

    def _address(self, found: Mapping[str, Any] | None) -> dict[str, Any]:
        if found is not None and self._outlet is not None:
            found = {**found, "queue": self._outlet}
        if found is not None and found.get("queue") == UNNAMED:
            raise InvalidInput(
                f"{self.source.origin!r} has a queue that was given as an object, which a worker cannot make.",
                hint='Name what makes it: Penstock(…, queue="myproject.queues:make").',
            )
        if self._store is not None:
            return {**(found or {}), "store": self._store}
        if found is None:
            raise InvalidInput(
                f"{self.source.origin!r} keeps its jobs in memory or in a store object, which a worker cannot open.",
                hint="Give a URL: --store sqlite:///jobs.db",
            )
        return dict(found)
