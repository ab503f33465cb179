"""The schedules port: schedules and their ticks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from penstock.domain import event as kinds
from penstock.domain import payload
from penstock.domain.definition import Pause
from penstock.domain.errors import NotFound, RevisionConflict
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.job import Draft
from penstock.domain.job_json import iso
from penstock.domain.plan import Statement, Steps, reads, writes, writes_once
from penstock.domain.schedule.schedule import (
    Kind,
    Missed,
    Overlap,
    Schedule,
    ScheduleRow,
    Tick,
    TickRequest,
    TickResult,
)
from penstock.domain.secrets.policy import mask_params
from penstock.storage.commands import audit, definition_text, jobs, rows

_APART = ("key", "expression", "owner", "enabled", "next_run_at")
"""Fields that are stored in columns and left out of the text."""
_LONGEST_ERROR = 300


def to_text(schedule: Schedule) -> str:
    """A schedule as JSON text; its fields keep their names."""
    facts = {name: value for name, value in _fields(schedule).items() if name not in _APART}
    return json.dumps(facts, ensure_ascii=False)


def from_text(text: str, **apart: Any) -> Schedule:
    """The schedule that `to_text` wrote, with the fields that are kept apart."""
    facts = json.loads(text)
    facts |= {"kind": Kind(facts["kind"]), "missed": Missed(facts["missed"]), "overlap": Overlap(facts["overlap"])}
    return Schedule(params_text=facts.pop("params"), **facts, **apart)


@writes_once
def save(schedule: Schedule, *, by: str, revision: int | None = None) -> Steps[ScheduleRow]:
    """A `next_run_at` that is not after the mark leaves the stored one as it is; the same again changes nothing.
    `revision` 0 means that there must be none yet."""
    stored = yield from _find(schedule.key)
    if stored is None and not revision:
        made = yield Statement("create_schedule", _values(_disabled_if_over(schedule)))
        if made:
            yield audit.entry(by, "schedule.create", schedule.key, None, (yield from _facts(schedule)))
            return _row(made[0])
        stored = yield from _find(schedule.key)
    if revision is not None and (stored is None or stored.revision != revision):
        raise _other_revision(schedule.key, stored, revision)
    if stored is None:
        raise NotFound("schedule", schedule.key, hint="It was removed at the same time; save it again.")
    wanted = _disabled_if_over(_after_mark(schedule, stored))
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
def tick(tick: Tick, draft: Draft | None, overlap: str) -> Steps[TickResult]:
    (ticked,) = yield from tick_all([TickRequest(tick, draft, overlap)]).steps()
    return ticked


@writes_once
def tick_all(turns: Sequence[TickRequest]) -> Steps[list[TickResult]]:
    """The verdict of an instant that is passed over is `missed`. When a job cannot be created (its definition is
    unknown or disabled), that error is raised and no schedule is advanced."""
    stored = yield from _hold_all([turn.tick.schedule for turn in turns])
    open_ = [turn for turn in turns if _is_next(stored.get(turn.tick.schedule), turn.tick)]
    if not open_:
        return [TickResult("taken")] * len(turns)
    busy = yield from _overlapping(open_)
    verdicts = {turn.tick: _verdict(turn, busy) for turn in open_}
    fresh = yield from _save_ticks(open_, verdicts)
    yield _advance(stored, open_)
    won = [turn for turn in open_ if turn.tick.schedule in fresh]  # another was made before its schedule was removed
    told = [turn for turn in won if verdicts[turn.tick] != "made" or turn.tick.passed_over]
    if told:
        yield _passed_over(told, verdicts)
    made = yield from _create(turn for turn in won if verdicts[turn.tick] == "made")
    answers = {turn.tick: TickResult(verdicts[turn.tick], made.get(turn.tick)) for turn in won}
    return [answers.get(turn.tick, TickResult("taken")) for turn in turns]


@reads
def ticks(key: str, limit: int = 50) -> Steps[list[dict[str, Any]]]:
    return [
        {
            "scheduledFor": to_datetime(instant),
            "verdict": verdict,
            "passedOver": passed_over,
            "jobId": job_id,
            "at": to_datetime(at),
        }
        for instant, verdict, passed_over, job_id, at in (yield Statement("read_ticks", {"key": key, "limit": limit}))
    ]


def _find(key: str) -> Steps[ScheduleRow | None]:
    """A schedule, held until the transaction ends."""
    return (yield from _hold_all([key])).get(key)


def _hold_all(keys: Sequence[str]) -> Steps[dict[str, ScheduleRow]]:
    """Those of some schedules that there are, held until the transaction ends."""
    found = map(_row, (yield Statement("hold_schedules", columns={"key": keys})))
    return {row.schedule.key: row for row in found}


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


def _disabled_if_over(schedule: Schedule) -> Schedule:
    """A schedule that ticks once is disabled when there is nothing to come."""
    over = schedule.kind is Kind.ONCE and schedule.next_run_at is None
    return dataclasses.replace(schedule, enabled=False) if over else schedule


def _is_next(stored: ScheduleRow | None, tick: Tick) -> bool:
    if stored is None or stored.error is not None or stored.revision != tick.revision or not stored.schedule.enabled:
        return False
    return stored.last_scheduled_at is None or stored.last_scheduled_at < to_datetime(tick.instant)


def _overlapping(turns: Sequence[TickRequest]) -> Steps[set[str]]:
    """The schedules whose unfinished jobs keep another from being made."""
    asking = [turn for turn in turns if turn.draft is not None and turn.overlap != Overlap.ALLOW]
    if not asking:
        return set()
    columns: dict[str, Sequence[Any]] = {
        "key": [turn.tick.schedule for turn in asking],
        "waiting": [turn.overlap == Overlap.QUEUE_ONE for turn in asking],
    }
    return {key for (key,) in (yield Statement("unfinished_jobs", columns=columns))}


def _verdict(turn: TickRequest, busy: Collection[str]) -> str:
    if turn.draft is None:
        return "missed"
    return "skipped" if turn.tick.schedule in busy else "made"


def _save_ticks(turns: Sequence[TickRequest], verdicts: Mapping[Tick, str]) -> Steps[set[str]]:
    """Save ticks; return the schedules whose instant was not handled before."""
    made = [verdicts[turn.tick] == "made" for turn in turns]
    columns: dict[str, Sequence[Any]] = {
        "key": [turn.tick.schedule for turn in turns],
        "instant": [turn.tick.instant for turn in turns],
        "verdict": [verdicts[turn.tick] for turn in turns],
        "passed_over": [turn.tick.passed_over for turn in turns],
        "job_id": [turn.draft.id if turn.draft and made else None for turn, made in zip(turns, made, strict=True)],
    }
    return {key for (key,) in (yield Statement("save_ticks", columns=columns))}


def _create(turns: Iterable[TickRequest]) -> Steps[dict[Tick, str]]:
    """The jobs of ticks; one may be answered by a job that was there."""
    drafts = {
        turn.tick: dataclasses.replace(turn.draft, schedule=turn.tick.schedule, scheduled_for=turn.tick.instant)
        for turn in turns
        if turn.draft is not None
    }
    if not drafts:
        return {}
    created = yield from jobs.create(list(drafts.values())).steps()
    made = {tick: each.job_id for tick, each in zip(drafts, created, strict=True)}
    for tick, job_id in made.items():
        if job_id != drafts[tick].id:
            yield Statement("name_tick_job", {"key": tick.schedule, "instant": tick.instant, "job_id": job_id})
    return made


def _advance(stored: Mapping[str, ScheduleRow], turns: Sequence[TickRequest]) -> Statement:
    after = [
        _disabled_if_over(dataclasses.replace(stored[tick.schedule].schedule, next_run_at=tick.next_run_at))
        for tick, *_ in turns
    ]
    columns: dict[str, Sequence[Any]] = {
        "key": [each.key for each in after],
        "instant": [turn.tick.instant for turn in turns],
        "next_run_at": [each.next_run_at for each in after],
        "enabled": [each.enabled for each in after],
    }
    return Statement("advance_schedules", columns=columns)


def _passed_over(turns: Sequence[TickRequest], verdicts: Mapping[Tick, str]) -> Statement:
    """The events of instants for which there is no job."""
    return rows.events(
        [
            (kinds.SCHEDULE_SKIPPED, tick.schedule, json.dumps({**_facts_of(tick), "overlap": overlap}))
            if verdicts[tick] == "skipped"
            else (kinds.SCHEDULE_MISSED, tick.schedule, json.dumps(_facts_of(tick)))
            for tick, _, overlap in turns
        ]
    )


def _facts_of(tick: Tick) -> dict[str, object]:
    return {"scheduledFor": iso(to_datetime(tick.instant)), "passedOver": tick.passed_over}


def _values(schedule: Schedule) -> dict[str, Any]:
    return {"body": to_text(schedule), **{name: getattr(schedule, name) for name in _APART}}


def _facts(schedule: Schedule) -> Steps[dict[str, Any]]:
    """Return a schedule for the audit, with secret parameters masked; all of them while its definition is unknown."""
    secret: set[str] = set()
    known = yield Statement("read_definitions", {"key": schedule.definition_key})
    for key, version, _, body, *_ in known:
        definition, _, problem = definition_text.read(key, version, body, "{}")
        secret |= set(json.loads(schedule.params_text) if problem else definition.secret_fields)
    shown = mask_params(schedule.params_text, tuple(secret if known else json.loads(schedule.params_text)))
    facts = {payload.camel(name): value for name, value in _fields(schedule).items()}
    return {**facts, "params": shown}


def _fields(schedule: Schedule) -> dict[str, Any]:
    """The fields of a schedule by name; its parameters, as text, are called `params`."""
    facts = dataclasses.asdict(schedule)
    return {"params": facts.pop("params_text"), **facts}


def _stored_facts(stored: ScheduleRow) -> Steps[dict[str, Any]]:
    return (yield from _facts(stored.schedule)) if stored.error is None else {"error": stored.error}


def _pause_facts(pause: Pause | None) -> dict[str, Any] | None:
    return None if pause is None else dataclasses.asdict(pause)


def _row(row: rows.Row) -> ScheduleRow:
    key, body, expression, owner, enabled, next_run_at, mark, *pause, revision, created_at, updated_at = row
    reason, by, at, until = pause
    schedule, error = _read(
        body, key=key, expression=expression, owner=owner, enabled=bool(enabled), next_run_at=next_run_at
    )
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
    """Return a schedule, or its columns and why its text is unreadable; one bad row must not hide others."""
    try:
        return from_text(body, **apart), None
    except Exception as error:
        what = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        return Schedule(definition_key="", kind=Kind.ONCE, **apart), what
