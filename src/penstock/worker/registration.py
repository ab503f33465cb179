"""Registration: a worker and its code are made known to the store, and made known again when the lease was lost."""

from __future__ import annotations

import asyncio
import os
import time

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import IdSource
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.store import Store
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.runtime.service import log
from penstock.runtime.stop_signals import StopRequest
from penstock.runtime.tasks import Tasks
from penstock.worker.attempt import Stop
from penstock.worker.claimer import Claimer
from penstock.worker.hooks import Hooks
from penstock.worker.inline import keep_records
from penstock.worker.job_environment import JobEnvironment
from penstock.worker.lease import Lease
from penstock.worker.live_config import LiveConfig
from penstock.worker.loaded_code import LoadedCode, register
from penstock.worker.pool import Pools
from penstock.worker.running_attempts import RunningAttempts
from penstock.worker.unstarted_jobs import UnstartedJobs
from penstock.worker.zygote_supervisor import ZygoteSupervisor

_RETRY_SECONDS = 0.5


class Registration:
    """Registers a worker with the code that it has loaded, and keeps it registered."""

    def __init__(
        self,
        store: Store,
        admin: AdminPort,
        config: LiveConfig,
        environment: JobEnvironment,
        pools: Pools,
        unstarted: UnstartedJobs,
        claimer: Claimer,
        attempts: RunningAttempts,
        hooks: Hooks,
        lease: Lease,
        zygotes: ZygoteSupervisor,
        stop: StopRequest,
        inline: Application | None,
    ) -> None:
        self.loaded: LoadedCode = LoadedCode({}, inline)
        self._store = store
        self._admin = admin
        self._config = config
        self._environment = environment
        self._pools = pools
        self._unstarted = unstarted
        self._claimer = claimer
        self._attempts = attempts
        self._hooks = hooks
        self._lease = lease
        self._zygotes = zygotes
        self._stop = stop
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
        self._changing = asyncio.Lock()
        self._recoveries = Tasks()

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes that the worker serves: while no zygote can be started, those of inline definitions only."""
        loaded = self.loaded
        return tuple(sorted(loaded.definitions if self._zygotes.problem is None else loaded.inline_lanes))

    async def register(self) -> None:
        """Register the worker under a new id, and begin its lease."""
        async with self._changing:
            self._use(await register(self._store, self._admin, self._zygotes.present.definitions, self.loaded.inline))
            await self._config.read(self.loaded.definitions)
            worker = self._config.settings.introduction(self._ids.new_id(), self.lanes)
            await self._lease.begin(worker)
            if worker.lanes != self.lanes:
                self._lease.announce(self.lanes)
            self._claimer.begin_lease()
            log.info("worker %s runs %d definition(s) with %d slot(s)", worker.id, len(worker.lanes), worker.slots)

    async def adopt(self, zygote: ZygoteProcess, inline: Application | None) -> None:
        """Run other code from now on; attempts that run keep the code that they began with."""
        async with self._changing:
            self._environment.admit(zygote.definitions)
            loaded = await register(self._store, self._admin, zygote.definitions, inline)
            await self._config.read(loaded.definitions, self._config.version)
            self._zygotes.adopt(zygote)
            zygote.trust(self._lease.trusted_until)
            self._use(loaded)
            self._unstarted.return_all()
            self._lease.announce(self.lanes)
            self._claimer.wake()

    def recover(self, worker: str, why: str) -> None:
        """Begin another lease in place of one that was lost."""
        self._recoveries.add(self._recover(worker, why))

    def stop_recovering(self) -> None:
        self._recoveries.cancel()

    async def _recover(self, worker: str, why: str) -> None:
        """Kill what runs and return what waits, because the lease cannot be proved; then register again."""
        if worker != self._lease.worker_id:
            return
        log.error("worker %s lost its lease: %s", worker, why)
        self._attempts.kill_all(Stop.UNTRUSTED)
        if self._stop.requested:
            return
        self._lease.give_up()
        self._unstarted.return_all()
        await self._register_again(worker)

    async def _register_again(self, worker: str) -> None:
        while not self._stop.requested:
            try:
                await self._attempts.wait(None, self._stop.immediate)
                await self.register()
            except Exception as error:
                if not isinstance(error, StoreUnavailable):
                    log.exception("worker %s cannot register again", worker)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._claimer.wake()
                return

    def _use(self, loaded: LoadedCode) -> None:
        loaded.replace(self.loaded, self._config.in_force)
        self.loaded = loaded
        if loaded.inline is not None:
            keep_records()
        self._pools.inline.lanes, self._pools.process.lanes = loaded.inline_lanes, loaded.process_lanes
        self._hooks.lanes = loaded.hooked
