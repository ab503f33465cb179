"""By when each job must have started that may run, computed from the model, and the check on a store.

The deadlines hold for one worker with a known number of slots while nothing else changes. They are generous where the
order of jobs is open, and count no job that ranks behind: a job that starves misses its deadline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed
from penstock.domain.outcome import FIRST_LOSS_DELAY, MAX_LOSSES, RETURNED_NOTHING, Cause, Outcome
from penstock.domain.states import ACTIVE, LIVE, Status, Trigger
from penstock.storage.commands import admin, jobs
from tests.storage.model import Bucket, ModelJob, World, stands
from tests.storage.virtual_worker import Act, Run, VirtualStore, VirtualWorker

LONG = "long"
CROWD = "crowd"
LASTS = {LONG: 300 * SECOND, CROWD: 4 * SECOND}
"""How long jobs run; those of other definitions take a second."""
POLLER = "poller"
"""The definition whose jobs snooze often; of the others one in three snoozes."""
SNOOZES = 2
SNOOZED = Outcome(Trigger.SNOOZE, Cause.SNOOZED, delay=2 * SECOND)
PATIENCE = 30 * SECOND
"""So long a job that may be the reason of crashes waits to be alone."""
GRACE = SECOND
RESCUE = 3 * SECOND
"""So long after the grace a worker has found what others left behind."""
REPAIR = 10 * SECOND


@dataclass(frozen=True)
class Terms:
    """What the worker has."""

    slots: int = 2
    ahead: int = 0
    inline: tuple[str, ...] = ()
    poll: float = 2.0
    workers: int = 1


def runs(job: ModelJob) -> int:
    """How often a job is run: some snooze first."""
    if job.draft.definition == POLLER:
        return 1 + 2 * SNOOZES
    snoozes = job.draft.definition != LONG and int(job.id[-4:], 16) % 3 == 0
    return 1 + SNOOZES * snoozes


@dataclass(eq=False)
class Load:
    """A job that may run, and what it asks of a worker."""

    job: ModelJob
    ready: int
    starts: bool
    """Whether it starts again: one that is lost too often fails."""
    lost: int
    limited_by_key: bool
    moves: bool
    """Whether its place in the queue may become a later one."""
    bucket: Bucket | None
    runs: int

    @property
    def definition(self) -> str:
        return self.job.draft.definition

    @property
    def takes(self) -> int:
        """For how long it takes the slot that others wait for; what runs long has the one that none counts on."""
        return 0 if self.definition == LONG else self.runs * LASTS.get(self.definition, SECOND)

    def rank(self, due: int) -> int:
        return due - self.job.priority * self.job.ageing

    @property
    def best_rank(self) -> int:
        return self.rank(self.job.due_at)

    def worst_rank(self, until: int) -> int:
        return self.rank(max(until, self.job.due_at) if self.moves else self.job.due_at)


@dataclass
class Deadlines:
    """By when each job that may run must have started."""

    world: World
    terms: Terms
    loads: dict[str, Load] = field(init=False)

    def __post_init__(self) -> None:
        found = (self._load(job) for job in self.world.jobs.values() if job.status in ACTIVE)
        self.loads = {load.job.id: load for load in found if load is not None}

    @cached_property
    def starts(self) -> dict[str, int]:
        return {job_id: self._deadline(load) for job_id, load in self.loads.items() if load.starts}

    @cached_property
    def end(self) -> int:
        """By when all of them must have ended."""
        now = self.world.now
        last = max([now, *self.starts.values(), *(load.ready for load in self.loads.values())])
        again = sum(load.takes + load.runs * 2 * SECOND for load in self.loads.values())
        return last + 2 * (last - now) + again + LASTS[LONG]

    def describe(self, job_id: str) -> str:
        """The limits of a job, in words."""
        load, world = self.loads[job_id], self.world
        definition, job = world.definitions[load.definition], load.job
        said = [
            f"priority {job.priority}",
            *([f"key {job.draft.concurrency_key}"] if job.draft.concurrency_key else []),
            *(f"{name} {limit}" for name in ("concurrency", "key_concurrency") if (limit := definition.limit(name))),
        ]
        if rate := definition.rate:
            said.append(f"{rate.count} per {rate.period:g} s" + (" by key" if rate.per_key else ""))
        if load.lost:
            said.append(f"lost {load.lost} time(s)")
        since = (load.ready - world.now) / SECOND
        return f"job {job_id} of {load.definition} ({', '.join(said)}) may run from second {since:g} on"

    def _load(self, job: ModelJob) -> Load | None:
        world, definition = self.world, self.world.definitions[job.draft.definition]
        pauses = [each for each in (definition.pause, world.pause) if each is not None and stands(each, world.now)]
        if job.status is Status.REVIEW_NEEDED or any(each.until is None for each in pauses):
            return None
        started = job.status in LIVE and job.started_at is not None
        lost = job.lost + started
        ready = max(
            [world.now, job.due_at if job.status is Status.SCHEDULED else 0, *(each.until or 0 for each in pauses)]
        )
        ready = max(ready, self._freed(job, definition.limit("concurrency") > 0))
        if started:
            policy = world.definition(job).backoff
            ready += max(FIRST_LOSS_DELAY, round(policy.delay(job.lost - 1, 1.0) * SECOND) if job.lost else 0)
        rate, key = definition.rate, job.draft.concurrency_key
        per_key = rate is not None and rate.per_key
        bucket = None
        if rate is not None and (key is not None or not per_key):
            bucket = Bucket.of(job.draft.definition, key if per_key else None, rate)
        return Load(
            job, ready, starts=job.status is not Status.CANCELLING and lost < MAX_LOSSES, lost=lost,
            limited_by_key=key is not None and (per_key or definition.limit("key_concurrency") > 0),
            moves=(per_key and key is not None) or started, bucket=bucket, runs=runs(job),
        )  # fmt: skip

    def _freed(self, job: ModelJob, limited: bool) -> int:
        """When dead workers hold neither the job nor others whose slots it needs."""
        instants = [0]
        for other in self.world.jobs.values():
            same = limited and other.draft.definition == job.draft.definition
            if other.worker is not None and (
                other is job or same or (job.limit_key and other.limit_key == job.limit_key)
            ):
                worker = self.world.workers[other.worker]
                instants.append(max(self.world.now, 0 if worker.ended else worker.lease_until + GRACE) + RESCUE)
        return max(instants)

    def _deadline(self, load: Load) -> int:
        deadline = 0
        later = load.ready
        while later > deadline:
            deadline = later
            later = max(deadline, load.ready + self._wait(load, deadline))
        return deadline

    def _wait(self, load: Load, until: int) -> int:
        """For how long a job may have to wait if it starts by then."""
        terms, poll = self.terms, round(self.terms.poll * SECOND)
        others = [each for each in self.loads.values() if each is not load and each.ready < until]
        mates = [each for each in others if load.limited_by_key and each.job.limit_key == load.job.limit_key]
        worst = max(each.worst_rank(until) for each in (load, *mates))
        before = [each for each in others if each.best_rank <= worst]
        lost = [each for each in others if each.lost]
        wait = (terms.slots + terms.ahead) * LASTS[CROWD] + 3 * poll + RESCUE + REPAIR
        wait += sum(each.takes for each in before)
        wait += len(lost) * (PATIENCE + 2 * poll + LASTS[CROWD]) + (PATIENCE if load.lost else 0)
        given_back = len(lost) * (terms.slots + terms.ahead)
        return wait + self._wait_for_tokens(load, before, others, given_back)

    def _wait_for_tokens(self, load: Load, before: Iterable[Load], others: Iterable[Load], given_back: int) -> int:
        rate = self.world.definitions[load.definition].rate
        if rate is None:
            return 0
        poll = round(self.terms.poll * SECOND)
        mine = [each for each in others if each.definition == load.definition]
        # A claim that puts a job off brings fewer than there was room for: the worker rests for a poll.
        wait = poll * sum(each.runs for each in mine) if rate.per_key else 0
        if load.bucket is not None:
            debt = max(0, self.world.full_at(load.bucket) - self.world.now)
            same = [each for each in (mine if rate.per_key else before) if each.bucket == load.bucket]
            tokens = 1 + given_back + sum(each.runs for each in same)
            wait += debt + load.bucket.period + poll
            wait += tokens * load.bucket.period // load.bucket.size
        return wait


class Workday:
    """Workers that run everything which may run, on the store that a history has left."""

    def __init__(self, store: Any, new_id: Callable[[], str], deadlines: Deadlines, name: str) -> None:
        self.deadlines = deadlines
        self.name = name
        self.begun = deadlines.world.now
        self.store = VirtualStore(store, self.begun)
        self.attempts: Counter[str] = Counter()
        terms = deadlines.terms
        self.workers = [
            VirtualWorker(
                self.store, new_id(), self._act, slots=terms.slots, ahead=terms.ahead, inline=terms.inline,
                poll=terms.poll,
            )
            for _ in range(terms.workers)
        ]  # fmt: skip

    @property
    def runs(self) -> list[Run]:
        """All attempts, in the order in which they began."""
        begun = [run for worker in self.workers for run in worker.runs if run.started_at is not None]
        return sorted(begun, key=lambda run: run.started_at or 0)

    def _act(self, claimed: Claimed) -> Act:
        self.attempts[claimed.job_id] += 1
        load = self.deadlines.loads[claimed.job_id]
        snoozes = self.attempts[claimed.job_id] < load.runs
        return Act(LASTS.get(load.definition, SECOND), SNOOZED if snoozes else RETURNED_NOTHING)

    def run(self) -> list[Run]:
        """Go on until all jobs have ended; fail as soon as one has missed its deadline. All attempts that began."""
        unstarted = sorted((at, job_id) for job_id, at in self.deadlines.starts.items())
        unended = {*self.deadlines.loads}
        quiet = 0
        while unended:
            self.store.now = max(self.store.now, min(worker.next_at for worker in self.workers))
            before = self._claimed
            for worker in self.workers:
                worker.step()
                unended.difference_update(run.job_id for run in worker.ended() if run.status is Status.SUCCEEDED)
            unstarted = [each for each in unstarted if not self.attempts[each[1]]]
            if unstarted and self.store.now > unstarted[0][0]:
                self._fail(unstarted[0][1], "start", unstarted[0][0])
            if self.store.now > self.deadlines.end:
                self._fail(min(unended), "end", self.deadlines.end)
            quiet = quiet + 1 if before == self._claimed and self._runs_all else 0
            if quiet > 6 * len(self.workers):
                unended = self._left(unended)
                self._rest(unended, [at for at, _ in unstarted])
                quiet = 0
        return self.runs

    @property
    def _claimed(self) -> int:
        return sum(len(worker.runs) for worker in self.workers)

    @property
    def _runs_all(self) -> bool:
        """Whether no worker holds a job that has not begun."""
        return all(worker.runs_all for worker in self.workers)

    def _left(self, unended: Iterable[str]) -> set[str]:
        found = self.store.run(admin.get(sorted(unended)))
        return {job.id for job in found if job.status in ACTIVE and job.status is not Status.REVIEW_NEEDED}

    def _rest(self, unended: Iterable[str], deadlines: Iterable[int]) -> None:
        """Pass over hours in which nothing can happen: all jobs run or wait for an instant."""
        world, own = self.deadlines.world, {worker.id for worker in self.workers}
        found = self.store.run(admin.get(sorted(unended)))
        ends = {key: self._pause_end(key) for key in world.definitions}
        if all(
            job.status is Status.SCHEDULED
            or job.worker_id in own
            or (job.worker_id is None and ends[job.definition_key] > self.store.now)
            for job in found
        ):
            due = self.store.run(jobs.next_due())
            instants = [*deadlines, *(at for at in ends.values() if at > self.store.now)]
            instants += [] if due is None else [self.store.now + max(0, due)]
            for worker in self.workers:
                worker.rest_until(min(instants, default=0))

    def _pause_end(self, key: str) -> int:
        world = self.deadlines.world
        return max((each.until or 0 for each in (world.pause, world.definitions[key].pause) if each), default=0)

    def _fail(self, job_id: str, what: str, deadline: int) -> None:
        (job,) = self.store.run(admin.get([job_id]))
        why = "; ".join(reason.message for reason in self.store.run(admin.why(job_id))) or "no reason"
        raise AssertionError(
            f"{self.name}, {self.deadlines.terms}: {self.deadlines.describe(job_id)} and must {what} by second "
            f"{(deadline - self.begun) / SECOND:g} at the latest; it is {job.status} after {self.attempts[job_id]} "
            f"attempt(s) at second {(self.store.now - self.begun) / SECOND:g}. Why: {why}"
        )
