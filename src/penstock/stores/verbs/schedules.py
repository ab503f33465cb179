"""The schedules port: what runs by itself, and the ticks that were made of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.core import event as kinds
from penstock.core.definition import Pause
from penstock.core.errors import NotFound, RevisionConflict
from penstock.core.instant import maybe_datetime, to_datetime
from penstock.core.job import Draft
from penstock.core.plan import Statement, Steps, reads, writes, writes_once
from penstock.core.schedule import Kind, Missed, Overlap, Schedule, ScheduleRow, Tick, Ticked
from penstock.core.secrets import mask_params
from penstock.stores.verbs import audit, definitions, jobs, rows

_APART = ("key", "owner", "enabled", "next_run_at")
"""Fields that have a column of their own and are left out of the text."""
_LONGEST_ERROR = 300


def to_text(schedule: Schedule) -> str:
    """A schedule as JSON text; its fields keep their names."""
    facts = {name: value for name, value in dataclasses.asdict(schedule).items() if name not in _APART}
    return json.dumps(facts, ensure_ascii=False)


def from_text(text: str, **apart: Any) -> Schedule:
    """The schedule that `to_text` wrote, with the fields that are kept apart."""
    facts = json.loads(text)
    facts |= {"kind": Kind(facts["kind"]), "missed": Missed(facts["missed"]), "overlap": Overlap(facts["overlap"])}
    return Schedule(**facts, **apart)


@writes_once
def save(schedule: Schedule, *, by: str, revision: int | None = None) -> Steps[ScheduleRow]:
    """A `next_run_at` that is not after the mark leaves the stored one as it is; the same again changes nothing.
    `revision` 0 means that there must be none yet."""
    stored = yield from _find(schedule.key)
    if stored is None and not revision:
        made = yield Statement("create_schedule", _values(_ended_if_over(schedule)))
        if made:
            yield audit.entry(by, "schedule.create", schedule.key, None, (yield from _facts(schedule)))
            return _row(made[0])
        stored = yield from _find(schedule.key)
    if revision is not None and (stored is None or stored.revision != revision):
        raise _other_revision(schedule.key, stored, revision)
    if stored is None:
        raise NotFound("schedule", schedule.key, hint="Somebody removed it just now; save it again.")
    wanted = _ended_if_over(_after_mark(schedule, stored))
    if wanted == stored.schedule and stored.error is None:
        return stored
    changed = yield Statement("replace_schedule", _values(wanted))
    before, after = (yield from _stored_facts(stored)), (yield from _facts(wanted))
    yield audit.entry(by, "schedule.replace", schedule.key, before, after)
    return _row(changed[0])


@reads
def get(key: str) -> Steps[ScheduleRow]:
    found = yield Statement("read_schedule", {"key": key})
    if not found:
        raise _missing(key)
    return _row(found[0])


@reads
def all() -> Steps[list[ScheduleRow]]:
    return [_row(row) for row in (yield Statement("list_schedules"))]


@writes
def remove(key: str, *, by: str, revision: int | None = None) -> Steps[None]:
    stored = yield from _hold(key)
    if revision is not None and stored.revision != revision:
        raise _other_revision(key, stored, revision)
    yield Statement("remove_schedule", {"key": key})
    yield audit.entry(by, "schedule.remove", key, (yield from _stored_facts(stored)))


@writes
def pause(key: str, pause: Pause | None, *, by: str) -> Steps[None]:
    stored = yield from _hold(key)
    values: dict[str, Any] = dict.fromkeys(("pause_reason", "pause_by", "pause_at", "pause_until"))
    if pause is not None:
        values = {f"pause_{name}": value for name, value in dataclasses.asdict(pause).items()}
    yield Statement("pause_schedule", {"key": key, **values})
    action = "schedule.resume" if pause is None else "schedule.pause"
    yield audit.entry(by, action, key, _pause_facts(stored.pause), _pause_facts(pause))


@reads
def due(limit: int = 100) -> Steps[list[ScheduleRow]]:
    return [_row(row) for row in (yield Statement("due_schedules", {"limit": limit}))]


@reads
def next_tick(without: Mapping[str, int] = MappingProxyType({})) -> Steps[int | None]:
    resting = [f"{revision} {key}" for key, revision in without.items()]
    found = yield Statement("next_tick", {"resting": resting})
    instant: int | None = found[0][0]
    return instant


@writes_once
def tick(tick: Tick, draft: Draft | None, overlap: str) -> Steps[Ticked]:
    """The verdict of an instant that is passed over is `missed`. When the job cannot be created (its definition is
    unknown or disabled), that error is raised and the schedule stands where it stood."""
    stored = yield from _find(tick.schedule)
    if stored is None or stored.error is not None or not _is_next(stored, tick):
        return Ticked("taken")
    verdict = "missed" if draft is None else "made"
    if draft is not None and (yield from _overlaps(tick.schedule, overlap)):
        verdict, draft = "skipped", None
    values = {
        "key": tick.schedule, "instant": tick.instant, "verdict": verdict, "passed_over": tick.passed_over,
        "job_id": draft and draft.id,
    }  # fmt: skip
    fresh = yield Statement("save_tick", values)
    yield _advance(stored, tick)
    if not fresh:  # made before the schedule was removed and declared again
        return Ticked("taken")
    if draft is None:
        yield _passed_over(tick, verdict, overlap)
        return Ticked(verdict)
    if tick.passed_over:
        yield _passed_over(tick, verdict, overlap)
    draft = dataclasses.replace(draft, schedule=tick.schedule, scheduled_for=tick.instant)
    (created,) = yield from jobs.create([draft]).steps()
    if created.job_id != draft.id:
        yield Statement("name_tick_job", {**values, "job_id": created.job_id})
    return Ticked(verdict, created.job_id)


@reads
def ticks(key: str, limit: int = 50) -> Steps[list[dict[str, Any]]]:
    return [
        {
            "instant": to_datetime(instant),
            "verdict": verdict,
            "passedOver": passed_over,
            "jobId": job_id,
            "at": to_datetime(at),
        }
        for instant, verdict, passed_over, job_id, at in (yield Statement("read_ticks", {"key": key, "limit": limit}))
    ]


def _find(key: str) -> Steps[ScheduleRow | None]:
    """A schedule, held until the transaction ends."""
    found = yield Statement("hold_schedule", {"key": key})
    return _row(found[0]) if found else None


def _hold(key: str) -> Steps[ScheduleRow]:
    stored = yield from _find(key)
    if stored is None:
        raise _missing(key)
    return stored


def _missing(key: str) -> NotFound:
    return NotFound("schedule", key, hint="It was never declared here, or it has been removed.")


def _other_revision(key: str, stored: ScheduleRow | None, expected: int) -> RevisionConflict:
    return RevisionConflict(
        f"Schedule {key!r} is at revision {stored.revision if stored else 0}, not {expected}.",
        hint="Read it again and repeat your change.",
    )


def _after_mark(schedule: Schedule, stored: ScheduleRow) -> Schedule:
    """Nothing at or before the mark is ever made again."""
    given, mark = schedule.next_run_at, stored.last_scheduled_at
    if given is None or mark is None or to_datetime(given) > mark:
        return schedule
    return dataclasses.replace(schedule, next_run_at=stored.schedule.next_run_at)


def _ended_if_over(schedule: Schedule) -> Schedule:
    """A schedule that ticks once is disabled when there is nothing to come."""
    over = schedule.kind is Kind.ONCE and schedule.next_run_at is None
    return dataclasses.replace(schedule, enabled=False) if over else schedule


def _is_next(stored: ScheduleRow, tick: Tick) -> bool:
    if stored.revision != tick.revision or not stored.schedule.enabled:
        return False
    return stored.last_scheduled_at is None or stored.last_scheduled_at < to_datetime(tick.instant)


def _overlaps(key: str, overlap: str) -> Steps[bool]:
    if overlap == Overlap.ALLOW:
        return False
    return bool((yield Statement("unfinished_jobs", {"key": key, "waiting": overlap == Overlap.QUEUE_ONE})))


def _advance(stored: ScheduleRow, tick: Tick) -> Statement:
    after = _ended_if_over(dataclasses.replace(stored.schedule, next_run_at=tick.next_run_at))
    values = {"next_run_at": after.next_run_at, "enabled": after.enabled}
    return Statement("advance_schedule", {"key": tick.schedule, "instant": tick.instant, **values})


def _passed_over(tick: Tick, verdict: str, overlap: str) -> Statement:
    facts: dict[str, object] = {"instant": tick.instant, "passedOver": tick.passed_over}
    kind = kinds.SCHEDULE_MISSED
    if verdict == "skipped":
        kind = kinds.SCHEDULE_SKIPPED
        facts["overlap"] = overlap
    return rows.event(kind, subject=tick.schedule, data=json.dumps(facts))


def _values(schedule: Schedule) -> dict[str, Any]:
    return {"body": to_text(schedule), **{name: getattr(schedule, name) for name in _APART}}


def _facts(schedule: Schedule) -> Steps[dict[str, Any]]:
    """A schedule as the audit shows it: with secret parameters masked, or all of them while nobody knows which are."""
    secret: set[str] = set()
    known = yield Statement("read_definitions", {"key": schedule.definition})
    for key, version, _, body, *_ in known:
        definition, _, problem = definitions.read(key, version, body, "{}")
        secret |= set(json.loads(schedule.params) if problem else definition.secret_fields)
    shown = mask_params(schedule.params, tuple(secret if known else json.loads(schedule.params)))
    return {**dataclasses.asdict(schedule), "params": shown}


def _stored_facts(stored: ScheduleRow) -> Steps[dict[str, Any]]:
    return (yield from _facts(stored.schedule)) if stored.error is None else {"error": stored.error}


def _pause_facts(pause: Pause | None) -> dict[str, Any] | None:
    return None if pause is None else dataclasses.asdict(pause)


def _row(row: rows.Row) -> ScheduleRow:
    key, body, owner, enabled, next_run_at, mark, reason, by, at, until, revision, created_at, updated_at = row
    schedule, error = _read(body, key=key, owner=owner, enabled=bool(enabled), next_run_at=next_run_at)
    return ScheduleRow(
        schedule=schedule,
        revision=revision,
        pause=None if at is None else Pause(reason, by, at, until),
        last_scheduled_at=maybe_datetime(mark),
        created_at=to_datetime(created_at),
        updated_at=to_datetime(updated_at),
        error=error,
    )


def _read(body: str, **apart: Any) -> tuple[Schedule, str | None]:
    """A schedule, or else what there is beside its text and why that cannot be read: it must not keep others from
    being read."""
    try:
        return from_text(body, **apart), None
    except Exception as error:
        what = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        return Schedule(definition="", kind=Kind.ONCE, expression="", **apart), what
