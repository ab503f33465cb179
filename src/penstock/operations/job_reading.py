"""What an application can read of its jobs: one or many, their attempts, logs and phases, and who works on them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.domain import job_list
from penstock.domain.attempt import Attempt, Phase, StoredLog
from penstock.domain.definition import DefinitionRow
from penstock.domain.errors import InvalidDefinition, InvalidInput, NotFound, WaitTimeout
from penstock.domain.instant import Duration, microseconds
from penstock.domain.job import Job
from penstock.domain.job_list import Count, JobFilter, Page
from penstock.domain.phases import ONLY, all_phases, with_phases
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.domain.worker import WorkerRow
from penstock.operations.secret_search import refuse_secrets
from penstock.operations.session import Conversation, Errand, Pause, Talk
from penstock.storage.commands import admin
from penstock.storage.commands import jobs as verbs

_FIRST_LOOK = 0.02
_LONGEST_LOOK = 0.5
_MOST_LINES = 10_000
_FRESH = 1.0
"""For so many seconds a definition that only the store knows is not read again."""
GONE = "It never was, or retention has removed it."

Counts = dict[tuple[str, int], dict[Status, int]]


class Reading(Conversation):
    """Reads jobs and what belongs to them; each call has a twin with an `a` in front, for event loops."""

    _rows: dict[tuple[str, int | None], tuple[float, DefinitionRow]]

    def jobs(self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any) -> Page:
        """One page of jobs; the filters are the fields of `JobFilter`, such as `status=["failed"]` or `tag="x"`.

        `error="timed out"` searches the errors and `params={"orderId": 7}` the parameters of the 10,000 newest jobs
        that the other filters select; a search also stops after 50,000 jobs or 64 MB. `Page.searched` says how many
        jobs it was, and `Page.cursor` goes on after them.
        """
        return self._do(self._jobs(which, limit, sort, cursor))

    async def ajobs(
        self, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None, **which: Any
    ) -> Page:
        return await self._ado(self._jobs(which, limit, sort, cursor))

    def count_jobs(self, *, cap: int = 10_000, **which: Any) -> Count:
        """How many jobs the filters speak of, counted up to `cap`.

        Where several filters are given, about `cap` of the jobs that one of them leaves are looked at; half as many
        where a reference, schedule, parent or failure has to be looked up for each. `capped` says so when there may
        be more. A search by `error` or `params` counts what it finds in one go.
        """
        return self._do(self._count_jobs(which, cap))

    async def acount_jobs(self, *, cap: int = 10_000, **which: Any) -> Count:
        return await self._ado(self._count_jobs(which, cap))

    def iter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> Iterator[Job]:
        """All jobs that the filters speak of, page after page."""
        return job_list.every(lambda cursor: self.jobs(limit=job_list.PAGE, sort=sort, cursor=cursor, **which))

    def aiter_jobs(self, *, sort: str = "-createdAt", **which: Any) -> AsyncIterator[Job]:
        return job_list.aevery(lambda cursor: self.ajobs(limit=job_list.PAGE, sort=sort, cursor=cursor, **which))

    def read_job(self, job_id: str) -> Job:
        """What is known of a job now."""
        return self._do(self._read_job(job_id))

    async def aread_job(self, job_id: str) -> Job:
        return await self._ado(self._read_job(job_id))

    def wait_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        """Wait until a job has ended."""
        return self._do(self._wait_for(job_id, timeout))

    async def await_for(self, job_id: str, timeout: Duration | None = None) -> Job:
        return await self._ado(self._wait_for(job_id, timeout))

    def attempts(self, job_id: str) -> list[Attempt]:
        """The attempts at a job that have ended, the first one first."""
        return self._do(self._attempts(job_id))

    async def aattempts(self, job_id: str) -> list[Attempt]:
        return await self._ado(self._attempts(job_id))

    def logs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> list[StoredLog]:
        """What a job's attempts wrote, after the line whose `seq` is `after`; `level` is the lowest one shown."""
        return self._do(self._logs(job_id, after, limit, level, phase, attempt))

    async def alogs(
        self,
        job_id: str,
        *,
        after: int = 0,
        limit: int = 500,
        level: str | None = None,
        phase: str | None = None,
        attempt: int | None = None,
    ) -> list[StoredLog]:
        return await self._ado(self._logs(job_id, after, limit, level, phase, attempt))

    def phases(self, job_id: str) -> list[Phase]:
        """All phases of a job in their order; those that have not begun are pending."""
        return self._do(self._phases(job_id))

    async def aphases(self, job_id: str) -> list[Phase]:
        return await self._ado(self._phases(job_id))

    def why(self, job_id: str) -> list[Reason]:
        """All that keeps a job from running, or else what it does now."""
        return self._do(self._why(job_id))

    async def awhy(self, job_id: str) -> list[Reason]:
        return await self._ado(self._why(job_id))

    def counts(self) -> Counts:
        """How many jobs of each (definition, version) stand in each status."""
        return self._do(self._counts())

    async def acounts(self) -> Counts:
        return await self._ado(self._counts())

    def workers(self) -> list[WorkerRow]:
        """The workers that the store knows, those that ended not long ago included."""
        return self._do(self._workers())

    async def aworkers(self) -> list[WorkerRow]:
        return await self._ado(self._workers())

    def definitions_known(self) -> list[DefinitionRow]:
        """The definitions that the store knows, whichever application made them known."""
        return self._do(self._definitions_known())

    async def adefinitions_known(self) -> list[DefinitionRow]:
        return await self._ado(self._definitions_known())

    def _jobs(self, which: Mapping[str, Any], limit: int, sort: str, cursor: str | None) -> Talk[Page]:
        chosen = given.job_filter(which)
        yield from self._refuse_secrets(chosen)
        page: Page = yield admin.page(chosen, limit=given.integer(limit, "limit"), sort=sort, cursor=cursor)
        return page

    def _count_jobs(self, which: Mapping[str, Any], cap: int) -> Talk[Count]:
        if given.integer(cap, "cap") < 1:
            raise InvalidInput(f"cap must be at least 1, not {cap}.")
        chosen = given.job_filter(which)
        yield from self._refuse_secrets(chosen)
        counted: Count = yield admin.count(chosen, cap)
        return counted

    def _refuse_secrets(self, which: JobFilter) -> Talk[None]:
        """Refuse a search for a value that is secret, for answers would tell whether a guess is right."""
        if which.params is None:
            return
        known: list[DefinitionRow] = yield admin.definitions()
        for row in known:
            if which.definition_key in (None, row.definition.key):
                refuse_secrets([name for name, _ in which.params], row)

    def _read_job(self, job_id: str) -> Talk[Job]:
        asked = given.job_id(job_id)
        errands = self._errands
        if errands is not None:
            job: Job = yield Errand(partial(errands.read, asked))
            return job
        return (yield from self._stored_job(asked))

    def _stored_job(self, job_id: str) -> Talk[Job]:
        """A job as the store has it, for calls that need the store in any case."""
        asked = given.job_id(job_id)
        found: list[Job] = yield admin.get([asked])
        if not found:
            raise NotFound("job", asked, hint=GONE)
        return found[0]

    def _wait_for(self, job_id: str, timeout: Duration | None) -> Talk[Job]:
        seconds = None if timeout is None else microseconds(timeout, "timeout") / 1e6
        end = None if seconds is None else time.monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            job = yield from self._read_job(job_id)
            if job.status.terminal:
                return job
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                raise WaitTimeout(
                    f"Job {job.id} is still {job.status} after {seconds:g} s.", hint="It goes on; wait again."
                )
            yield Pause(min(pause, left))
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _attempts(self, job_id: str) -> Talk[list[Attempt]]:
        job = yield from self._stored_job(job_id)
        found: list[Attempt] = yield admin.attempts(job.id)
        return with_phases(job, found, (yield from self._phase_names(job)))

    def _logs(
        self, job_id: str, after: int, limit: int, level: str | None, phase: str | None, attempt: int | None
    ) -> Talk[list[StoredLog]]:
        if not 1 <= given.integer(limit, "limit") <= _MOST_LINES:
            raise InvalidInput(f"limit must be 1 to {_MOST_LINES}, not {limit}.")
        job = yield from self._stored_job(job_id)
        after = given.integer(after, "after")
        found: list[StoredLog] = yield admin.logs(
            job.id, after=after, limit=limit, level=level, phase=phase, fence=attempt
        )
        return found

    def _phases(self, job_id: str) -> Talk[list[Phase]]:
        job = yield from self._stored_job(job_id)
        names = yield from self._phase_names(job)
        found: list[Phase] = yield verbs.phases(job.id)
        return all_phases(job, names, found)

    def _phase_names(self, job: Job) -> Talk[tuple[str, ...]]:
        """As far as they are known: a definition that cannot be read keeps no job from being shown."""
        try:
            return (yield from self._definition(job.definition_key, job.definition_version)).definition.phases
        except (NotFound, InvalidDefinition):
            return (ONLY,)

    def _why(self, job_id: str) -> Talk[list[Reason]]:
        reasons: list[Reason] = yield admin.why(given.job_id(job_id))
        return reasons

    def _counts(self) -> Talk[Counts]:
        found: Counts = yield admin.counts()
        return found

    def _workers(self) -> Talk[list[WorkerRow]]:
        found: list[WorkerRow] = yield admin.workers()
        return found

    def _definitions_known(self) -> Talk[list[DefinitionRow]]:
        found: list[DefinitionRow] = yield admin.definitions()
        return [row for row in found if not row.removed]

    def _definition(self, key: str, version: int | None) -> Talk[DefinitionRow]:
        """A definition as the store has it, read not long ago."""
        read_at, row = self._rows.get((key, version), (0.0, None))
        if row is None or time.monotonic() - read_at > _FRESH:
            row = yield admin.definition(key, version)
            self._rows[key, version] = time.monotonic(), row
        return row
