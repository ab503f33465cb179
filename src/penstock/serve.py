"""Where the parts are put together: a zygote, a store, a queue, a worker and its duties, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.app import Penstock
from penstock.core.definition import Definition
from penstock.core.errors import InvalidInput, PenstockError, StoreUnavailable
from penstock.engine.housekeeper import Housekeeper
from penstock.engine.scheduler import Scheduler
from penstock.engine.service import Service, log
from penstock.engine.settings import WorkerSettings
from penstock.engine.worker import Worker
from penstock.engine.zygote_process import ZygoteProcess
from penstock.errands import StoreErrands
from penstock.sources import Source, Stamp, changes, stamp
from penstock.stores import ports

_AGAIN = 2.0
_GRACE = 1_000_000
_MOST_PASSES = 1000


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass of `penstock tick` has done."""

    processed: int
    """Attempts that were run and settled."""
    errors: int
    """Attempts that failed, and schedules that could not be ticked."""
    ticks: int


class Node:
    """One worker with everything around it; its code can be loaded anew while it works."""

    def __init__(self, source: Source, *, store: str | None = None, settings: WorkerSettings | None = None) -> None:
        self.source = source
        self.settings = settings or WorkerSettings()
        self.problems: Sequence[Mapping[str, Any]] = ()
        """What could not be loaded: file, line and error of each."""
        self._store = store
        self._clerk: Penstock | None = None
        self._worker: Worker | None = None
        self._loading = asyncio.Lock()
        self._definitions: Sequence[Definition] = ()
        self._catching_up: asyncio.Future[None] | None = None

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

    async def load(self) -> Worker:
        """Load the code, open the store, make definitions and schedules known; `worker.run()` then works."""
        zygote = await self._zygote()
        try:
            clerk = Penstock(**self._address(zygote.address))
            inline = self.source.inline(zygote.definitions)
            await asyncio.to_thread(lambda: clerk.store)
            worker = Worker(
                zygote, self._another_zygote, clerk.store, clerk.queue, ports.jobs, ports.admin, StoreErrands(clerk),
                settings=self.settings, inline=inline, duties=lambda worker: self._duties(clerk, worker),
            )  # fmt: skip
            self._clerk, self._worker, self._definitions = clerk, worker, zygote.definitions
            await clerk.store.arun(ports.admin.register(zygote.definitions))
            await self._apply_schedules(zygote)
        except BaseException:
            await zygote.close()
            raise
        return worker

    async def reload(self) -> None:
        """Load the code anew; attempts that run keep theirs. What cannot be loaded leaves everything as it is."""
        async with self._loading:
            zygote = await self._zygote()
            try:
                await self.worker.adopt(zygote, self.source.inline(zygote.definitions))
            except BaseException:
                await zygote.close()
                raise
            self._definitions = zygote.definitions
            await self._apply_schedules(zygote)
            log.info("loaded anew: %d definition(s)", len(zygote.definitions))

    async def watch(self, seen: Stamp) -> None:
        """Reload whenever files are not as last seen; an error is said and the last good code stays."""
        while True:
            try:
                async with contextlib.aclosing(changes(self.source.watched, seen)) as changed:
                    async for _ in changed:
                        await self._reload_or_say()
            except (OSError, RuntimeError) as error:
                log.error("%s cannot be watched: %s; next try in %.0f s", self.source.watched, error, _AGAIN)
                await asyncio.sleep(_AGAIN)

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
        """One pass of all duties and, with `drain`, of the jobs that wait: for hosts that only have cron."""
        store, scheduler = self.app.store, self._scheduler(self.app)
        housekeeper = Housekeeper(store, ports.admin, ports.feed, lambda: "")
        for _ in range(_MOST_PASSES):
            if not (await store.arun(ports.jobs.reclaim(_GRACE, random.random()))).workers:
                break
        for _ in range(_MOST_PASSES):
            if await scheduler.tick() > 0:
                break
        for _ in range(_MOST_PASSES):
            if not await store.arun(ports.jobs.promote()):
                break
        for _ in range(_MOST_PASSES):
            if not await housekeeper.once():
                break
        if drain:
            working = asyncio.ensure_future(self.worker.run())
            done = asyncio.ensure_future(self._work_off())
            await asyncio.wait([working, done], return_when=asyncio.FIRST_COMPLETED)
            self.worker.stop()
            await working
            if not done.cancel():
                done.result()
        counts = self.worker.counts
        return Pass(counts["settled"], counts["failed"] + scheduler.errors, scheduler.ticked)

    async def _work_off(self) -> None:
        """Until a look for jobs was in vain and none has ended since the look before: it might have made room."""
        seen: Mapping[str, int] | None = None
        while seen != self.worker.counts:
            seen = dict(self.worker.counts)
            self.worker.idle.clear()
            await self.app.store.arun(ports.jobs.promote())
            self.worker.claimer.wake()
            await self.worker.idle.wait()

    def _scheduler(self, clerk: Penstock) -> Scheduler:
        return Scheduler(
            clerk.store,
            ports.schedules,
            ports.admin,
            lambda schedule, instant: clerk._ado(clerk._tick_draft(schedule, instant)),
            clerk.queue.publish,
        )

    def _duties(self, clerk: Penstock, worker: Worker) -> list[Service]:
        """What a worker does beside running jobs, in so many lines."""
        housekeeper = Housekeeper(clerk.store, ports.admin, ports.feed, lambda: worker.id)
        return [Service("schedule", self._scheduler(clerk).tick), Service("housekeep", housekeeper.tick)]

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

    def _address(self, found: Mapping[str, Any] | None) -> dict[str, Any]:
        if self._store is not None:
            return {**(found or {}), "store": self._store}
        if found is None:
            raise InvalidInput(
                f"{self.source.origin!r} keeps its jobs in memory or in a store object, which a worker cannot open.",
                hint="Give a URL: --store sqlite:///jobs.db",
            )
        return dict(found)


async def tick(
    source: Source, *, store: str | None = None, settings: WorkerSettings | None = None, drain: bool = False
) -> Pass:
    """Load the code, make one pass, and leave."""
    node = Node(source, store=store, settings=settings)
    try:
        await node.load()
        return await node.tick(drain=drain)
    finally:
        await node.close()


async def work(
    source: Source,
    *,
    store: str | None = None,
    settings: WorkerSettings | None = None,
    watch: bool = False,
    ready: Callable[[Worker], None] | None = None,
    signals: bool = True,
) -> None:
    """Run a worker until SIGTERM or SIGINT; a second one is a hurry."""
    node = Node(source, store=store, settings=settings)
    try:
        seen = await asyncio.to_thread(stamp, source.watched) if watch else {}
        worker = await node.load()
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, worker.stop)
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
