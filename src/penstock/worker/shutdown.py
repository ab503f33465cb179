"""Stopping: a worker drains, stops what still runs, kills the rest, and ends its lease in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.store import Store
from penstock.runtime.service import Service, log
from penstock.runtime.stop_signals import StopRequest
from penstock.worker.attempt import Stop
from penstock.worker.hooks import Hooks
from penstock.worker.lease import Lease
from penstock.worker.live_config import LiveConfig
from penstock.worker.running_attempts import RunningAttempts
from penstock.worker.settler import Settler
from penstock.worker.unstarted_jobs import UnstartedJobs

_STOP_SECONDS = 10.0


class Shutdown:
    """Ends the work of one worker."""

    def __init__(
        self,
        store: Store,
        jobs: JobsPort,
        config: LiveConfig,
        attempts: RunningAttempts,
        unstarted: UnstartedJobs,
        hooks: Hooks,
        settler: Settler,
        lease: Lease,
        stop: StopRequest,
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._config = config
        self._attempts = attempts
        self._unstarted = unstarted
        self._hooks = hooks
        self._settler = settler
        self._lease = lease
        self._stop = stop

    async def drain(self) -> None:
        """Wait for running attempts, then ask them to stop, then kill them; those that have not ended are released."""
        self._unstarted.return_all()
        log.info("stopping: %d job(s) still run", len(self._attempts))
        await self._attempts.wait(self._config.settings.drain, self._stop.immediate)
        if self._attempts and not self._stop.immediate.is_set():
            self._attempts.stop_all(Stop.SHUTDOWN, self._config.settings.stop_grace)
            await self._attempts.wait(self._config.settings.stop_grace, self._stop.immediate)
        self._attempts.kill_all(Stop.SHUTDOWN)
        await self._attempts.wait(_STOP_SECONDS)
        await self._hooks.drain(self._config.settings.hook_timeout)

    async def end(
        self, services: Sequence[Service], claiming: asyncio.Future[None], loops: Sequence[asyncio.Future[None]]
    ) -> None:
        """Stop the services, release what the store still gives to this worker, and end its lease."""
        for service in services:
            service.stop()
        self._settler.wake()
        # A claim that is under way may still bring jobs, which have to be returned.
        await asyncio.wait([claiming], timeout=_STOP_SECONDS)
        await self._end_lease()
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._lease.close()

    async def _end_lease(self) -> None:
        worker = self._lease.worker_id
        if not worker:
            return
        try:
            await asyncio.wait_for(self._sign_off(worker), _STOP_SECONDS)
        except Exception as error:
            log.warning("the store does not know yet that this worker has stopped: %s", error)

    async def _sign_off(self, worker: str) -> None:
        await self._store.arun(self._jobs.release_unheld(worker, []))
        await self._store.arun(self._jobs.end_worker(worker))
        log.info("worker %s has stopped", worker)
