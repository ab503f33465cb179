"""A store at a fixed time, with shortcuts to jobs in each state."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from penstock.domain.definition import Definition
from penstock.domain.ids import IdSource
from penstock.domain.job import Claimed, Draft, Held, Job
from penstock.domain.outcome import AttemptCounters, Cause, Failure, Outcome, Settlement, decide
from penstock.domain.plan import Plan
from penstock.domain.retry import Backoff, Fixed
from penstock.domain.states import Status, Trigger
from penstock.domain.worker import SettleReport, WorkerInfo
from penstock.storage.commands import admin, control, jobs

T = TypeVar("T")

START = 1_800_000_000_000_000
LEASE = 15_000_000
NO_WORKER = "00000000-0000-7000-8000-000000000000"
_CAUSES = {
    Trigger.SUCCEED: Cause.RETURNED,
    Trigger.FAIL: Cause.RAISED,
    Trigger.SNOOZE: Cause.SNOOZED,
    Trigger.ASK_REVIEW: Cause.REVIEW,
    Trigger.RELEASE: Cause.RELEASED,
    Trigger.LOSE: Cause.LOST,
}


class Kit:
    """A store at a moment that only moves when told."""

    _holders: ClassVar[dict[tuple[str, int], str]] = {}
    """Which worker claimed an attempt last, with whichever kit."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.now = START
        self._numbers = itertools.count()
        self._ids = IdSource(lambda: self.now // 1000, os.urandom)
        self._lanes: dict[str, int] = {}

    def run(self, plan: Plan[T]) -> T:
        return self.store.run(plan, now=self.now)

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)

    def new_id(self) -> str:
        return self._ids.new_id()

    def define(self, key: str = "work", **options: Any) -> int:
        definition = Definition(key=key, **{"backoff": Fixed(10), **options})
        lane = self.run(admin.register([definition]))[key, definition.version]
        self._lanes[key] = lane
        return lane

    def draft(self, definition: str = "work", **options: Any) -> Draft:
        if definition not in self._lanes:
            self.define(definition)
        facts = {"id": self.new_id(), "params": "{}", "priority": 10, "max_attempts": 3, "params_digest": "same"}
        return Draft(lane=self._lanes[definition], definition=definition, **{**facts, **options})

    def create(self, definition: str = "work", **options: Any) -> str:
        return self.run(jobs.create([self.draft(definition, **options)]))[0].job_id

    def worker(self, lease: int = LEASE, **options: Any) -> str:
        facts = {"id": self.new_id(), "name": "worker", "host": "here", "pid": 1, "lanes": tuple(self._lanes.values())}
        worker = WorkerInfo(**{**facts, **options})
        self.run(jobs.register_worker(worker, lease))
        return worker.id

    def claim(self, worker: str | None = None, limit: int = 10, **options: Any) -> list[Claimed]:
        lanes = options.pop("lanes", None) or sorted(self._lanes.values())
        worker = worker or self.worker()
        claimed = self.run(jobs.claim(worker, lanes, limit, **options))
        self._holders.update(((each.job_id, each.fence), worker) for each in claimed)
        return claimed

    def running(self, definition: str = "work", *, worker: str | None = None, **options: Any) -> Claimed:
        """A job that has just been claimed; nothing else may be ready in its lane."""
        job_id = self.create(definition, **options)
        (claimed,) = self.claim(worker, lanes=[self._lanes[definition]], limit=1)
        assert claimed.job_id == job_id
        return claimed

    def settle(self, claimed: Claimed | Held, trigger: Trigger = Trigger.SUCCEED, **facts: Any) -> SettleReport:
        """Hand in an ending, as the worker that claimed the attempt would."""
        return self.run(jobs.settle(self.held(claimed).worker, [self.ending(claimed, trigger, **facts)]))

    def settle_all(self, endings: Sequence[Settlement]) -> SettleReport:
        """Hand in endings of one worker's attempts."""
        workers = {self._holders[each.job_id, each.fence] for each in endings} or {NO_WORKER}
        (worker,) = workers
        return self.run(jobs.settle(worker, endings))

    def held(self, job: Claimed | Held | str, fence: int | None = None) -> Held:
        """What writes of an attempt name; one that was never claimed has the name of a worker that never was."""
        if isinstance(job, Held):
            return job
        job_id = job if isinstance(job, str) else job.job_id
        number = fence if fence is not None or isinstance(job, str) else job.fence
        assert number is not None
        return Held(job_id, number, self._holders.get((job_id, number), NO_WORKER))

    def ending(self, claimed: Claimed | Held, trigger: Trigger = Trigger.SUCCEED, **facts: Any) -> Settlement:
        """What the engine would hand in for an attempt that ended by `trigger`."""
        if trigger in (Trigger.FAIL, Trigger.LOSE) and "failure" not in facts:
            facts["failure"] = Failure("ValueError", "broken", "Traceback", "fingerprint")
        if trigger is Trigger.SUCCEED:
            facts.setdefault("result", "null")
        outcome = Outcome(trigger, _CAUSES[trigger], **facts)
        attempt = getattr(claimed, "attempt", 1)
        standing = AttemptCounters(attempt, getattr(claimed, "max_attempts", 3), getattr(claimed, "lost", 0))
        return decide(claimed.job_id, claimed.fence, outcome, standing, Backoff(base=10, jitter=0), 0.5)

    def job(self, job_id: str) -> Job:
        (job,) = self.run(admin.get([job_id]))
        return job

    def status(self, job_id: str) -> Status:
        return self.job(job_id).status

    def job_in(self, status: Status, definition: str = "work", **options: Any) -> str:
        """A job that stands in `status`, brought there the way jobs come there."""
        if status is Status.SCHEDULED:
            return self.create(definition, delay=3600_000_000, **options)
        if status is Status.QUEUED:
            return self.create(definition, **options)
        if status is Status.CANCELLED:
            job_id = self.create(definition, **options)
            self.run(control.cancel([job_id]))
            return job_id
        claimed = self.running(definition, **options)
        if status is Status.CANCELLING:
            self.run(control.cancel([claimed.job_id]))
        elif status is Status.REVIEW_NEEDED:
            self.settle(claimed, Trigger.ASK_REVIEW, note="look", result='"draft"')
        elif status in (Status.SUCCEEDED, Status.STALE):
            self.settle(claimed, Trigger.SUCCEED, result="1")
        elif status is Status.FAILED:
            self.settle(claimed, Trigger.FAIL, retryable=False)
        if status is Status.STALE:
            self.advance(8 * 86_400)
        assert self.status(claimed.job_id) is status
        return claimed.job_id

    def events(self, job_id: str) -> list[str]:
        from penstock.storage.commands import feed

        return [event.type for event in self.run(feed.of_job(job_id))]
