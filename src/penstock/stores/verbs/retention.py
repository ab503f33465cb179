"""Retention: ended jobs become stale, then go, and so does what nothing needs any more; a part of the admin port."""

from __future__ import annotations

from penstock.core.admin import Sweep
from penstock.core.plan import Statement, Steps, writes


@writes
def retire(limit: int = 1000) -> Steps[Sweep]:
    held = yield Statement("hold_retired", {"limit": limit})
    stale = [job_id for job_id, announced in held if not announced]
    doomed = [job_id for job_id, announced in held if announced]
    deleted: list[str] = []
    if stale:
        yield Statement("announce_stale", columns={"id": stale})
    if doomed:
        deleted = [job_id for job_id, *_ in (yield Statement("delete_jobs", columns={"id": doomed}))]
    return Sweep(stale, deleted)


@writes
def tidy(age: int, limit: int = 1000) -> Steps[int]:
    """At most `limit` of each kind; how many went in all."""
    gone = len((yield Statement("drop_expired_keys", {"limit": limit})))
    gone += yield from _drop_limiters(limit)
    gone += len((yield Statement("drop_full_buckets", {"limit": limit})))
    for name in ("drop_ended_workers", "drop_old_ticks", "drop_old_minutes", "drop_old_hooks"):
        gone += len((yield Statement(name, {"age": age, "limit": limit})))
    return gone


def _drop_limiters(limit: int) -> Steps[int]:
    """Hold first and look again: whoever creates a job with a concurrency key holds its row before the job is there."""
    unused = [key for (key,) in (yield Statement("hold_unused_limiters", {"limit": limit}))]
    if not unused:
        return 0
    return len((yield Statement("drop_unused_limiters", columns={"limit_key": unused})))
