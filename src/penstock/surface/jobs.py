"""`app.jobs`: read, follow and change jobs."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from penstock.domain import paging
from penstock.domain.instant import Duration
from penstock.domain.job import Attempt, Count, Created, Job, Page, Phase, StoredLog
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.surface.job_handle import JobHandle
from penstock.surface.session import PYTHON, Operation, Session

MOST_IN_BULK = 100_000
"""How many jobs one change in bulk looks at by default."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """The outcome of a change in bulk: how many jobs were selected, changed, and left as they were."""

    matched: int
    changed: int
    skipped: int
    """Their status did not allow it, or another job held their unique key."""

    def plus(self, matched: int, changed: int) -> Bulk:
        return Bulk(self.matched + matched, self.changed + changed, self.skipped + matched - changed)


@dataclass(frozen=True, slots=True)
class ListJobs(Operation[Page]):
    call: ClassVar[str] = "jobs.list"
    which: Mapping[str, Any]
    limit: int
    sort: str
    cursor: str | None


@dataclass(frozen=True, slots=True)
class CountJobs(Operation[Count]):
    call: ClassVar[str] = "jobs.count"
    which: Mapping[str, Any]
    cap: int


@dataclass(frozen=True, slots=True)
class ReadJob(Operation[Job]):
    call: ClassVar[str] = "jobs.read"
    job_id: str


@dataclass(frozen=True, slots=True)
class WaitForJob(Operation[Job]):
    call: ClassVar[str] = "jobs.wait"
    job_id: str
    timeout: Duration | None


@dataclass(frozen=True, slots=True)
class ReadAttempts(Operation[list[Attempt]]):
    call: ClassVar[str] = "jobs.attempts"
    job_id: str


@dataclass(frozen=True, slots=True)
class ReadLogs(Operation[list[StoredLog]]):
    call: ClassVar[str] = "jobs.logs"
    job_id: str
    after: int
    limit: int
    level: str | None
    phase: str | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class ReadPhases(Operation[list[Phase]]):
    call: ClassVar[str] = "jobs.phases"
    job_id: str


@dataclass(frozen=True, slots=True)
class ExplainJob(Operation[list[Reason]]):
    call: ClassVar[str] = "jobs.why"
    job_id: str


@dataclass(frozen=True, slots=True)
class CancelJob(Operation[Status]):
    call: ClassVar[str] = "jobs.cancel"
    job_id: str
    by: str | None = None


@dataclass(frozen=True, slots=True)
class RetryJob(Operation[Status]):
    call: ClassVar[str] = "jobs.retry"
    job_id: str
    from_phase: str | None
    fresh: bool
    by: str | None


@dataclass(frozen=True, slots=True)
class RerunJob(Operation[Created]):
    call: ClassVar[str] = "jobs.rerun"
    job_id: str
    params: Mapping[str, Any] | None
    by: str | None
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApproveJob(Operation[Status]):
    call: ClassVar[str] = "jobs.approve"
    job_id: str
    by: str
    note: str | None
    result: Any


@dataclass(frozen=True, slots=True)
class RejectJob(Operation[Status]):
    call: ClassVar[str] = "jobs.reject"
    job_id: str
    by: str
    note: str | None


@dataclass(frozen=True, slots=True)
class DeleteJob(Operation[None]):
    call: ClassVar[str] = "jobs.delete"
    job_id: str
    by: str | None


@dataclass(frozen=True, slots=True)
class RescheduleJob(Operation[Status]):
    call: ClassVar[str] = "jobs.reschedule"
    job_id: str
    run_at: datetime | None
    delay: Duration
    priority: int | None
    by: str | None


@dataclass(frozen=True, slots=True)
class ReprioritiseJob(Operation[None]):
    call: ClassVar[str] = "jobs.reprioritise"
    job_id: str
    priority: int
    by: str | None


@dataclass(frozen=True, slots=True)
class ChangeInBulk(Operation[Bulk]):
    call: ClassVar[str] = "jobs.bulk"
    action: str
    which: Mapping[str, Any]
    dry_run: bool
    limit: int
    everything: bool
    priority: int | None
    by: str | None


class Jobs:
    """Read, follow and change jobs; each call has a twin with an `a` in front, for event loops."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any) -> Page:
        """One page of jobs; the filters are the fields of `JobFilter`, such as `status=["failed"]` or `tag="x"`.

        `error="timed out"` searches the errors and `params={"orderId": 7}` the parameters of the 10,000 newest jobs
        that the other filters select; a search also stops after 50,000 jobs or 64 MB. `Page.searched` says how many
        jobs it was, and `Page.cursor` goes on after them.
        """
        return self._session.do(ListJobs(which, limit, sort, cursor))

    async def alist(
        self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any
    ) -> Page:
        return await self._session.ado(ListJobs(which, limit, sort, cursor))

    def count(self, *, cap: int = 10_000, **which: Any) -> Count:
        """How many jobs the filters select, counted up to `cap`.

        Where several filters are given, about `cap` of the jobs that one of them leaves are looked at; half as many
        where a reference, schedule, parent or failure has to be looked up for each. `capped` says so when there may
        be more. A search by `error` or `params` counts what it finds in one go.
        """
        return self._session.do(CountJobs(which, cap))

    async def acount(self, *, cap: int = 10_000, **which: Any) -> Count:
        return await self._session.ado(CountJobs(which, cap))

    def iterate(self, *, sort: str = "-createdAt", **which: Any) -> Iterator[Job]:
        """All jobs that the filters select, page after page."""
        return paging.every(lambda cursor: self.list(limit=paging.PAGE, sort=sort, cursor=cursor, **which))

    def aiterate(self, *, sort: str = "-createdAt", **which: Any) -> AsyncIterator[Job]:
        return paging.aevery(lambda cursor: self.alist(limit=paging.PAGE, sort=sort, cursor=cursor, **which))

    def read(self, job_id: str) -> Job:
        """Everything that is known of a job now."""
        return self._session.do(ReadJob(job_id))

    async def aread(self, job_id: str) -> Job:
        return await self._session.ado(ReadJob(job_id))

    def wait(self, job_id: str, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended, whatever the outcome; `WaitTimeout` when the time is over first."""
        return self._session.do(WaitForJob(job_id, timeout))

    async def awaited(self, job_id: str, timeout: Duration | None = None) -> Job:
        return await self._session.ado(WaitForJob(job_id, timeout))

    def attempts(self, job_id: str) -> builtins.list[Attempt]:
        """The attempts at a job that have ended, the first one first."""
        return self._session.do(ReadAttempts(job_id))

    async def aattempts(self, job_id: str) -> builtins.list[Attempt]:
        return await self._session.ado(ReadAttempts(job_id))

    def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> builtins.list[StoredLog]:
        """The log lines of a job's attempts after the line whose `seq` is `after`; `level` is the lowest one shown."""
        return self._session.do(ReadLogs(job_id, after, limit, level, phase, attempt))

    async def alogs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> builtins.list[StoredLog]:
        return await self._session.ado(ReadLogs(job_id, after, limit, level, phase, attempt))

    def phases(self, job_id: str) -> builtins.list[Phase]:
        """All phases of a job in their order; those that have not begun are pending."""
        return self._session.do(ReadPhases(job_id))

    async def aphases(self, job_id: str) -> builtins.list[Phase]:
        return await self._session.ado(ReadPhases(job_id))

    def why(self, job_id: str) -> builtins.list[Reason]:
        """All that keeps a job from running, or else what it does now."""
        return self._session.do(ExplainJob(job_id))

    async def awhy(self, job_id: str) -> builtins.list[Reason]:
        return await self._session.ado(ExplainJob(job_id))

    def cancel(self, job_id: str, *, by: str | None = None) -> Status:
        """Ask for a job to be cancelled; the status it has now. `Conflict` when it has ended."""
        return self._session.do(CancelJob(job_id, by))

    async def acancel(self, job_id: str, *, by: str | None = None) -> Status:
        return await self._session.ado(CancelJob(job_id, by))

    def retry(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        """Queue a failed, cancelled or stale job again, with all its attempts; the status it has now.

        Finished phases are kept; `from_phase` begins again with that one, `fresh` with the first.
        """
        return self._session.do(RetryJob(job_id, from_phase, fresh, by))

    async def aretry(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        return await self._session.ado(RetryJob(job_id, from_phase, fresh, by))

    def rerun(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        """Create the same job once more, linked to the old one; `params` go before the old parameters.

        Priority, attempts, reference, tags and webhook are the old job's, where the options do not say otherwise.
        """
        return JobHandle(self, self._session.do(RerunJob(job_id, params, by, options)))

    async def arerun(
        self, job_id: str, params: Mapping[str, Any] | None = None, *, by: str | None = None, **options: Any
    ) -> JobHandle[Any]:
        return JobHandle(self, await self._session.ado(RerunJob(job_id, params, by, options)))

    def approve(self, job_id: str, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        """Approve a review: the job goes on with its next phase, or has succeeded when there is none.

        `result` replaces what the handler gave, as the result of the phase that asked.
        """
        return self._session.do(ApproveJob(job_id, by, note, result))

    async def aapprove(self, job_id: str, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        return await self._session.ado(ApproveJob(job_id, by, note, result))

    def reject(self, job_id: str, *, by: str = PYTHON, note: str | None = None) -> Status:
        """Reject a review: the job has failed, with the note as its error."""
        return self._session.do(RejectJob(job_id, by, note))

    async def areject(self, job_id: str, *, by: str = PYTHON, note: str | None = None) -> Status:
        return await self._session.ado(RejectJob(job_id, by, note))

    def delete(self, job_id: str, *, by: str | None = None) -> None:
        """Remove an ended job and everything that belongs to it; `Conflict` while it has not ended."""
        return self._session.do(DeleteJob(job_id, by))

    async def adelete(self, job_id: str, *, by: str | None = None) -> None:
        return await self._session.ado(DeleteJob(job_id, by))

    def reschedule(
        self,
        job_id: str,
        *,
        run_at: datetime | None = None,
        delay: Duration = 0,
        priority: int | None = None,
        by: str | None = None,
    ) -> Status:
        """Give a job that waits another time, and with `priority` another priority; without `run_at` and `delay` it is
        due now. The status it has now."""
        return self._session.do(RescheduleJob(job_id, run_at, delay, priority, by))

    async def areschedule(
        self,
        job_id: str,
        *,
        run_at: datetime | None = None,
        delay: Duration = 0,
        priority: int | None = None,
        by: str | None = None,
    ) -> Status:
        return await self._session.ado(RescheduleJob(job_id, run_at, delay, priority, by))

    def reprioritise(self, job_id: str, priority: int, *, by: str | None = None) -> None:
        """Change the priority of a job that waits; it keeps its place in time."""
        return self._session.do(ReprioritiseJob(job_id, priority, by))

    async def areprioritise(self, job_id: str, priority: int, *, by: str | None = None) -> None:
        return await self._session.ado(ReprioritiseJob(job_id, priority, by))

    def bulk(
        self,
        action: str,
        *,
        dry_run: bool = False,
        limit: int = MOST_IN_BULK,
        everything: bool = False,
        priority: int | None = None,
        by: str | None = None,
        **which: Any,
    ) -> Bulk:
        """Do one thing to all jobs that filters select: `cancel`, `retry`, `delete` or `reprioritise`.

        The filters are those of `list()`; to mean every job there is, say `everything=True`. At most `limit` jobs are
        looked at, in order of creation and 500 in one transaction. `dry_run` counts and changes nothing.
        """
        return self._session.do(ChangeInBulk(action, which, dry_run, limit, everything, priority, by))

    async def abulk(
        self,
        action: str,
        *,
        dry_run: bool = False,
        limit: int = MOST_IN_BULK,
        everything: bool = False,
        priority: int | None = None,
        by: str | None = None,
        **which: Any,
    ) -> Bulk:
        return await self._session.ado(ChangeInBulk(action, which, dry_run, limit, everything, priority, by))
