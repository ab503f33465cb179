"""The attempts that a worker runs, from their start until their ending is on record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from penstock.domain.errors import LeaseLost, StoreUnavailable
from penstock.domain.job import Held
from penstock.domain.outcome import Cause, Outcome
from penstock.domain.states import Trigger
from penstock.runtime import processes, stop_signals
from penstock.runtime.log_lines import JOB, about
from penstock.runtime.service import log
from penstock.runtime.stop_signals import StopRequest
from penstock.runtime.tasks import Tasks
from penstock.worker import hooks
from penstock.worker.attempt import Attempt, Stop
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.claimed_job import ClaimedJob
from penstock.worker.claimer import Claimer
from penstock.worker.inline import InlineAttempt
from penstock.worker.job_environment import JobEnvironment
from penstock.worker.lease import Lease
from penstock.worker.pool import Pool, Pools
from penstock.worker.recorder import Recorder
from penstock.worker.settler import Settler
from penstock.worker.unstarted_jobs import UnstartedJobs
from penstock.worker.zygote_supervisor import ZygoteSupervisor

AnyAttempt = Attempt | InlineAttempt


class RunningAttempts:
    """Starts claimed jobs that have a slot, and brings each attempt to its ending."""

    def __init__(
        self,
        pools: Pools,
        unstarted: UnstartedJobs,
        claimer: Claimer,
        requests: ClaimRequests,
        zygotes: ZygoteSupervisor,
        environment: JobEnvironment,
        recorder: Recorder,
        settler: Settler,
        hooks: hooks.Hooks,
        lease: Lease,
        stop: StopRequest,
        tasks: Tasks,
        counts: dict[str, int],
        *,
        start_inline: Callable[[], None],
    ) -> None:
        """`start_inline` starts inline attempts that have a slot."""
        self.by_job: dict[Held, AnyAttempt] = {}
        self._pools = pools
        self._unstarted = unstarted
        self._claimer = claimer
        self._requests = requests
        self._zygotes = zygotes
        self._environment = environment
        self._recorder = recorder
        self._settler = settler
        self._hooks = hooks
        self._lease = lease
        self._stop = stop
        self._tasks = tasks
        self._counts = counts
        self._start_inline = start_inline

    def __len__(self) -> int:
        return len(self.by_job)

    def held(self) -> list[Held]:
        """The attempts that were claimed and are not settled."""
        return list({*self.by_job, *self._settler.held, *(each.held for each in self._pools.waiting())})

    def start_waiting(self) -> None:
        """Start the claimed jobs that wait and have a slot."""
        if processes.boot_time() >= self._lease.trusted_until:
            return
        self._start_inline()
        pool = self._pools.process
        if not self._zygotes.present.alive:
            if self._zygotes.is_overdue:
                self._requests.pass_over(each.claimed for each in pool.waiting)
                self._unstarted.return_from(pool)
            return
        for job in pool.take():
            self.by_job[job.held] = attempt = Attempt(job, self._zygotes.present, self._environment)
            pool.running.add(job)
            self._tasks.add(self._run(pool, attempt))
            if pool.is_left_alone:
                # The others would wait for its end, held by this worker, while another one may be free.
                self._unstarted.return_all()
        self._unstarted.make_way(pool)

    async def run_inline(self, attempt: InlineAttempt) -> None:
        """Run an inline attempt that has to wait for something."""
        self.by_job[attempt.job.held] = attempt
        await self._run(self._pools.inline, attempt)

    async def _run(self, pool: Pool, attempt: AnyAttempt) -> None:
        """Run one attempt until its ending is handed to the settler."""
        held = (job := attempt.job).held
        try:
            outcome = await self._outcome(job, attempt)
            # Its process is gone: while the ending is written, the slot can be filled.
            pool.running.discard(job)
            self._claimer.refill(pool)
            outcome = await self._judge(job, outcome)
            if self._recorder.has_unwritten(held):
                await self._recorder.finish_with_retries(held, lambda: self._lease.worker_id == job.worker)
            self._settler.add((job.worker, job.settlement(outcome, random.random()), job))
        except BaseException:
            self.by_job.pop(held, None)
            pool.running.discard(job)
            raise

    async def _judge(self, job: ClaimedJob, outcome: Outcome) -> Outcome:
        """The outcome as it is settled: an attempt that failed because its worker stops is released."""
        if outcome.trigger is not Trigger.SUCCEED:
            outcome = await stop_signals.judge(outcome, self._zygotes.present.signalled, self._stop.event)
            job.leave_phase(outcome)
            self._counts["failed"] += outcome.trigger is Trigger.FAIL
        if outcome.trigger is Trigger.RELEASE:
            self._claimer.pause()
        return outcome

    async def _outcome(self, job: ClaimedJob, attempt: AnyAttempt) -> Outcome:
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

    def cancel(self, held: Held) -> None:
        """Stop the attempt of a cancelled job, or return the job if it has not begun."""
        if (attempt := self.by_job.get(held)) is not None:
            attempt.stop(Stop.CANCEL, attempt.job.definition.cancel_grace / 1e6)
        else:
            self._unstarted.return_one(held)

    def kill_refused(self, held: Held) -> None:
        """Kill an attempt whose write was refused: it does not own its job any more."""
        self._counts["refused"] += 1
        if (attempt := self.by_job.get(held)) is not None:
            log.warning(
                "job %s belongs to another attempt now; this one is killed", held.job_id, extra=about(held.job_id)
            )
            attempt.kill(Stop.LOST_FENCE)

    def stop_all(self, why: Stop, grace: float) -> None:
        for attempt in list(self.by_job.values()):
            attempt.stop(why, grace)

    def kill_all(self, why: Stop) -> None:
        for attempt in list(self.by_job.values()):
            attempt.kill(why)

    async def wait(self, seconds: float | None, until: asyncio.Event | None = None) -> None:
        """Wait until all attempts have ended and are settled, for so long at most, or until the event is set."""
        await self._tasks.wait(seconds, until)
