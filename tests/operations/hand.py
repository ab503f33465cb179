"""A worker that is played by hand, through the verbs that a real one uses."""

from __future__ import annotations

from penstock import Penstock
from penstock.domain.job import Claimed, Held
from penstock.domain.outcome import AttemptCounters, Cause, Failure, Outcome, decide
from penstock.domain.retry import Fixed
from penstock.domain.states import Trigger
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import admin, jobs

LEASE = 60_000_000


class Hand:
    """Claims jobs of an application and ends them as told."""

    def __init__(self, app: Penstock) -> None:
        self.store = app.store
        self.lanes = tuple(row.lane for row in self.store.run(admin.definitions()))
        self.id = app._ids.new_id()
        worker = WorkerInfo(id=self.id, name="hand", host="here", pid=1, lanes=self.lanes)
        self.store.run(jobs.register_worker(worker, LEASE))

    def claim(self, limit: int = 100) -> list[Claimed]:
        return self.store.run(jobs.claim(self.id, self.lanes, limit, limited=self.lanes))

    def claim_one(self, job_id: str) -> Claimed:
        (claimed,) = [each for each in self.claim() if each.job_id == job_id]
        return claimed

    def succeed(self, job_id: str, result: str | None = None) -> None:
        self.end(self.claim_one(job_id), self.succeeding(result))

    def ask_review(self, job_id: str, data: str | None = None) -> None:
        outcome = Outcome(Trigger.ASK_REVIEW, Cause.REVIEW, result=data, note="Look at it.", data=data)
        self.end(self.claim_one(job_id), outcome)

    def complete(self, claimed: Claimed, *phases: str) -> None:
        """Complete phases of a claimed job, the first ones first."""
        for position, name in enumerate(phases):
            plan = jobs.save_phase(self.held(claimed), name, position, "completed", result=f'"{name}"')
            self.store.run(plan)

    def held(self, claimed: Claimed) -> Held:
        return Held(claimed.job_id, claimed.fence, self.id)

    def fail(self, job_id: str, failure: Failure) -> None:
        self.end(self.claim_one(job_id), self.failing(failure))

    @staticmethod
    def succeeding(result: str | None = None) -> Outcome:
        return Outcome(Trigger.SUCCEED, Cause.RETURNED, result=result)

    @staticmethod
    def failing(failure: Failure) -> Outcome:
        return Outcome(Trigger.FAIL, Cause.RAISED, failure=failure, retryable=False)

    def end(self, claimed: Claimed, outcome: Outcome) -> None:
        standing = AttemptCounters(claimed.attempt, claimed.max_attempts, claimed.lost)
        settlement = decide(claimed.job_id, claimed.fence, outcome, standing, Fixed(1), 0.5)
        report = self.store.run(jobs.settle(self.id, [settlement]))
        assert report.applied == [claimed.job_id]
