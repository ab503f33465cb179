"""Reading jobs, attempts, logs and reviews; a part of the admin port."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from penstock.domain.attempt import Attempt, Phase, Review, StoredLog
from penstock.domain.errors import InvalidInput
from penstock.domain.ids import is_id
from penstock.domain.job import Job
from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Statement, Steps, reads
from penstock.storage.commands import rows
from penstock.storage.commands.filters import filters

LEVELS = ("debug", "info", "warning", "error")


@reads
def get(job_ids: Sequence[str]) -> Steps[list[Job]]:
    wanted = tuple(job_id for job_id in dict.fromkeys(job_ids) if is_id(job_id))
    if not wanted:
        return []
    parts, values = filters(JobFilter(job_id=wanted))
    values["limit"] = len(wanted)
    read = yield Statement("read_jobs", values, parts=parts, order="order_created_up")
    found = {row[0]: rows.job(row) for row in read}
    return [found[job_id] for job_id in job_ids if job_id in found]


@reads
def attempts(job_id: str) -> Steps[list[Attempt]]:
    if not is_id(job_id):
        return []
    found = [rows.attempt(row) for row in (yield Statement("read_attempts", {"id": job_id}))]
    return (yield from with_attempt_phases(found)) if found else []


def with_attempt_phases(found: Sequence[Attempt]) -> Steps[list[Attempt]]:
    """Return attempts with their recorded phases."""
    tries: dict[tuple[str, int], list[Phase]] = defaultdict(list)
    ids = list(dict.fromkeys(each.job_id for each in found))
    for phase in map(rows.phase, (yield Statement("attempt_phases", columns={"id": ids})) if ids else ()):
        tries[phase.job_id, phase.fence].append(phase)
    return [replace(each, phases=tuple(tries[each.job_id, each.fence])) for each in found]


@reads
def logs(
    job_id: str, *, after: int = 0, limit: int = 500, level: str | None = None, phase: str | None = None,
    fence: int | None = None,
) -> Steps[list[StoredLog]]:  # fmt: skip
    """`level` is the lowest one shown."""
    if level is not None and level not in LEVELS:
        raise InvalidInput(f"There is no log level {level!r}.", hint=f"Levels are {', '.join(LEVELS)}.")
    if not is_id(job_id):
        return []
    values = {
        "id": job_id, "after": after, "limit": limit, "level": LEVELS.index(level or "debug"), "phase": phase,
        "fence": fence,
    }  # fmt: skip
    return [rows.log(row) for row in (yield Statement("read_logs", values))]


@reads
def reviews(job_id: str) -> Steps[list[Review]]:
    if not is_id(job_id):
        return []
    return [rows.review(row) for row in (yield Statement("read_reviews", {"id": job_id}))]
