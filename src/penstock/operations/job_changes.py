"""What an application can do to jobs that are there, one by one or in bulk."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from types import EllipsisType
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON
from penstock.domain import payload
from penstock.domain.attempt import Phase
from penstock.domain.definition import check_priority
from penstock.domain.errors import Conflict, InvalidInput, NotFound
from penstock.domain.instant import Duration
from penstock.domain.job import Job
from penstock.domain.states import Status, Trigger, allowed
from penstock.operations.bulk import MOST, Bulk, BulkChange
from penstock.operations.job_reading import GONE, Reading
from penstock.operations.session import Errand, Talk, not_inside_a_job
from penstock.storage.commands import control
from penstock.storage.commands import jobs as verbs


class Control(Reading):
    """Changes jobs; each call has a twin with an `a` in front, for event loops."""

    def cancel_job(self, job_id: str, *, by: str | None = None) -> Status:
        """Ask for a job to be cancelled; the status it has now."""
        return self._do(self._cancel_job(job_id, by))

    async def acancel_job(self, job_id: str, *, by: str | None = None) -> Status:
        return await self._ado(self._cancel_job(job_id, by))

    def retry_job(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        """Queue a failed, cancelled or stale job again, with all its attempts; the status it has now.

        Finished phases are kept; `from_phase` begins again with that one, `fresh` with the first.
        """
        return self._do(self._retry_job(job_id, from_phase, fresh, by))

    async def aretry_job(
        self, job_id: str, *, from_phase: str | None = None, fresh: bool = False, by: str | None = None
    ) -> Status:
        return await self._ado(self._retry_job(job_id, from_phase, fresh, by))

    def approve_job(self, job_id: str, *, by: str = PYTHON, note: str | None = None, result: Any = ...) -> Status:
        """Say yes to a review: the job goes on with its next phase, or has succeeded when there is none.

        `result` stands in for what the handler gave, as the result of the phase that asked.
        """
        return self._do(self._approve_job(job_id, by, note, result))

    async def aapprove_job(
        self, job_id: str, *, by: str = PYTHON, note: str | None = None, result: Any = ...
    ) -> Status:
        return await self._ado(self._approve_job(job_id, by, note, result))

    def reject_job(self, job_id: str, *, by: str = PYTHON, note: str | None = None) -> Status:
        """Say no to a review: the job has failed, with the note as its error."""
        return self._do(self._reject_job(job_id, by, note))

    async def areject_job(self, job_id: str, *, by: str = PYTHON, note: str | None = None) -> Status:
        return await self._ado(self._reject_job(job_id, by, note))

    def delete_job(self, job_id: str, *, by: str | None = None) -> None:
        """Remove an ended job and everything that belongs to it; `Conflict` while it has not ended."""
        return self._do(self._delete_job(job_id, by))

    async def adelete_job(self, job_id: str, *, by: str | None = None) -> None:
        return await self._ado(self._delete_job(job_id, by))

    def reschedule_job(
        self,
        job_id: str,
        *,
        run_at: datetime | None = None,
        delay: Duration = 0,
        priority: int | None = None,
        by: str | None = None,
    ) -> Status:
        """Give a job that waits another time, and another priority at once; without `run_at` and `delay` it is due
        now. The status it has now."""
        return self._do(self._reschedule_job(job_id, run_at, delay, priority, by))

    async def areschedule_job(
        self,
        job_id: str,
        *,
        run_at: datetime | None = None,
        delay: Duration = 0,
        priority: int | None = None,
        by: str | None = None,
    ) -> Status:
        return await self._ado(self._reschedule_job(job_id, run_at, delay, priority, by))

    def reprioritise_job(self, job_id: str, priority: int, *, by: str | None = None) -> None:
        """Change the priority of a job that waits; it keeps its place in time."""
        return self._do(self._reprioritise_job(job_id, priority, by))

    async def areprioritise_job(self, job_id: str, priority: int, *, by: str | None = None) -> None:
        return await self._ado(self._reprioritise_job(job_id, priority, by))

    def bulk(
        self,
        action: str,
        *,
        dry_run: bool = False,
        limit: int = MOST,
        everything: bool = False,
        priority: int | None = None,
        by: str | None = None,
        **which: Any,
    ) -> Bulk:
        """Do one thing to all jobs that filters speak of: `cancel`, `retry`, `delete` or `reprioritise`.

        The filters are those of `jobs()`; to mean every job there is, say `everything=True`. At most `limit` jobs are
        looked at, in order of creation and 500 in one transaction. `dry_run` counts and changes nothing.
        """
        return self._do(self._bulk(BulkChange(action, limit, everything, priority, by, which), dry_run))

    async def abulk(
        self,
        action: str,
        *,
        dry_run: bool = False,
        limit: int = MOST,
        everything: bool = False,
        priority: int | None = None,
        by: str | None = None,
        **which: Any,
    ) -> Bulk:
        return await self._ado(self._bulk(BulkChange(action, limit, everything, priority, by, which), dry_run))

    def _cancel_job(self, job_id: str, by: str | None) -> Talk[Status]:
        asked = given.job_id(job_id)
        errands = self._errands
        if errands is not None:
            if by is not None:
                raise not_inside_a_job("cancel_job with by=")
            status: Status = yield Errand(partial(errands.cancel, asked))
            return status
        statuses: dict[str, Status] = yield control.cancel([asked], by=given.actor(by))
        if asked not in statuses:
            raise NotFound("job", asked, hint=GONE)
        self._ring()
        return statuses[asked]

    def _retry_job(self, job_id: str, from_phase: str | None, fresh: bool, by: str | None) -> Talk[Status]:
        if fresh and from_phase is not None:
            raise InvalidInput("Give from_phase or fresh, not both.")
        job = yield from self._stored_job(job_id)
        position = 0 if fresh else None
        if from_phase is not None:
            position = yield from self._position(job, from_phase)
        if not allowed(job.status, Trigger.RETRY):
            raise _cannot(job, "be retried")
        statuses: dict[str, Status] = yield control.retry([job.id], from_position=position, by=given.actor(by))
        if job.id not in statuses:
            raise NotFound("job", job.id, hint=GONE)
        self.guarded_queue.publish([job.id])
        return statuses[job.id]

    def _position(self, job: Job, phase: str) -> Talk[int]:
        row = yield from self._definition(job.definition_key, job.definition_version)
        names = row.definition.phases
        if phase not in names:
            raise InvalidInput(
                f"{job.definition_key} has no phase {phase!r:.80}.", hint=f"There are: {', '.join(names)}."
            )
        return names.index(phase)

    def _approve_job(self, job_id: str, by: str, note: str | None, result: Any | EllipsisType) -> Talk[Status]:
        text = None if result is ... else payload.encode(result, "result")
        job = yield from self._stored_job(job_id)
        finished = yield from self._in_last_phase(job)
        verb = control.approve(job.id, by=_named(by), note=given.note(note), result=text, finished=finished)
        status: Status = yield verb
        self.guarded_queue.publish([job.id])
        return status

    def _in_last_phase(self, job: Job) -> Talk[bool]:
        """Whether no phase is left after the one that the job stands in.

        The phases that are on record tell; the current phase alone may be a stage that the handler made up.
        """
        row = yield from self._definition(job.definition_key, job.definition_version)
        names = row.definition.phases
        if len(names) == 1:
            return True
        kept: list[Phase] = yield verbs.phases(job.id)
        if kept:
            return sum(each.status == "completed" for each in kept) >= len(names) - 1
        return job.current_phase == names[-1]

    def _reject_job(self, job_id: str, by: str, note: str | None) -> Talk[Status]:
        status: Status = yield control.reject(given.job_id(job_id), by=_named(by), note=given.note(note))
        self._ring()
        return status

    def _delete_job(self, job_id: str, by: str | None) -> Talk[None]:
        asked = given.job_id(job_id)
        gone: list[str] = yield control.delete([asked], by=given.actor(by))
        if not gone:
            raise _cannot((yield from self._stored_job(asked)), "be deleted")

    def _reschedule_job(
        self, job_id: str, run_at: datetime | None, delay: Duration, priority: int | None, by: str | None
    ) -> Talk[Status]:
        due, later = given.due(run_at, delay)
        asked = given.job_id(job_id)
        if priority is not None:
            check_priority(priority, asked)
        actor = given.actor(by)
        status: Status = yield control.reschedule(asked, due=due, delay=later, priority=priority, by=actor)
        self.guarded_queue.publish([asked])
        return status

    def _reprioritise_job(self, job_id: str, priority: int, by: str | None) -> Talk[None]:
        asked = given.job_id(job_id)
        check_priority(priority, asked)
        changed: list[str] = yield control.reprioritise([asked], priority, by=given.actor(by))
        if not changed:
            raise _cannot((yield from self._stored_job(asked)), "be given another priority")

    def _bulk(self, change: BulkChange, dry_run: bool) -> Talk[Bulk]:
        total = Bulk(0, 0, 0)
        after: str | None = None
        while (room := change.room(total)) > 0:
            matched: list[str] = yield control.select(change.which, room, after)
            if not matched:
                break
            after = matched[-1]
            fit: list[str] = yield control.select(change.fitting(matched), len(matched))
            changed = len(fit) if dry_run else (yield from self._change(change, fit))
            total = total.plus(len(matched), changed)
        return total

    def _change(self, change: BulkChange, job_ids: list[str]) -> Talk[int]:
        """Change one batch; one that a unique key keeps from being retried must not keep the others."""
        if not job_ids:
            return 0
        try:
            changed = change.changed((yield change.plan(job_ids)))
        except Conflict:
            if len(job_ids) == 1:
                return 0
            count = 0
            for each in job_ids:
                count += yield from self._change(change, [each])
            return count
        if changed and change.action == "retry":
            self.guarded_queue.publish(changed)
        elif changed:
            self._ring()
        return len(changed)


def _cannot(job: Job, wish: str) -> Conflict:
    """The error for a job that stands where this cannot be done to it."""
    hint = "Wait until it has ended, or cancel it first."
    if job.status.terminal:
        hint = "Run it again as another job: rerun_job."
    return Conflict(f"Job {job.id} is {job.status} and cannot {wish}.", job_id=job.id, hint=hint)


def _named(by: str) -> str:
    who = given.actor(by)
    return PYTHON if who is None else who
