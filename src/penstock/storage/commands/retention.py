"""Retention: ended jobs become stale and are deleted, with everything unused; a part of the admin port."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.domain.attempt import Attempt, Phase, Review, StoredLog
from penstock.domain.event import Event
from penstock.domain.instant import MINUTE
from penstock.domain.maintenance import ArchivedJob, RetentionBatch
from penstock.domain.phases import ONLY, with_phases
from penstock.domain.plan import Rows, Statement, Steps, writes
from penstock.storage.commands import rows, undeclared
from penstock.storage.commands.reading import get, with_attempt_phases
from penstock.storage.commands.registration import definitions, retention_periods

T = TypeVar("T")

_BEFORE_ALL_IDS = "00000000-0000-0000-0000-000000000000"
_LOOKED_AT = 1000
"""The number of jobs with many attempts that one call prunes."""

_BY_AGE = (
    "drop_ended_workers", "drop_old_ticks", "drop_old_spans", "drop_old_lengths", "drop_old_hooks", "drop_old_tokens",
    "drop_old_alerts",
)  # fmt: skip


@writes
def apply_defaults() -> Steps[int]:
    known = [row for row in (yield from definitions().steps()) if row.error is None]
    times = yield from retention_periods([row.definition for row in known])
    if not known or times is None:
        return 0
    return len((yield Statement("save_retention", columns={"lane": [row.lane for row in known], **times})))


@writes
def retire(limit: int = 1000, *, delete: bool = True) -> Steps[RetentionBatch]:
    held = yield Statement("hold_retired" if delete else "hold_stale", {"limit": limit})
    stale = [job_id for job_id, announced in held if not announced]
    doomed = [job_id for job_id, announced in held if announced]
    deleted: list[str] = []
    if stale:
        yield Statement("announce_stale", columns={"id": stale})
    if doomed:
        deleted = [job_id for job_id, *_ in (yield Statement("delete_jobs", columns={"id": doomed}))]
    return RetentionBatch(stale, deleted)


@writes
def take_for_archive(limit: int = 50, hold: int = MINUTE) -> Steps[list[ArchivedJob]]:
    marks: dict[str, int] = dict((yield Statement("take_for_archive", {"limit": limit, "hold": hold})))
    if not marks:
        return []
    found = yield from get(sorted(marks)).steps()
    ids = [job.id for job in found]
    known = {
        (row.definition.key, row.definition.version): row.definition
        for row in (yield from definitions().steps())
        if not row.error
    }
    attempts: Mapping[str, Sequence[Attempt]] = yield from _attempts(ids)
    phases: Mapping[str, Sequence[Phase]] = yield from _by_job("phases_of", ids, rows.phase)
    reviews: Mapping[str, Sequence[Review]] = yield from _by_job("reviews_of", ids, rows.review)
    logs: Mapping[str, Sequence[StoredLog]] = yield from _by_job("logs_of", ids, lambda row: rows.log(row[1:]))
    events: Mapping[str, Sequence[Event]] = yield from _by_job("events_of", ids, rows.stored_event, key=3)
    return [
        ArchivedJob(
            job=job,
            mark=marks[job.id],
            secret_fields=definition.secret_fields if definition else None,
            attempts=with_phases(job, attempts[job.id], definition.phases if definition else (ONLY,)),
            phases=phases[job.id],
            reviews=reviews[job.id],
            logs=logs[job.id],
            events=events[job.id],
        )
        for job in found
        for definition in [known.get((job.definition_key, job.definition_version))]
    ]


@writes
def delete_archived(marks: Mapping[str, int]) -> Steps[list[str]]:
    if not marks:
        return []
    columns: dict[str, Sequence[Any]] = {"id": list(marks), "updated_at": list(marks.values())}
    held = [job_id for (job_id,) in (yield Statement("hold_archived", columns=columns))]
    if not held:
        return []
    return [job_id for job_id, *_ in (yield Statement("delete_jobs", columns={"id": held}))]


@writes
def prune_attempts(limit: int = 20, after: str = "") -> Steps[str | None]:
    seen = yield Statement("long_histories", {"after": after or _BEFORE_ALL_IDS, "limit": _LOOKED_AT})
    old = {job_id: upto for job_id, upto, some in seen if some}
    taken = list(old)[:limit]
    if not taken:
        return seen[-1][0] if len(seen) == _LOOKED_AT else None
    columns: dict[str, Sequence[Any]] = {"id": taken, "upto": [old[each] for each in taken]}
    unfinished = {job_id for job_id, more in (yield Statement("prune_attempts", columns=columns)) if more}
    done = after
    for job_id in taken:
        if job_id in unfinished:
            return done
        done = job_id
    return done if len(old) > limit or len(seen) == _LOOKED_AT else None


@writes
def tidy(age: int, limit: int = 1000) -> Steps[int]:
    """At most `limit` of each kind; how many went in all."""
    gone = len((yield Statement("drop_expired_keys", {"limit": limit})))
    gone += len((yield Statement("drop_full_buckets", {"limit": limit})))
    gone += len((yield Statement("drop_expired_sessions", {"limit": limit})))
    gone += len((yield Statement("drop_old_deliveries", {"age": age, "limit": limit})))
    gone += yield from _drop_receivers(age, limit)
    yield from undeclared.note_declared()
    yield from undeclared.show_unfinished()
    for name in _BY_AGE:
        gone += len((yield Statement(name, {"age": age, "limit": limit})))
    return gone


def _by_job(name: str, ids: Sequence[str], read: Callable[[Any], T], key: int = 0) -> Steps[Mapping[str, Sequence[T]]]:
    """Return the records that a statement finds of these jobs, by job."""
    found: Rows = yield Statement(name, columns={"id": ids})
    by_job: dict[str, list[T]] = defaultdict(list)
    for row in found:
        by_job[row[key]].append(read(row))
    return by_job


def _attempts(ids: Sequence[str]) -> Steps[Mapping[str, Sequence[Attempt]]]:
    found: Rows = yield Statement("attempts_of", columns={"id": ids})
    by_job: dict[str, list[Attempt]] = defaultdict(list)
    for each in (yield from with_attempt_phases([rows.attempt(row) for row in found])):
        by_job[each.job_id].append(each)
    return by_job


def _drop_receivers(age: int, limit: int) -> Steps[int]:
    """Lock receivers of webhooks and check again: a transaction that creates a delivery locks its receiver."""
    idle = [key for (key,) in (yield Statement("hold_idle_receivers", {"age": age, "limit": limit}))]
    if not idle:
        return 0
    return len((yield Statement("drop_idle_receivers", columns={"key": idle})))
