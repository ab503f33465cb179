"""Claiming: a worker fills its free slots with jobs, whenever there may be some."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from penstock.domain.errors import LeaseLost, StoreUnavailable
from penstock.domain.job import Claimed, Held
from penstock.runtime.pace import Pace
from penstock.runtime.service import Service
from penstock.runtime.stop_signals import StopRequest
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.claimed_job import ClaimedJob, JobDependencies
from penstock.worker.lease import Lease
from penstock.worker.live_config import LiveConfig
from penstock.worker.loaded_code import LoadedCode
from penstock.worker.pool import Pool, Pools
from penstock.worker.queue_messages import QueueMessages
from penstock.worker.settler import Settler
from penstock.worker.unstarted_jobs import UnstartedJobs
from penstock.worker.zygote_supervisor import ZygoteSupervisor

_PAUSE_SECONDS, _REFILL_SECONDS = 1.0, 0.01


class Claimer:
    """Claims jobs for the free slots of a worker."""

    def __init__(
        self,
        requests: ClaimRequests,
        pools: Pools,
        unstarted: UnstartedJobs,
        settler: Settler,
        messages: QueueMessages,
        lease: Lease,
        zygotes: ZygoteSupervisor,
        config: LiveConfig,
        pace: Pace,
        stop: StopRequest,
        counts: dict[str, int],
        *,
        dependencies: Callable[[], JobDependencies],
        loaded: Callable[[], LoadedCode],
        held: Callable[[], Sequence[Held]],
        start: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`held`: the attempts that the worker has claimed and not settled; `start` starts what waits for a slot."""
        self.service: Service = Service("claim", self.tick)
        self.enabled: bool = True
        """Whether jobs shall be claimed; those that run go on in any case."""
        self.idle: asyncio.Event = asyncio.Event()
        """Set once no job was found while none ran, or while none was to be claimed."""
        self._requests = requests
        self._pools = pools
        self._unstarted = unstarted
        self._settler = settler
        self._messages = messages
        self._lease = lease
        self._zygotes = zygotes
        self._config = config
        self._pace = pace
        self._stop = stop
        self._counts = counts
        self._dependencies = dependencies
        self._loaded = loaded
        self._held = held
        self._start = start
        self._clock = clock
        self._release_due = True
        """Whether the store may name jobs as this worker's that the worker does not hold."""
        self._paused_until = 0.0
        self._idle_resets = 0

    def wake(self) -> None:
        """Claim now."""
        self.service.wake()

    def reset_idle(self) -> None:
        """Clear `idle` until a claim that begins from now on has found no job."""
        self._idle_resets += 1
        self.idle.clear()

    def release_unheld(self) -> None:
        """Before the next claim, release the jobs that the store has given to this worker and that it does not hold."""
        self._release_due = True

    def begin_lease(self) -> None:
        """A new lease has no jobs yet."""
        self._release_due = False

    def pause(self) -> None:
        """Claim nothing for a moment: an attempt could not begin, and the next one could not either."""
        self._paused_until = self._clock() + _PAUSE_SECONDS

    def refill(self, pool: Pool) -> None:
        """Fill a free slot: now when many are free, else in a moment, together with the next ones."""
        if pool.busy:
            self.service.wake_soon(_REFILL_SECONDS)
        else:
            self.service.wake()

    async def tick(self) -> float:
        worker = self._lease.worker_id
        if self._stop.requested or not worker:
            return self._config.settings.poll
        if (pause := self._paused_until - self._clock()) > 0:
            return pause
        if self._settler.is_overloaded:
            return _REFILL_SECONDS
        self._pools.close(not self.enabled)
        resets = self._idle_resets
        messages = self._messages.take()
        try:
            if self._release_due:
                await self._requests.release_unheld(worker, self._held())
                self._release_due = False
            # A job that is claimed without a zygote would wait for one, while another worker may be free.
            more = self._zygotes.present.alive and await self._fill(worker, self._pools.process)
            more |= await self._fill(worker, self._pools.inline)
        except LeaseLost as error:
            self._lease.lose(str(error))
            return self._config.settings.poll
        except StoreUnavailable:
            # The answer to a claim may have been lost.
            self._release_due = True
            raise
        await self._messages.acknowledge(messages)
        if not more and resets == self._idle_resets and self._has_nothing():
            self.idle.set()
        return 0.0 if more else self._requests.owed or self._rest()

    def _has_nothing(self) -> bool:
        return not self._held() and not (self.enabled and self._zygotes.is_expected)

    def _rest(self) -> float:
        return self._pace.rest_between_claims(self._config.settings.poll, notified=self._messages.are_pushed)

    async def _fill(self, worker: str, pool: Pool) -> bool:
        """Claim what the pool has room for; True when there may be more jobs."""
        claimed, more = await self._requests.take(worker, pool)
        self._counts["claimed"] += len(claimed)
        self._add(worker, pool, claimed)
        if self._stop.requested:
            self._unstarted.return_all()
        # Not here: the next claim should be under way already while these start.
        asyncio.get_running_loop().call_soon(self._start)
        return more and pool.room > 0

    def _add(self, worker: str, pool: Pool, claimed: Sequence[Claimed]) -> None:
        dependencies = self._dependencies()
        definitions = self._config.all_in_force({each.lane for each in claimed}, self._loaded().definitions)
        for each in claimed:
            if (definition := definitions.get(each.lane)) is None:
                # Its code was removed while the claim was under way.
                self._release_due = True
                continue
            job = ClaimedJob(each, definition, worker, dependencies, not (pool.ahead or each.lost))
            (self._pools.process if each.lost else pool).add(job)
