"""One worker with everything around it: a zygote, a store, a queue and its duties, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from penstock.app import Penstock
from penstock.background.archive import Archive
from penstock.config.store_address import UNNAMED
from penstock.config.worker_settings import AT_START, WorkerSettings, configured
from penstock.domain.definition import Definition
from penstock.domain.errors import InvalidInput, PenstockError, StoreUnavailable
from penstock.domain.ports.store import JobsPort, Queue
from penstock.domain.secrets.policy import SecretPolicy
from penstock.domain.webhook.settings import WebhookSettings
from penstock.domain.worker import Duty
from penstock.domain.worker_config import WorkerConfig
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.launch import services
from penstock.launch.services import TimedWork
from penstock.launch.sources import Source, Stamp, changes, stamp
from penstock.operations.job_requests import StoreErrands
from penstock.queues.database import DatabaseQueue
from penstock.queues.with_doorbell import RungQueue
from penstock.runtime import stop_signals
from penstock.runtime.service import log
from penstock.storage import ports
from penstock.worker.live_config import stored_config
from penstock.worker.worker import Worker

_AGAIN = 2.0
_USUAL_LOAD = 5.0
_LONG_LOAD = 10.0
_LOOK = 0.25
_GLANCE = 0.05


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of `penstock tick` has done."""

    processed: int
    """Attempts that were run and settled."""
    errors: int
    """Attempts that failed, schedules that could not be ticked, and parts of housekeeping that failed."""
    ticks: int


class NodeOptions(TypedDict, total=False):
    """What a node can be told beside its source, whatever is done with it."""

    store: str | None
    settings: WorkerSettings | None
    webhooks: WebhookSettings | None
    secrets: SecretPolicy | None
    archive: Archive | None


class Node:
    """One worker with everything around it; its code can be loaded anew while it works."""

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
        self.source = source
        self.settings: WorkerSettings = replace(settings or WorkerSettings(), secrets=secrets or SecretPolicy())
        self.problems: Sequence[Mapping[str, Any]] = ()
        """What could not be loaded: file, line and error of each."""
        self._store = store
        self._webhooks = webhooks or WebhookSettings()
        self._secrets = secrets or SecretPolicy()
        self._archive = archive
        self._jobs = jobs
        work = TimedWork(self._webhooks, self._secrets, archive, ticking)
        self._work = work if timed else None
        """The timed work that is done while the worker runs, beyond what every worker does."""
        self._outlet = queue
        """Where what jobs create is published, by a worker that takes no messages itself."""
        self._clerk: Penstock | None = None
        self._worker: Worker | None = None
        self._loading = asyncio.Lock()
        self._definitions: Sequence[Definition] = ()
        self._lanes: Sequence[int] = ()
        self._catching_up: asyncio.Future[None] | None = None
        self._starting = False
        """Whether a zygote is loading changed code."""

    @property
    def app(self) -> Penstock:
        """The application by which the worker speaks with the store; it has no code of its own."""
        if self._clerk is None:
            raise InvalidInput("Nothing is loaded yet.", hint="Call load() first.")
        return self._clerk

    @property
    def worker(self) -> Worker:
        if self._worker is None:
            raise InvalidInput("Nothing is loaded yet.", hint="Call load() first.")
        return self._worker

    @property
    def counts(self) -> Mapping[str, int]:
        """What the worker has done so far: claimed, settled, failed, refused; empty before anything is loaded."""
        return {} if self._worker is None else self._worker.counts

    def stop(self) -> None:
        """Have the worker, if there is one, claim nothing more and drain; a second call is a hurry."""
        if self._worker is not None:
            self._worker.stop()

    async def load(self) -> Worker:
        """Load the code, open the store, make definitions and schedules known; `worker.run()` then works."""
        zygote = await self._zygote()
        try:
            clerk = Penstock(**self._address(zygote.address))
            clerk.webhook_settings = self._webhooks
            inline = self.source.inline(zygote.definitions)
            await asyncio.to_thread(lambda: clerk.store)
            worker = Worker(
                zygote, self._another_zygote, clerk.store, self._queue(clerk), self._jobs, ports.admin,
                StoreErrands(clerk, self._secrets),
                lambda worker: services.services_of_worker(worker, clerk, self._jobs, self._work),
                settings=configured(self.settings, await _config(clerk), AT_START), inline=inline,
            )  # fmt: skip
            self._clerk, self._worker, self._definitions = clerk, worker, zygote.definitions
            self._lanes = sorted((await clerk.store.arun(ports.admin.register(zygote.definitions))).values())
            await self._apply_schedules(zygote)
        except BaseException:
            await zygote.close()
            raise
        return worker

    async def declare(self) -> Penstock:
        """Make definitions and schedules known without working on them; the code is not kept."""
        zygote = await self._zygote()
        try:
            if self._clerk is None:
                clerk = Penstock(**self._address(zygote.address))
                clerk.webhook_settings = self._webhooks
                await asyncio.to_thread(lambda: clerk.store)
                self._clerk = clerk
            await self.app.store.arun(ports.admin.register(zygote.definitions))
            await self._apply_schedules(zygote)
        finally:
            await zygote.close()
        return self.app

    async def reload(self) -> None:
        """Load the code anew; attempts that run keep theirs. What cannot be loaded leaves everything as it is."""
        async with self._loading:
            if self._worker is None:
                await self.declare()
                return
            zygote = await self._zygote_for_reload()
            try:
                with self.worker.lease.excused():
                    inline = self.source.inline(zygote.definitions)
                await self.worker.adopt(zygote, inline)
            except BaseException:
                await zygote.close()
                raise
            self._definitions = zygote.definitions
            await self._apply_schedules(zygote)
            log.info("loaded anew: %d definition(s)", len(zygote.definitions))

    async def watch(self, seen: Stamp) -> None:
        """Reload whenever files are not as last seen; an error is said and the last good code stays.

        A change while code has been loading for some seconds starts over: an import that hangs does not keep a repaired
        file from being loaded.
        """
        reload: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))
        while True:
            try:
                async with contextlib.aclosing(changes(self.source.watched, seen)) as changed:
                    async for _ in changed:
                        await asyncio.wait([reload], timeout=_USUAL_LOAD)
                        if self._starting:
                            reload.cancel()
                        await asyncio.wait([reload])
                        reload = asyncio.ensure_future(self._reload_or_say())
            except (OSError, RuntimeError) as error:
                log.error("%s cannot be watched: %s; next try in %.0f s", self.source.watched, error, _AGAIN)
                await asyncio.sleep(_AGAIN)
            except asyncio.CancelledError:
                reload.cancel()
                await asyncio.wait([reload])
                raise

    async def close(self) -> None:
        """Let go of everything; a worker that runs must have stopped."""
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.wait([self._catching_up])
        if self._worker is not None:
            await self._worker.close()
        if self._clerk is not None:
            await self._clerk.aclose()

    async def tick(self, *, drain: bool = False) -> Pass:
        """One pass of all duties and, with `drain`, of the jobs that wait: for hosts that only have cron.

        The node should not be one that ticks by itself: what it makes meanwhile would not be counted. Nothing is done
        while the worker configuration says that workers are disabled.
        """
        if not (await _config(self.app)).enabled:
            return Pass(0, 0, 0)
        done = await services.once(self.app, self._archive, self._served if drain else ())
        if drain:
            # Read before the worker starts: jobs that others create while it works are for the next pass.
            begun = await self.app.store.arun(ports.admin.clock())
            working = asyncio.ensure_future(self.worker.run())
            finished = asyncio.ensure_future(self._work_off(begun))
            await asyncio.wait([working, finished], return_when=asyncio.FIRST_COMPLETED)
            # Nobody waits for jobs beyond the pass itself: each runs to its end.
            self.worker.claimer.enabled = False
            while self.worker.held() and not working.done():  # noqa: ASYNC110 (as in `_see_to_the_end`)
                await asyncio.sleep(_GLANCE)
            self.worker.stop()
            await working
            if not finished.cancel():
                finished.result()
        if self._work is not None:
            await services.send_webhooks(self.app, self._webhooks, self._secrets)
        counts = self.worker.counts
        return Pass(counts["settled"], counts["failed"] + done.errors, done.ticks)

    async def dispatch(self, within: float) -> Pass:
        """The same through a worker that runs already; what is not done in so many seconds goes on by itself."""
        if not (await _config(self.app)).enabled:
            return Pass(0, 0, 0)
        before = dict(self.worker.counts)
        done = await services.once(self.app, self._archive, self._served)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._see_to_the_end(), within)
        counts = self.worker.counts
        failed = counts["failed"] - before["failed"]
        return Pass(counts["settled"] - before["settled"], failed + done.errors, done.ticks)

    @property
    def _served(self) -> set[tuple[str, int]]:
        """The keys and versions of the definitions that its worker runs."""
        return {(each.key, each.version) for each in self._definitions}

    async def _see_to_the_end(self) -> None:
        """Until what waits now was run, its children included."""
        begun = await self.app.store.arun(ports.admin.clock())
        while True:
            await self.app.store.arun(ports.jobs.promote())
            waits = await self.app.store.arun(ports.jobs.claimable(self._lanes, begun))
            await self._claim_was_heard()
            held = set(self.worker.held())
            while held & set(self.worker.held()):  # noqa: ASYNC110 (attempts end without an event of their own)
                await asyncio.sleep(_GLANCE)
            if not waits and (not held or not await self.app.store.arun(ports.jobs.claimable(self._lanes, begun))):
                return

    async def _claim_was_heard(self) -> None:
        """Until a claim that may be under way is answered: what it brings is held only then."""
        claims = self.worker.claimer.service
        before = claims.succeeded_at
        claims.wake()
        while claims.succeeded_at == before:  # noqa: ASYNC110 (a service says no more than when it succeeded)
            await asyncio.sleep(_GLANCE)

    async def _work_off(self, begun: int) -> None:
        """Until a look for jobs was in vain and none has ended since the look before: it might have made room.

        Jobs that were there when the pass began are done, their children included; those that others create later do
        not prolong it.
        """
        seen: Mapping[str, int] | None = None
        while seen != self.worker.counts:
            seen = dict(self.worker.counts)
            self.worker.claimer.idle.clear()
            await self.app.store.arun(ports.jobs.promote())
            while not self.worker.claimer.idle.is_set():
                self.worker.claimer.enabled = await self.app.store.arun(ports.jobs.claimable(self._lanes, begun))
                self.worker.claimer.wake()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.worker.claimer.idle.wait(), _LOOK)

    def duties(self) -> list[Duty]:
        """How it goes with everything that this node does again and again."""
        return self.worker.duties()

    async def _zygote(self) -> ZygoteProcess:
        zygote = await self.source.zygote(self.settings.allow_preload_threads)
        known, self.problems = self.problems, zygote.extras.get("problems", ())
        for each in self.problems:
            if each in known:
                continue
            place = each["file"] if each["line"] is None else f"{each['file']}:{each['line']}"
            kept = " (what it held before runs on)" if each.get("kept") else ""
            log.error("%s: %s%s", place, each["error"], kept)
        return zygote

    async def _zygote_for_reload(self) -> ZygoteProcess:
        """A zygote with the code as it is now; the log names an import that takes long, while the old code runs on."""
        starting = asyncio.ensure_future(self._zygote())
        self._starting = True
        try:
            await asyncio.wait([starting], timeout=_LONG_LOAD)
            if not starting.done():
                log.warning(
                    "%s is still being loaded after %.0f s; jobs run with the code from before. The next change of a "
                    "file starts over.", self.source.origin, _LONG_LOAD,
                )  # fmt: skip
            return await starting
        finally:
            self._starting = False
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])

    async def _another_zygote(self) -> ZygoteProcess:
        """One in place of a zygote that died; files may hold something else by now than what was registered."""
        zygote = await self._zygote()
        if zygote.definitions != self._definitions:
            self._catching_up = asyncio.ensure_future(self._reload_or_say())
        return zygote

    async def _reload_or_say(self) -> None:
        """Reload; what is wrong with the code is said, and a store that does not answer is waited for."""
        while True:
            try:
                await self.reload()
            except StoreUnavailable as error:
                log.warning("not loaded anew: %s; next try in %.0f s", error, _AGAIN)
                await asyncio.sleep(_AGAIN)
                continue
            except PenstockError as error:
                log.error("not loaded anew: %s", error)
            except Exception:
                log.exception("not loaded anew")
            return

    async def _apply_schedules(self, zygote: ZygoteProcess) -> None:
        unread = zygote.extras.get("unread", ())
        applied = await self.app._ado(self.app._apply_schedules(zygote.schedules, self.source.origin, unread))
        for warning in applied.warnings:
            log.warning("%s", warning)

    def _queue(self, clerk: Penstock) -> Queue:
        """What the worker listens to."""
        if not clerk.has_own_queue:
            return clerk.queue
        _ = clerk.queue  # An adapter that cannot be made is an error at the start.
        return RungQueue(clerk.guarded_queue, DatabaseQueue(clerk._bell), self._has_room)

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


async def _config(clerk: Penstock) -> WorkerConfig:
    return await stored_config(clerk.store, ports.admin, WorkerConfig())


async def tick(source: Source, *, drain: bool = False, **options: Unpack[NodeOptions]) -> Pass:
    """Load the code, make one pass, and leave; SIGTERM, SIGINT or SIGHUP end a drain as they end a worker."""
    node = Node(source, ticking=False, **options)
    try:
        await node.load()
        if drain:
            stop_signals.handle(node.stop)
        return await node.tick(drain=drain)
    finally:
        await node.close()


async def work(
    source: Source,
    *,
    watch: bool = False,
    ready: Callable[[Worker], None] | None = None,
    signals: bool = True,
    **options: Unpack[NodeOptions],
) -> None:
    """Run a worker until SIGTERM, SIGINT or SIGHUP; a second one is a hurry."""
    node = Node(source, **options)
    try:
        seen = await asyncio.to_thread(stamp, source.watched) if watch else {}
        worker = await node.load()
        if signals:
            stop_signals.handle(worker.stop)
        if ready is not None:
            ready(worker)
        watching = asyncio.ensure_future(node.watch(seen)) if watch else None
        try:
            await worker.run()
        finally:
            if watching is not None:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
    finally:
        await node.close()
