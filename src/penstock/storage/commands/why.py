"""Why jobs wait, and which definitions no worker serves; a part of the admin port."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.domain.definition import Pause, Retirement
from penstock.domain.errors import NotFound
from penstock.domain.ids import is_id
from penstock.domain.plan import Statement, Steps, reads
from penstock.domain.states import BY_CODE, PENDING, Status
from penstock.domain.why import MOST_AHEAD, MOST_HOLDERS, FullLimit, JobFacts, Reason, reasons
from penstock.domain.worker_config import SETTING, disabled_in
from penstock.storage.commands import limits, rows
from penstock.storage.commands.limits import served_lanes

_COLUMNS = (
    "key", "version", "lane", "status", "stored", "due_at", "rank", "blocked", "rate_paid", "limit_key", "worker",
    "started_at", "finished_at", "cancel_at", "concurrency", "key_concurrency", "rate_count", "rate_period",
    "rate_per_key", "now", "pause", "system_pause", "retired",
)  # fmt: skip


@reads
def why(job_id: str) -> Steps[list[Reason]]:
    found = (yield Statement("why_job", {"id": job_id})) if is_id(job_id) else []
    if not found:
        raise NotFound("job", job_id, hint="It was never created here, or it has been deleted.")
    row = dict(zip(_COLUMNS, (*found[0][:20], found[0][20:24], found[0][24:28], found[0][28:]), strict=True))
    facts = _facts(row)
    if facts.status in PENDING:
        facts = yield from _around(job_id, row, facts)
    return reasons(facts)


@reads
def unserved() -> Steps[list[tuple[str, int, int]]]:
    served = yield from served_lanes()
    lanes = {(key, version): lane for key, version, lane in (yield Statement("all_lanes"))}
    waiting: dict[tuple[str, int], int] = {}
    for key, version, status, n in (yield Statement("read_counts")):
        if BY_CODE[status] in PENDING:
            waiting[key, version] = waiting.get((key, version), 0) + n
    return [(*pair, n) for pair, n in sorted(waiting.items()) if n > 0 and lanes[pair] not in served]


@reads
def system_pause() -> Steps[Pause | None]:
    found = yield Statement("system_pause")
    return _pause(found[0][:4], found[0][4]) if found else None


def _facts(row: dict[str, Any]) -> JobFacts:
    """Return the facts in the job's own row and its definition's."""
    stored, now = BY_CODE[row["stored"]], row["now"]
    return JobFacts(
        definition=row["key"], version=row["version"], status=BY_CODE[row["status"]], now=now, due_at=row["due_at"],
        outcome=stored if stored.terminal else None, worker=row["worker"], started_at=row["started_at"],
        finished_at=row["finished_at"], cancel_at=row["cancel_at"], put_off=bool(row["rate_paid"]),
        system_pause=_pause(row["system_pause"], now), pause=_pause(row["pause"], now),
        retired=None if row["retired"][1] is None else Retirement(*row["retired"]),
        key=rows.unscoped(row["limit_key"]),
    )  # fmt: skip


def _around(job_id: str, row: dict[str, Any], facts: JobFacts) -> Steps[JobFacts]:
    """Add what else keeps a waiting job: workers, limits, and jobs ahead of it."""
    served = yield from served_lanes()
    lanes: dict[int, int] = dict((yield Statement("key_lanes", {"key": row["key"]})))
    setting = yield Statement("find_setting", {"name": SETTING})
    facts = replace(
        facts,
        disabled=disabled_in(rows.setting(setting[0]) if setting else None),
        served=row["lane"] in served,
        versions=tuple(version for version, lane in sorted(lanes.items()) if lane in served),
        failing=() if row["lane"] in served else (yield from _failing()),
        concurrency=(yield from _concurrency(row)),
        key_slots=(yield from _key_slots(row)),
        next_token=(yield from _next_token(row)) if facts.status is Status.QUEUED else None,
    )
    place = {"id": job_id, "rank": row["rank"], "lanes": sorted(served), "limit": MOST_AHEAD}
    return replace(facts, ahead=(yield Statement("count_ahead", place))[0][0])


def _failing() -> Steps[tuple[str, ...]]:
    """Live workers that cannot start their application."""
    workers = map(rows.worker, (yield Statement("read_workers")))
    return tuple(each.id for each in workers if each.cannot_load)


def _concurrency(row: dict[str, Any]) -> Steps[FullLimit | None]:
    if not row["concurrency"]:
        return None
    found = yield Statement("running_of", {"key": row["key"], "limit": row["concurrency"]})
    if len(found) < row["concurrency"]:
        return None
    return FullLimit(row["concurrency"], len(found), [holder for (holder,) in found[:MOST_HOLDERS]])


def _key_slots(row: dict[str, Any]) -> Steps[FullLimit | None]:
    if not row["blocked"]:
        return None
    found = yield Statement("admitted_of", {"limit_key": row["limit_key"], "limit": max(1, row["key_concurrency"])})
    if row["rate_count"] and row["rate_per_key"] and found and not 0 < row["key_concurrency"] <= len(found):
        # The rate admits one job after the other.
        return None
    return FullLimit(row["key_concurrency"], len(found), [holder for (holder,) in found[:MOST_HOLDERS]])


def _next_token(row: dict[str, Any]) -> Steps[int | None]:
    """Return when the job's rate lets it start; None: now."""
    name = row["limit_key"] if row["rate_per_key"] else row["key"]
    if not row["rate_count"] or name is None:
        return None
    found = yield Statement("bucket_of", {"name": limits.bucket_name(name, row["rate_count"], row["rate_period"])})
    bucket = limits.Bucket(row["rate_count"], row["rate_period"], found[0][0] if found else 0)
    return None if bucket.tokens(row["now"]) >= 1 else bucket.next_at(row["now"])


def _pause(columns: rows.Row, now: int) -> Pause | None:
    reason, by, at, until = columns
    active = at is not None and (until is None or until > now)
    return Pause(reason, by, at, until) if active else None
