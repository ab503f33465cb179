"""A worker: claims jobs, has them run, settles them, and keeps its lease meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.context import ErrandsByJob
from penstock.domain.errors import LeaseLost, StoreUnavailable
from penstock.domain.ids import IdSource
from penstock.domain.job import Held
from penstock.domain.outcome import Cause, Outcome
from penstock.domain.ports.store import AdminPort, JobsPort, Queue, Store
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import Duty, HeartbeatAnswer, SettleReport
from penstock.execution.handlers import Application
from penstock.isolation.zygote_process import ZygoteProcess
from penstock.runtime import processes, stop_signals
from penstock.runtime.log_lines import JOB, about
from penstock.runtime.pace import Pace
from penstock.runtime.service import Service, log
from penstock.runtime.tasks import Tasks
from penstock.worker import hooks
from penstock.worker.attempt import Attempt, Stop
from penstock.worker.background_services import BackgroundServices
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.claimed_job import ClaimedJob, JobDependencies
from penstock.worker.inline import InlineAttempt, take_records
from penstock.worker.inline_runner import InlineRunner
from penstock.worker.job_environment import JobEnvironment
from penstock.worker.lease import Lease
from penstock.worker.live_config import LiveConfig
from penstock.worker.loaded_code import LoadedCode, register
from penstock.worker.pool import Pool
from penstock.worker.queue_messages import QueueMessages
from penstock.worker.recorder import Recorder
from penstock.worker.settler import Ending, Settler
from penstock.worker.zygote_supervisor import ZygoteSupervisor

_STRAY_EVERY = 10
_STOP_SECONDS = 10.0
_FRESH_SECONDS = 0.2
_REST_SECONDS, _REFILL_SECONDS = 1.0, 0.01

Running = Attempt | InlineAttempt


class Worker:
    """Runs the definitions that its zygote has loaded until it is told to stop."""

    def __init__(
        self,
        zygote: ZygoteProcess,
        new_zygote: Callable[[], Awaitable[ZygoteProcess]],
        store: Store,
        queue: Queue,
        jobs: JobsPort,
        admin: AdminPort,
        errands: ErrandsByJob,
        background: Callable[[Worker], BackgroundServices],
        *,
        settings: WorkerSettings | None = None,
        inline: Application | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings: WorkerSettings = settings or WorkerSettings()
        self.store = store
        self._messages = QueueMessages(queue, lambda: self.settings.poll, self._heed_messages)
        self._jobs = jobs
        self._admin = admin
        self._errands = errands
        self._clock = clock
        self._replacing = asyncio.Lock()
        self._zygotes = ZygoteSupervisor(zygote, new_zygote, self._heed_zygotes, own_process=self.settings.own_process)
        self._loaded = LoadedCode({}, inline)
        self._ids = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)
        self._environment = JobEnvironment(self.settings, zygote.definitions)
        self._controls = LiveConfig(store, admin, self.settings, self._heed_controls)
        self._claims = ClaimRequests(store, jobs, self._controls, clock=clock)
        self._forked = Pool(self.settings.slots, self.settings.ahead, clock=clock)
        self._inlined = Pool(self.settings.inline_slots, self.settings.ahead, losses=False, clock=clock)
        self.pace: Pace = Pace()
        self._running: dict[Held, Running] = {}
        self._tasks = Tasks()
        self._loose = Tasks()
        self._stray = True
        self._rests_until = 0.0
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self.lease: Lease = Lease(
            store,
            jobs,
            self.settings,
            trust=lambda until: self._zygotes.trust(until),
            pulse=self._hear_pulse,
            lost=lambda worker, why: self._loose.add(self._lose_lease(worker, why)),
            outdated=self.stop,
            unkillable=lambda: self.settings.own_process and self._turns.run_something(),
            occupant=lambda task: self._turns.occupant(task),
            duties=self.duties,
            figures=lambda: self._claims.figures(self._zygotes.forks, self.counts["refused"]),
        )
        self._recorder = Recorder(store, jobs, self._refused, admin.clock)
        self._settler = Settler(store, jobs, self._settled, lambda: self._forked.busy, self._tasks.add, clock=clock)
        self._turns = InlineRunner(
            self._inlined, self._tasks, self._recorder, self._settler, loaded=lambda: self._loaded, finish=self._finish,
            freed=partial(self._refill, self._inlined), trusted_until=lambda: self.lease.trusted_until,
        )  # fmt: skip
        self._hooks = hooks.Hooks(
            store, jobs, admin, lambda: self._zygotes.present, self._environment, errands, self.settings.hook_timeout,
            self._controls.in_force,
        )  # fmt: skip
        self.claimer: Service = Service("claim", self._claim)
        self._hook_service = Service("hooks", self._hooks.tick, counting=self._hooks)
        self._background = background(self)
        self.services: list[Service] = [
            self.claimer,
            # After an outage endings must come in before anybody may take this worker for dead.
            Service("settle", self._settler.tick, longest_pause=0.5),
            Service("record", self._recorder.tick),
            self._hook_service,
            *self._background.all,
        ]
        self.counts: dict[str, int] = {"claimed": 0, "settled": 0, "failed": 0, "refused": 0}
        self.idle: asyncio.Event = asyncio.Event()
        """Set once it has looked for jobs in vain while none ran, or was not to look."""
        self.claiming = True
        """Whether it shall look for jobs; what runs goes on in any case."""

    @property
    def id(self) -> str:
        """Who this worker is to the store; empty while it has no lease."""
        return self.lease.worker

    @property
    def lanes(self) -> tuple[int, ...]:
        """The lanes that it serves: while no zygote can be started, those of inline definitions only."""
        loaded = self._loaded
        return tuple(sorted(loaded.definitions if self._zygotes.problem is None else loaded.inline_lanes))

    @property
    def zygote(self) -> ZygoteProcess:
        """The process that has the code loaded at present."""
        return self._zygotes.present

    def duties(self) -> list[Duty]:
        """How it goes with each of its services: the last success, the errors; from any thread."""
        return [*(each.report() for each in self.services), self._zygotes.report()]

    def publish_promoted(self, job_ids: Sequence[str]) -> None:
        """Claim promoted jobs, and let other hosts know about them."""
        self._messages.publish(job_ids)
        self.claimer.wake()

    def stop(self) -> None:
        """Claim nothing any more and drain; a second call goes straight to the kill. Only from the loop's thread."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self.claimer.wake()

    async def run(self) -> None:
        """Work until `stop()` was called and everything that ran has ended or was given back."""
        self._zygotes.open()
        self._environment.open()
        try:
            await self._register()
            processes.settle_in(own=self.settings.own_process)
            loops = [asyncio.ensure_future(each.run()) for each in self.services]
            loops += [asyncio.ensure_future(self._messages.listen()), asyncio.ensure_future(self._zygotes.keep())]
            try:
                await self._stopping.wait()
                await self._drain()
                self.lease.check_schema()
            finally:
                await self._end(loops)
        finally:
            await self.close()
            self._loaded.close()
            await asyncio.to_thread(self._environment.close)
            if self._inlined.running:
                log.critical("%d inline job(s) do not stop", len(self._inlined.running))
                self.lease.end_own_process()

    async def close(self) -> None:
        """End the zygote, and with it whatever runs."""
        await self._zygotes.close()

    # Registration and lease

    async def adopt(self, zygote: ZygoteProcess, inline: Application | None) -> None:
        """Go on with other code: what runs keeps the old one, what is claimed from now on gets the new."""
        async with self._replacing:
            self._environment.admit(zygote.definitions)
            loaded = await register(self.store, self._admin, zygote.definitions, inline)
            await self._controls.read(loaded.definitions, self._controls.version)
            self._zygotes.adopt(zygote)
            zygote.trust(self.lease.trusted_until)
            self._use(loaded)
            self._give_back_waiting()
            self.lease.tell(self.lanes)
            self.claimer.wake()

    def _use(self, loaded: LoadedCode) -> None:
        loaded.follow(self._loaded, self._controls.in_force)
        self._loaded = loaded
        if loaded.inline is not None:
            take_records()
        self._inlined.lanes, self._forked.lanes = loaded.inline_lanes, loaded.process_lanes
        self._hooks.lanes = loaded.hooked

    async def _register(self) -> None:
        """Introduce this worker under a new id, and begin its lease."""
        async with self._replacing:
            self._use(await register(self.store, self._admin, self._zygotes.present.definitions, self._loaded.inline))
            await self._controls.read(self._loaded.definitions)
            worker = self.settings.introduction(self._ids.new_id(), self.lanes)
            await self.lease.begin(worker)
            if worker.lanes != self.lanes:
                self.lease.tell(self.lanes)
            self._stray = False
            log.info("worker %s runs %d definition(s) with %d slot(s)", worker.id, len(worker.lanes), worker.slots)

    def _hear_pulse(self, pulse: HeartbeatAnswer) -> None:
        for service in self.services if self.pace.update(pulse) else ():
            service.wake()
        for held in pulse.cancels:
            self._cancel(held)
        if pulse.controls != self._controls.version:
            self._tasks.add(self._controls.catch_up(self._loaded.definitions, pulse.controls))
        if self.lease.beats % _STRAY_EVERY == 0:
            self._stray = True
            self.claimer.wake()

    async def _lose_lease(self, worker: str, why: str) -> None:
        """Nothing may go on under a lease that cannot be proved: kill, give back, begin anew."""
        if worker != self.id:
            return
        log.error("worker %s lost its lease: %s", worker, why)
        for attempt in list(self._running.values()):
            attempt.kill(Stop.UNTRUSTED)
        if self._stopping.is_set():
            return
        self.lease.give_up()
        self._give_back_waiting()
        while not self._stopping.is_set():
            try:
                await self._tasks.wait(None, self._hurry)
                await self._register()
            except Exception as error:
                if not isinstance(error, StoreUnavailable):
                    log.exception("worker %s cannot begin anew", worker)
                await asyncio.sleep(0.5)
            else:
                self.claimer.wake()
                return

    # Claiming

    async def _claim(self) -> float:
        worker = self.id
        if self._stopping.is_set() or not worker:
            return self.settings.poll
        if (rest := self._rests_until - self._clock()) > 0:
            return rest
        if self._settler.behind:
            return _REFILL_SECONDS
        self._forked.closed = self._inlined.closed = not self.claiming
        messages = self._messages.take()
        try:
            if self._stray:
                await self._claims.release_strays(worker, self.held())
                self._stray = False
            # What is claimed without a zygote would wait for one, while another worker may be free.
            more = self._zygotes.present.alive and await self._fill(worker, self._forked)
            more |= await self._fill(worker, self._inlined)
        except LeaseLost as error:
            self.lease.lose(str(error))
            return self.settings.poll
        except StoreUnavailable:
            # The answer to a claim may have been lost.
            self._stray = True
            raise
        await self._messages.acknowledge(messages)
        if not more and not self.held() and not (self.claiming and self._zygotes.is_expected):
            self.idle.set()
        rest = self.pace.rest_between_claims(self.settings.poll, notified=self._messages.are_pushed)
        return 0.0 if more else self._claims.owed or rest

    async def _fill(self, worker: str, pool: Pool) -> bool:
        """Claim what the pool has room for; True when there may be more."""
        claimed, more = await self._claims.take(worker, pool)
        self.counts["claimed"] += len(claimed)
        custom, secrets = self._controls.custom, self._environment.secrets
        dependencies = JobDependencies(
            self.store, self._jobs, self._admin, self._recorder, self._errands, custom, secrets
        )
        definitions = self._controls.all_in_force({each.lane for each in claimed}, self._loaded.definitions)
        for each in claimed:
            if (definition := definitions.get(each.lane)) is None:
                # Its code was taken away while the claim was under way.
                self._stray = True
                continue
            job = ClaimedJob(each, definition, worker, dependencies, not (pool.ahead or each.lost))
            (self._forked if each.lost else pool).add(job)
        if self._stopping.is_set():
            self._give_back_waiting()
        # Not here: while these run, the next claim should be under way already.
        asyncio.get_running_loop().call_soon(self._launch)
        return more and pool.room > 0

    def held(self) -> list[Held]:
        """The attempts that it has claimed and not settled."""
        waiting = (each.held for pool in (self._forked, self._inlined) for each in pool.waiting)
        return list({*self._running, *self._settler.held, *waiting})

    def _launch(self) -> None:
        """Start what waits and may start now."""
        if processes.boot_time() >= self.lease.trusted_until:
            return
        self._turns.go_on()
        if not self._zygotes.present.alive:
            if self._zygotes.is_overdue:
                self._claims.pass_over(each.claimed for each in self._forked.waiting)
                self._give_back_waiting(pools=[self._forked])
            return
        for job in self._forked.take():
            self._running[job.held] = attempt = Attempt(job, self._zygotes.present, self._environment)
            self._forked.running.add(job)
            self._tasks.add(self._attempt(self._forked, attempt))
            if self._forked.is_left_alone:
                # The others would wait for its end, held by this worker, while another one may be free.
                self._give_back_waiting()
        self._give_back(self._forked.give_up_others())

    async def _finish(self, attempt: InlineAttempt) -> None:
        self._running[attempt.job.held] = attempt
        await self._attempt(self._inlined, attempt)

    # Attempts

    async def _attempt(self, pool: Pool, attempt: Running) -> None:
        """One attempt from its start until its ending is handed in."""
        held = (job := attempt.job).held
        try:
            outcome = await self._outcome(job, attempt)
            # Its process is gone: while the ending is written, the slot can be filled.
            pool.running.discard(job)
            self._refill(pool)
            if outcome.trigger is not Trigger.SUCCEED:
                outcome = await stop_signals.judge(outcome, self._zygotes.present.signalled, self._stopping)
                job.leave_phase(outcome)
                self.counts["failed"] += outcome.trigger is Trigger.FAIL
            if outcome.trigger is Trigger.RELEASE:
                # What kept this one from running will keep the next one: no use to claim it at once.
                self._rests_until = self._clock() + _REST_SECONDS
            if self._recorder.owes(held):
                await self._recorder.finish_surely(held, lambda: self.id == job.worker)
            self._settler.add((job.worker, job.settlement(outcome, random.random()), job))
        except BaseException:
            self._running.pop(held, None)
            pool.running.discard(job)
            raise

    def _refill(self, pool: Pool) -> None:
        """Have a free slot filled: at once when many are free, else in a moment, together with the next ones."""
        if pool.busy:
            self.claimer.wake_soon(_REFILL_SECONDS)
        else:
            self.claimer.wake()

    async def _outcome(self, job: ClaimedJob, attempt: Running) -> Outcome:
        try:
            if not job.started:
                await job.start()
            if hooks.ON_START in job.definition.hooks:
                self._hooks.call(job.definition, hooks.ON_START, hooks.start_task(await job.task()))
            if isinstance(attempt, InlineAttempt):
                return await attempt.run()
            JOB.set(attempt)
            return await self._zygotes.run(attempt)
        except (LeaseLost, StoreUnavailable) as error:
            log.warning("job %s was not run: %s", job.held.job_id, error)
        except Exception:
            log.exception("job %s could not be run", job.held.job_id)
        return Outcome(Trigger.RELEASE, Cause.RELEASED)

    def _cancel(self, held: Held) -> None:
        if (attempt := self._running.get(held)) is not None:
            attempt.stop(Stop.CANCEL, attempt.job.definition.cancel_grace / 1e6)
        else:
            self._give_back_waiting(held)

    def _give_back_waiting(self, held: Held | None = None, pools: Sequence[Pool] = ()) -> None:
        for pool in pools or (self._forked, self._inlined):
            self._give_back(pool.give_up(held))

    def _give_back(self, unstarted: Sequence[ClaimedJob]) -> None:
        for each in unstarted:
            settlement = each.settlement(Outcome(Trigger.RELEASE, Cause.RELEASED), random.random())
            self._settler.add((each.worker, settlement, None))

    def _refused(self, held: Held) -> None:
        """A write of this attempt was refused: the job is somebody else's now."""
        self.counts["refused"] += 1
        if (attempt := self._running.get(held)) is not None:
            log.warning("job %s is somebody else's now; its attempt is killed", held.job_id, extra=about(held.job_id))
            attempt.kill(Stop.LOST_FENCE)

    def _settled(self, report: SettleReport, endings: Sequence[Ending]) -> None:
        """Endings of attempts are on record, or will never be."""
        self.counts["settled"] += len(report.applied) + len(report.repeated)
        self.counts["refused"] += len(report.refused)
        for held in report.refused:
            log.warning("the ending of job %s came too late: another has it", held.job_id, extra=about(held.job_id))
        limited = self._controls.limited
        for _, settlement, job in (each for each in endings if limited or self._running or not each[1].lone):
            if job is not None and self._running:
                self._running.pop(job.held, None)
            if settlement.status is Status.SCHEDULED:
                self._background.promote.wake()
            if job and (job.claimed.lane in limited or job.claimed.concurrency_key is not None):
                # Its ending has made room for another one that stood back.
                self._refill(self._inlined if job.definition.isolation == "inline" else self._forked)
        if self._hooks.lanes:
            self._hook_service.wake()

    def _heed_messages(self) -> None:
        """Wake those who wait: the queue has said that there is something new."""
        self.claimer.wake()
        self._background.promote.wake_soon()
        if self._hooks.lanes:
            self._hook_service.wake_soon()
        for service in self._background.others:
            service.wake_if_older(_FRESH_SECONDS)
        if self._running:
            self.lease.poke()

    def _heed_controls(self) -> None:
        """Work from now on as operators want it."""
        self.settings = self._controls.settings
        self._forked.slots, self._inlined.slots = self.settings.slots, self.settings.inline_slots
        self._environment.limits = self._controls.config.limits
        self._loaded.set_log_levels(self._controls.in_force)
        self.lease.tell_slots(self.settings.slots)
        if not self._controls.config.enabled or self._controls.overridden:
            self._give_back_waiting()
        self.claimer.wake()

    def _heed_zygotes(self) -> None:
        """Another zygote is there, or there will be none for a while."""
        self._zygotes.trust(self.lease.trusted_until)
        self.lease.tell(self.lanes)
        self._launch()
        self.claimer.wake()

    # Stopping

    async def _drain(self) -> None:
        """Wait for what runs, then ask it to stop, then kill it; what has not ended by itself is given back."""
        self._give_back_waiting()
        log.info("stopping: %d job(s) still run", len(self._running))
        await self._tasks.wait(self.settings.drain, self._hurry)
        if self._running and not self._hurry.is_set():
            for attempt in list(self._running.values()):
                attempt.stop(Stop.SHUTDOWN, self.settings.stop_grace)
            await self._tasks.wait(self.settings.stop_grace, self._hurry)
        for attempt in list(self._running.values()):
            attempt.kill(Stop.SHUTDOWN)
        await self._tasks.wait(_STOP_SECONDS)
        await self._hooks.drain(self.settings.hook_timeout)

    async def _end(self, loops: Sequence[asyncio.Future[None]]) -> None:
        for service in self.services:
            service.stop()
        self._settler.wake()
        self._loose.cancel()
        # A claim that is under way may still bring jobs, which are to be given back.
        await asyncio.wait([loops[self.services.index(self.claimer)]], timeout=_STOP_SECONDS)
        if self.id:
            try:
                await asyncio.wait_for(self._leave(self.id), _STOP_SECONDS)
            except Exception as error:
                log.warning("the store was not told that this worker stops: %s", error)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self.lease.close()

    async def _leave(self, worker: str) -> None:
        """Give back whatever still names this worker, and end it in good order."""
        await self.store.arun(self._jobs.release_unheld(worker, []))
        await self.store.arun(self._jobs.end_worker(worker))
        log.info("worker %s has stopped", worker)
