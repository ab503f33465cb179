"""A worker on virtual time: the real claims, pools, promoter and rescuer against a real store, without processes.

What the engine does in an event loop happens here in steps, each at an instant that the clock is set to. Attempts take
as long as a test says and end as it says.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from penstock.background.promote import Promoter
from penstock.background.rescue import Rescuer
from penstock.config.worker_settings import WorkerSettings
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed, Held
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Outcome
from penstock.domain.plan import Plan
from penstock.domain.ports.store import Store
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import WorkerInfo
from penstock.storage import ports
from penstock.storage.sqlite.memory import SharedMemoryStore
from penstock.worker.claim_requests import ClaimRequests
from penstock.worker.claimed_job import ClaimedJob
from penstock.worker.live_config import LiveConfig
from penstock.worker.pool import Pool

T = TypeVar("T")

RELEASED = Outcome(Trigger.RELEASE, Cause.RELEASED)
_REST = 1.0
"""So long a worker claims nothing after it could not run a job."""
_LEASE = 10**15


class VirtualStore(SharedMemoryStore):
    """A store with a given present, which answers without a wait."""

    def __init__(self, host: Store, now: int) -> None:
        super().__init__(host)
        self.now = now

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        return super().run(plan, now=self.now)

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        return super().run(plan, now=self.now)

    def reserve(self, seconds: float) -> VirtualStore:
        return self

    @property
    def steady(self) -> float:
        """The clock of a worker, in seconds."""
        return self.now / SECOND


class Act(NamedTuple):
    """What an attempt does: for how many microseconds, and how it ends."""

    lasts: int = SECOND
    outcome: Outcome = RETURNED_NOTHING


@dataclass
class Run:
    """One attempt, as a worker saw it."""

    job_id: str
    definition: str
    key: str | None
    claimed_at: int
    started_at: int | None = None
    ended_at: int | None = None
    status: Status | None = None


@dataclass(order=True)
class _Ending:
    at: int
    number: int
    job: ClaimedJob = field(compare=False)
    pool: Pool = field(compare=False)
    outcome: Outcome = field(compare=False)


class VirtualWorker:
    """Claims, starts and settles as `penstock.worker.worker.Worker` does, and does its duties."""

    def __init__(
        self,
        store: VirtualStore,
        name: str,
        act: Callable[[Claimed], Act],
        *,
        slots: int = 2,
        ahead: int = 0,
        inline: Sequence[str] = (),
        poll: float = 1.0,
    ) -> None:
        """`inline`: the definitions whose jobs run in the worker itself."""
        self.store = store
        self.id = name
        self.poll = poll
        self.runs: list[Run] = []
        """All attempts, in the order of their claims."""
        self._ended: list[Run] = []
        self._act = act
        self._definitions = {row.lane: row.definition for row in store.run(ports.admin.definitions())}
        settings = WorkerSettings(slots=slots, ahead=ahead, poll=poll)
        info = WorkerInfo(name, "virtual", "here", 1, lanes=tuple(self._definitions), slots=slots)
        store.run(ports.jobs.register_worker(info, _LEASE))
        self._controls = LiveConfig(store, ports.admin, settings, lambda: None)
        _finished(self._controls.read(self._definitions))
        clock = self._clock
        self._claims = ClaimRequests(store, ports.jobs, self._controls, clock=clock)
        self.forked = Pool(slots, ahead, clock=clock)
        self.inlined = Pool(slots, ahead, losses=False, clock=clock)
        for lane, definition in self._definitions.items():
            (self.inlined if definition.key in inline else self.forked).lanes.append(lane)
        self._promoter = Promoter(store, ports.jobs, lambda ids: self._wake("claim"))
        self._rescuer = Rescuer(store, ports.jobs, settings.rescue, lambda: True, clock=clock)
        self._ticks = {
            "rescue": lambda: _finished(self._rescuer.tick()),
            "promote": lambda: _finished(self._promoter.tick()),
            "claim": self._claim,
        }
        self._next = dict.fromkeys(self._ticks, store.now)
        self._endings: list[_Ending] = []
        self._open: dict[Held, Run] = {}
        self._numbers = itertools.count()
        self._rests_until = 0.0

    def _clock(self) -> float:
        return self.store.steady

    @property
    def next_at(self) -> int:
        """When something happens next."""
        return min([*self._next.values(), *(ending.at for ending in self._endings[:1])])

    @property
    def runs_all(self) -> bool:
        """Whether all jobs that it holds have begun."""
        return not self.forked.waiting and not self.inlined.waiting

    def ended(self) -> list[Run]:
        """The attempts that have ended since this was asked last."""
        ended, self._ended = self._ended, []
        return ended

    def rest_until(self, instant: int) -> None:
        """Nothing that it does before then would change anything."""
        self._next = {name: max(at, instant) for name, at in self._next.items()}

    def step(self) -> None:
        """Do what is due now."""
        while self._endings and self._endings[0].at <= self.store.now:
            self._end(heapq.heappop(self._endings))
        for name, tick in self._ticks.items():
            if self._next[name] <= self.store.now:
                self._next[name] = self.store.now + 1
                rest = tick()
                if rest > 0:
                    # What was woken meanwhile comes first.
                    self._next[name] = max(self._next[name], self.store.now + round(rest * SECOND))

    def _wake(self, name: str) -> None:
        self._next[name] = self.store.now

    def _claim(self) -> float:
        if (rest := self._rests_until - self.store.steady) > 0:
            return rest
        more = self._fill(self.forked)
        more |= self._fill(self.inlined)
        return 0.0 if more else self._claims.owed or self.poll

    def _fill(self, pool: Pool) -> bool:
        claimed, more = _finished(self._claims.take(self.id, pool))
        for each in claimed:
            nothing: Any = None
            started = not pool.ahead and not each.lost
            job = ClaimedJob(each, self._definitions[each.lane], self.id, nothing, started)
            run = Run(each.job_id, job.definition.key, each.concurrency_key, self.store.now)
            self._open[job.held] = run
            self.runs.append(run)
            (self.forked if each.lost else pool).add(job)
        self._launch()
        return more and pool.room > 0

    def _launch(self) -> None:
        while (job := self.inlined.next()) is not None:
            self._start(job, self.inlined)
        for job in self.forked.take():
            self._start(job, self.forked)
            if self.forked.is_left_alone:
                self._give_back_waiting()

    def _start(self, job: ClaimedJob, pool: Pool) -> None:
        pool.running.add(job)
        act = self._act(job.claimed)
        if not job.started and self.store.run(ports.jobs.start([job.held])):
            act = Act(0, RELEASED)
        else:
            self._open[job.held].started_at = self.store.now
        ending = _Ending(self.store.now + act.lasts, next(self._numbers), job, pool, act.outcome)
        heapq.heappush(self._endings, ending)

    def _end(self, ending: _Ending) -> None:
        job = ending.job
        ending.pool.running.discard(job)
        if ending.outcome is RELEASED:
            self._rests_until = self.store.steady + _REST
        self._settle(job, ending.outcome)
        self._wake("claim")
        self._launch()

    def _give_back_waiting(self) -> None:
        for pool in (self.forked, self.inlined):
            for job in pool.give_up():
                self._settle(job, RELEASED)

    def _settle(self, job: ClaimedJob, outcome: Outcome) -> None:
        settlement = job.settlement(outcome, 0.5)
        self.store.run(ports.jobs.settle(self.id, [settlement]))
        run = self._open.pop(job.held)
        run.ended_at, run.status = self.store.now, settlement.status
        self._ended.append(run)
        if settlement.status is Status.SCHEDULED:
            self._wake("promote")


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("A coroutine waits although its store answers at once.")
