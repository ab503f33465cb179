"""Reads jobs: one or many, with their attempts, logs and phases."""

from __future__ import annotations

import time
from functools import partial

from penstock.domain.definition import DefinitionRow
from penstock.domain.errors import InvalidDefinition, InvalidInput, NotFound, WaitTimeout
from penstock.domain.instant import microseconds
from penstock.domain.job import Attempt, Count, Job, JobFilter, Page, Phase, StoredLog
from penstock.domain.phases import ONLY, all_phases, with_phases
from penstock.domain.why import Reason
from penstock.operations.secret_search import refuse_secrets
from penstock.operations.session import ApplicationSession, Errand, Pause, Talk
from penstock.storage.commands import admin
from penstock.storage.commands import jobs as commands
from penstock.surface import enqueue_options as given
from penstock.surface.jobs import (
    CountJobs,
    ExplainJob,
    ListJobs,
    ReadAttempts,
    ReadJob,
    ReadLogs,
    ReadPhases,
    WaitForJob,
)

_FIRST_LOOK = 0.02
_LONGEST_LOOK = 0.5
_MOST_LINES = 10_000
_FRESH = 1.0
"""For so many seconds a definition that only the store knows is not read again."""
GONE = "It never was, or retention has removed it."


def list_jobs(_: ApplicationSession, asked: ListJobs) -> Talk[Page]:
    chosen = given.job_filter(asked.which)
    yield from _refuse_secrets(chosen)
    limit = given.integer(asked.limit, "limit")
    page: Page = yield admin.page(chosen, limit=limit, sort=asked.sort, cursor=asked.cursor)
    return page


def count_jobs(_: ApplicationSession, asked: CountJobs) -> Talk[Count]:
    if given.integer(asked.cap, "cap") < 1:
        raise InvalidInput(f"cap must be at least 1, not {asked.cap}.")
    chosen = given.job_filter(asked.which)
    yield from _refuse_secrets(chosen)
    counted: Count = yield admin.count(chosen, asked.cap)
    return counted


def read_job(session: ApplicationSession, asked: ReadJob) -> Talk[Job]:
    job_id = given.job_id(asked.job_id)
    errands = session.errands
    if errands is not None:
        job: Job = yield Errand(partial(errands.read, job_id))
        return job
    return (yield from stored_job(job_id))


def wait_for_job(session: ApplicationSession, asked: WaitForJob) -> Talk[Job]:
    seconds = None if asked.timeout is None else microseconds(asked.timeout, "timeout") / 1e6
    end = None if seconds is None else time.monotonic() + seconds
    pause = _FIRST_LOOK
    while True:
        job = yield from read_job(session, ReadJob(asked.job_id))
        if job.status.terminal:
            return job
        left = pause if end is None else end - time.monotonic()
        if left <= 0:
            raise WaitTimeout(
                f"Job {job.id} is still {job.status} after {seconds:g} s.", hint="It goes on; wait again."
            )
        yield Pause(min(pause, left))
        pause = min(_LONGEST_LOOK, pause * 1.5)


def read_attempts(session: ApplicationSession, asked: ReadAttempts) -> Talk[list[Attempt]]:
    job = yield from stored_job(asked.job_id)
    found: list[Attempt] = yield admin.attempts(job.id)
    return with_phases(job, found, (yield from _phase_names(session, job)))


def read_logs(_: ApplicationSession, asked: ReadLogs) -> Talk[list[StoredLog]]:
    if not 1 <= given.integer(asked.limit, "limit") <= _MOST_LINES:
        raise InvalidInput(f"limit must be 1 to {_MOST_LINES}, not {asked.limit}.")
    job = yield from stored_job(asked.job_id)
    found: list[StoredLog] = yield admin.logs(
        job.id,
        after=given.integer(asked.after, "after"),
        limit=asked.limit,
        level=asked.level,
        phase=asked.phase,
        fence=asked.attempt,
    )
    return found


def read_phases(session: ApplicationSession, asked: ReadPhases) -> Talk[list[Phase]]:
    job = yield from stored_job(asked.job_id)
    names = yield from _phase_names(session, job)
    found: list[Phase] = yield commands.phases(job.id)
    return all_phases(job, names, found)


def explain_job(_: ApplicationSession, asked: ExplainJob) -> Talk[list[Reason]]:
    reasons: list[Reason] = yield admin.why(given.job_id(asked.job_id))
    return reasons


def stored_job(job_id: str) -> Talk[Job]:
    """A job as the store has it, for operations that need the store in any case."""
    asked = given.job_id(job_id)
    found: list[Job] = yield admin.get([asked])
    if not found:
        raise NotFound("job", asked, hint=GONE)
    return found[0]


def known_definition(session: ApplicationSession, key: str, version: int | None) -> Talk[DefinitionRow]:
    """A definition as the store has it, read not long ago."""
    rows = session.memory.rows
    read_at, row = rows.get((key, version), (0.0, None))
    if row is None or time.monotonic() - read_at > _FRESH:
        row = yield admin.definition(key, version)
        rows[key, version] = time.monotonic(), row
    return row


def _refuse_secrets(which: JobFilter) -> Talk[None]:
    """Refuse a search for a value that is secret, for answers would tell whether a guess is right."""
    if which.params is None:
        return
    known: list[DefinitionRow] = yield admin.definitions()
    for row in known:
        if which.definition_key in (None, row.definition.key):
            refuse_secrets([name for name, _ in which.params], row)


def _phase_names(session: ApplicationSession, job: Job) -> Talk[tuple[str, ...]]:
    """As far as they are known: a definition that cannot be read keeps no job from being shown."""
    try:
        row = yield from known_definition(session, job.definition_key, job.definition_version)
    except (NotFound, InvalidDefinition):
        return (ONLY,)
    return row.definition.phases
