"""A worker: claims jobs, runs and settles them, and keeps its lease.

This file puts the parts together: `claimer` claims jobs, `running_attempts` runs them, `settler` writes their endings,
`registration` and `lease` keep the worker known to the store, `shutdown` ends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.context import JobRequestsByJob
from penstock.domain.job import Held
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.jobs import JobsPort
from penstock.domain.ports.queue import Queue
from penstock.domain.ports.store import Store
from penstock.domain.worker import Duty, HeartbeatAnswer
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.runtime import processes
from penstock.runtime.pace import Pace
from penstock.runtime.service import BackgroundServices, Service, log
from penstock.runtime.stop_signals import StopRequest
from penstock.runtime.tasks import Tasks
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.claimed_job import JobDependencies
from penstock.worker.claimer import Claimer
from penstock.worker.hooks import Hooks
from penstock.worker.inline_runner import InlineRunner
from penstock.worker.job_environment import JobEnvironment
from penstock.worker.lease import Lease
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pools
from penstock.worker.queue_messages import QueueMessages
from penstock.worker.recorder import Recorder
from penstock.worker.registration import Registration
from penstock.worker.running_attempts import RunningAttempts
from penstock.worker.settlement_effects import SettlementEffects
from penstock.worker.settler import Settler
from penstock.worker.shutdown import Shutdown
from penstock.worker.unstarted_jobs import UnstartedJobs
from penstock.worker.zygote_supervisor import ZygoteSupervisor

_RELEASE_EVERY = 10
"""Heartbeats after which jobs are released that the store gives to this worker and that it does not hold."""
_FRESH_SECONDS = 0.2


class Worker:
    """Runs the definitions that its zygote has loaded until it is asked to stop."""

    def __init__(
        self,
        zygote: ZygoteProcess,
        new_zygote: Callable[[], Awaitable[ZygoteProcess]],
        store: Store,
        queue: Queue,
        jobs: JobsPort,
        admin: AdminPort,
        errands: JobRequestsByJob,
        background: Callable[[Worker], BackgroundServices],
        *,
        settings: WorkerSettings | None = None,
        inline: Application | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        settings = settings or WorkerSettings()
        self.store = store
        self.pace: Pace = Pace()
        self.counts: dict[str, int] = {"claimed": 0, "settled": 0, "failed": 0, "refused": 0}
        self._stop = StopRequest()
        self._tasks = Tasks()
        self._config = LiveConfig(store, admin, settings, self._on_config)
        self._environment = JobEnvironment(settings, zygote.definitions)
        self._zygotes = ZygoteSupervisor(zygote, new_zygote, self._on_zygote, own_process=settings.own_process)
        self._messages = QueueMessages(queue, lambda: self.settings.poll, self._on_messages)
        self._requests = ClaimRequests(store, jobs, self._config, clock=clock)
        self._pools = pools = Pools(settings, clock=clock)
        self._recorder = Recorder(store, jobs, lambda held: self._attempts.kill_refused(held), admin.clock)
        self._settler = Settler(
            store, jobs, lambda report, endings: self._effects.apply(report, endings), lambda: pools.process.busy,
            self._tasks.add, clock=clock,
        )  # fmt: skip
        self._unstarted = UnstartedJobs(pools, self._settler)
        self.lease: Lease = Lease(
            store, jobs, settings,
            trust=lambda until: self._zygotes.trust(until), answered=self._on_heartbeat,
            lost=lambda worker, why: self._registration.recover(worker, why), outdated=self.stop,
            unkillable=lambda: settings.own_process and self._inline.runs_something(),
            attempt_in=lambda task: self._inline.attempt_in(task), duties=self.duties,
            figures=lambda: self._requests.figures(self._zygotes.forks, self.counts["refused"]),
        )  # fmt: skip
        self._hooks = Hooks(
            store, jobs, admin, lambda: self._zygotes.present, self._environment, errands, settings.hook_timeout,
            self._config.in_force,
        )  # fmt: skip
        self.claimer: Claimer = Claimer(
            self._requests, pools, self._unstarted, self._settler, self._messages, self.lease, self._zygotes,
            self._config, self.pace, self._stop, self.counts,
            dependencies=lambda: JobDependencies(
                store, jobs, admin, self._recorder, errands, self._config.custom, self._environment.secrets
            ),
            loaded=lambda: self._registration.loaded, held=self.held,
            start=lambda: self._attempts.start_waiting(), clock=clock,
        )  # fmt: skip
        self._attempts = RunningAttempts(
            pools, self._unstarted, self.claimer, self._requests, self._zygotes, self._environment, self._recorder,
            self._settler, self._hooks, self.lease, self._stop, self._tasks, self.counts,
            start_inline=lambda: self._inline.start_waiting(),
        )  # fmt: skip
        self._registration = Registration(
            store, admin, self._config, self._environment, pools, self._unstarted, self.claimer, self._attempts,
            self._hooks, self.lease, self._zygotes, self._stop, inline,
        )  # fmt: skip
        self._inline = InlineRunner(
            pools.inline, self._tasks, self._recorder, self._settler, loaded=lambda: self._registration.loaded,
            finish=self._attempts.run_inline, freed=partial(self.claimer.refill, pools.inline),
            trusted_until=lambda: self.lease.trusted_until,
        )  # fmt: skip
        self._shutdown = Shutdown(
            store, jobs, self._config, self._attempts, self._unstarted, self._hooks, self._settler, self.lease,
            self._stop,
        )  # fmt: skip
        self._hook_service = Service("hooks", self._hooks.tick, counting=self._hooks)
        self._background = background(self)
        self._effects = SettlementEffects(
            self._config, pools, self._attempts, self.claimer, self._hooks, self.counts,
            promote=self._background.promote.wake, call_hooks=self._hook_service.wake,
        )  # fmt: skip
        self.services: list[Service] = [
            self.claimer.service,
            # After an outage endings must come in before other workers take this one for dead.
            Service("settle", self._settler.tick, longest_pause=0.5),
            Service("record", self._recorder.tick),
            self._hook_service,
            *self._background.all,
        ]

    @property
    def id(self) -> str:
        """The worker's id in the store; empty while it has no lease."""
        return self.lease.worker_id

    @property
    def settings(self) -> WorkerSettings:
        """The settings in force: its own, with the values that operators have configured."""
        return self._config.settings

    @property
    def zygote(self) -> ZygoteProcess:
        """The process that has the present code loaded."""
        return self._zygotes.present

    def held(self) -> list[Held]:
        """The attempts that it has claimed and not settled."""
        return self._attempts.held()

    def duties(self) -> list[Duty]:
        """The last success and the errors of each service; from any thread."""
        return [*(each.report() for each in self.services), self._zygotes.report()]

    def publish_promoted(self, job_ids: Sequence[str]) -> None:
        """Claim promoted jobs, and let workers on other hosts know about them."""
        self._messages.publish(job_ids)
        self.claimer.wake()

    def stop(self) -> None:
        """Claim nothing more and drain; a second call kills what runs. Only from the loop's thread."""
        self._stop.make()
        self.claimer.wake()

    async def adopt(self, zygote: ZygoteProcess, inline: Application | None) -> None:
        """Run other code from now on; attempts that run keep the code that they began with."""
        await self._registration.adopt(zygote, inline)

    async def run(self) -> None:
        """Work until `stop()` was called and every attempt has ended or was released."""
        self._zygotes.open()
        self._environment.open()
        try:
            await self._registration.register()
            processes.tune_memory(own=self.settings.own_process)
            await self._work()
        finally:
            await self.close()
            self._registration.loaded.close()
            await asyncio.to_thread(self._environment.close)
            if self._pools.inline.running:
                log.critical("%d inline job(s) do not stop", len(self._pools.inline.running))
                self.lease.end_own_process()

    async def close(self) -> None:
        """End the zygote, and with it every attempt in a process of its own."""
        await self._zygotes.close()

    async def _work(self) -> None:
        loops = [asyncio.ensure_future(each.run()) for each in self.services]
        claiming = loops[self.services.index(self.claimer.service)]
        loops += [asyncio.ensure_future(self._messages.listen()), asyncio.ensure_future(self._zygotes.keep())]
        try:
            await self._stop.event.wait()
            await self._shutdown.drain()
            self.lease.check_schema()
        finally:
            self._registration.stop_recovering()
            await self._shutdown.end(self.services, claiming, loops)

    def _on_messages(self) -> None:
        """The queue has announced jobs or events."""
        self.claimer.wake()
        self._background.promote.wake_soon()
        if self._hooks.lanes:
            self._hook_service.wake_soon()
        for service in self._background.others:
            service.wake_if_older(_FRESH_SECONDS)
        if len(self._attempts):
            self.lease.beat_soon()

    def _on_heartbeat(self, answer: HeartbeatAnswer) -> None:
        """The store has answered a heartbeat."""
        for service in self.services if self.pace.update(answer) else ():
            service.wake()
        for held in answer.cancels:
            self._attempts.cancel(held)
        if answer.controls != self._config.version:
            self._tasks.add(self._config.catch_up(self._registration.loaded.definitions, answer.controls))
        if self.lease.beats % _RELEASE_EVERY == 0:
            self.claimer.release_unheld()
            self.claimer.wake()

    def _on_config(self) -> None:
        """Operators have changed the configuration of workers, or of a definition."""
        self._pools.resize(self.settings)
        self._environment.limits = self._config.config.limits
        self._registration.loaded.set_log_levels(self._config.in_force)
        self.lease.announce_slots(self.settings.slots)
        if not self._config.config.enabled or self._config.overridden:
            self._unstarted.return_all()
        self.claimer.wake()

    def _on_zygote(self) -> None:
        """There is another zygote, or there will be none for a while."""
        self._zygotes.trust(self.lease.trusted_until)
        self.lease.announce(self._registration.lanes)
        self._attempts.start_waiting()
        self.claimer.wake()
