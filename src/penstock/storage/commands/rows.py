"""Conversion between rows of statements and records of the domain."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from penstock.domain import event as kinds
from penstock.domain.attempt import Attempt, Phase, Review, StoredLog
from penstock.domain.event import Event
from penstock.domain.instant import SECOND, maybe_datetime, to_datetime
from penstock.domain.job import Claimed, Job
from penstock.domain.outcome import RETURNED_NOTHING, Cause, Outcome, Settlement
from penstock.domain.plan import Rows, Statement
from penstock.domain.states import BY_CODE, Status
from penstock.domain.worker import Duty, WorkerRow
from penstock.domain.worker_config import Setting

Row = tuple[Any, ...]
_claimed: Callable[[Row], Claimed] = partial(tuple.__new__, Claimed)
"""Faster for many: the constructor takes four times as long."""

GONE = Status.STALE
"""The status of a job that retention has deleted."""

_LEVELS = ("debug", "info", "warning", "error")


def event(
    kind: str,
    *,
    job_id: str | None = None,
    subject: str | None = None,
    fence: int | None = None,
    data: str | None = None,
) -> Statement:
    """Return the statement that writes one event."""
    columns: dict[str, Sequence[object]] = {
        "kind": [kind],
        "job_id": [job_id],
        "subject": [subject],
        "fence": [fence],
        "data": [data],
    }
    return Statement("save_events", columns=columns)


def events(told: Sequence[tuple[str, str, str]]) -> Statement:
    """Return the statement that writes events that are not about jobs: kind, subject and data of each."""
    kinds, subjects, data = zip(*told, strict=True)
    none = [None] * len(told)
    return Statement(
        "save_events", columns={"kind": kinds, "job_id": none, "subject": subjects, "fence": none, "data": data}
    )


def stored_event(row: Row) -> Event:
    """A row of the feed as an event; the order of its columns is that of the fields."""
    seq, kind, at, job_id, subject, fence, data, number, took, source, schedule, expression = row
    duration = None if took is None or kind not in kinds.ENDINGS else max(0, took) / 1e6
    return Event(
        seq, kind, to_datetime(at), job_id, subject, fence, data, attempt=number, duration=duration,
        source=source or None, schedule_id=schedule, schedule_expression=expression,
    )  # fmt: skip


def settlement_columns(settlements: Sequence[Settlement]) -> dict[str, Sequence[object]]:
    """The endings of attempts as the columns of `settle`."""
    outcomes = [each.outcome for each in settlements]
    failures = [each.failure for each in outcomes]
    usages = [each.usage for each in outcomes]
    return {
        "id": [each.job_id for each in settlements],
        "fence": [each.fence for each in settlements],
        "status": [each.status.code for each in settlements],
        "delay": [each.delay for each in settlements],
        "attempt_back": [each.attempt_back for each in settlements],
        "lost": [each.lost for each in settlements],
        "kind": [event_kind(each) for each in settlements],
        "event_data": [event_data(each) for each in settlements],
        "cause": [each.cause.value for each in outcomes],
        "result": [each.result for each in outcomes],
        "error_type": [each and each.type for each in failures],
        "error": [each and each.message for each in failures],
        "traceback": [each and each.traceback for each in failures],
        "fingerprint": [_fingerprint(each) for each in outcomes],
        "exit_code": [each.exit_code for each in usages],
        "signal": [each.signal for each in usages],
        "peak_memory": [each.peak_memory for each in usages],
        "cpu_seconds": [each.cpu_seconds for each in usages],
        "note": [each.note for each in outcomes],
        "data": [each.data for each in outcomes],
    }


def _fingerprint(outcome: Outcome) -> str | None:
    """Return the fingerprint of a failed attempt; cancelled ones do not count as errors."""
    if outcome.failure is None or outcome.cause is Cause.CANCELLED:
        return None
    return outcome.failure.fingerprint or None


def is_plain_success(each: Settlement) -> bool:
    """Return whether an attempt succeeded and nothing else must be written."""
    told = each.outcome
    return told is RETURNED_NOTHING or (
        each.status is Status.SUCCEEDED and told.cause is Cause.RETURNED and not told.note and told.data is None
        and told.failure is None and told.usage.signal is None and not each.attempt_back and not each.lost
    )  # fmt: skip


def success_columns(settlements: Sequence[Settlement], *, nothing: bool) -> dict[str, Sequence[object]]:
    """Return plain successes as the columns of `settle_done`; without results there are only ids."""
    ids = [each.job_id for each in settlements]
    if nothing:
        return {"id": ids, "result": (), "exit_code": (), "peak_memory": (), "cpu_seconds": ()}
    outcomes = [each.outcome for each in settlements]
    usages = [each.usage for each in outcomes]
    return {
        "id": ids,
        "result": [each.result for each in outcomes],
        "exit_code": [each.exit_code for each in usages],
        "peak_memory": [each.peak_memory for each in usages],
        "cpu_seconds": [each.cpu_seconds for each in usages],
    }


def job(row: Row) -> Job:
    """A row of `read_jobs` as a job; the order of its columns is the order of the fields below."""
    (
        job_id, definition, version, status, stored, params, result, error, error_type, attempts, max_attempts, lost,
        fence, generation, priority, percent, message, phase_name, reference_type, reference_id, tags, idempotency_key,
        limit_key, unique_key, blocked, webhook_url, schedule, scheduled_for, parent, rerun_of, actor, created_at,
        due_at, queued_at, started_at, finished_at, updated_at, stale_at, cancel_at, worker, webhook_sent,
        ran_until,
    ) = row  # fmt: skip
    # The stored progress is that of the last report, not of the end.
    done = BY_CODE[stored] is Status.SUCCEEDED
    return Job(
        id=job_id, definition_key=definition, definition_version=version, status=BY_CODE[status],
        outcome=BY_CODE[stored] if BY_CODE[stored].terminal else None, params_text=params, result_text=result,
        error=error, error_type=error_type, attempts=attempts, max_attempts=max_attempts, lost=lost, fence=fence,
        generation=generation, priority=priority, progress=100.0 if done else percent, progress_message=message,
        current_phase=phase_name, reference_type=reference_type, reference_id=reference_id,
        tags=tuple(json.loads(tags)) if tags else (), idempotency_key=idempotency_key,
        concurrency_key=unscoped(limit_key), unique=unscoped(unique_key), blocked=bool(blocked),
        webhook_url=webhook_url, schedule_id=schedule, scheduled_for=maybe_datetime(scheduled_for), parent_id=parent,
        rerun_of=rerun_of, actor=actor, created_at=to_datetime(created_at), run_at=to_datetime(due_at),
        queued_at=maybe_datetime(queued_at), started_at=maybe_datetime(started_at),
        finished_at=maybe_datetime(finished_at), updated_at=to_datetime(updated_at),
        stale_at=maybe_datetime(stale_at), cancel_requested_at=maybe_datetime(cancel_at), worker_id=worker,
        webhook_sent=None if webhook_sent is None else bool(webhook_sent),
        duration=None if ran_until is None or started_at is None else max(0, ran_until - started_at) / 1e6,
    )  # fmt: skip


def claimed(rows: Rows) -> list[Claimed]:
    if {row[14] for row in rows} - {None}:
        rows = [row if row[14] is None else (*row[:14], unscoped(row[14])) for row in rows]
    return list(map(_claimed, rows))


def attempt(row: Row) -> Attempt:
    job_id, fence, number, worker, status, cause, started_at, ended_at, *rest = row
    return Attempt(
        job_id, fence, number, worker, BY_CODE[status], cause, maybe_datetime(started_at), to_datetime(ended_at), *rest
    )


def phase(row: Row) -> Phase:
    facts: list[Any] = [*row[:9], maybe_datetime(row[9]), maybe_datetime(row[10])]
    return Phase(*facts)


def log(row: Row) -> StoredLog:
    seq, fence, at, level, *rest = row
    return StoredLog(seq, fence, to_datetime(at), _LEVELS[level], *rest)


def review(row: Row) -> Review:
    job_id, fence, note, data, asked_at, decision, decided_by, decided_note, decided_at, result = row
    return Review(
        job_id, fence, note, data, to_datetime(asked_at), decision, decided_by, decided_note,
        maybe_datetime(decided_at), result,
    )  # fmt: skip


def setting(row: Row) -> Setting:
    name, value, revision, updated_at, updated_by = row
    return Setting(name, value, revision, to_datetime(updated_at), updated_by)


def unscoped(key: str | None) -> str | None:
    """Return the key as the user gave it, without its prefix."""
    return None if key is None else key.split("|", 1)[1]


def when(value: int | None) -> datetime | None:
    return maybe_datetime(value)


def event_kind(each: Settlement) -> str:
    """Return the event type of an ending, unless the job is being cancelled."""
    return kinds.of_ending(each.outcome.trigger, each.status)


def event_data(each: Settlement) -> str | None:
    """Return the data of an ending's event; None for a plain success."""
    facts: dict[str, object] = {}
    if each.outcome.failure is not None:
        facts = {"error": each.outcome.failure.message[:500], "errorType": each.outcome.failure.type}
    if each.status is Status.SCHEDULED:
        facts["delaySeconds"] = each.delay / 1_000_000
    if each.outcome.note:
        facts["note"] = each.outcome.note[:500]
    return json.dumps(facts, ensure_ascii=False) if facts else None


def worker(row: Row) -> WorkerRow:
    worker_id, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, live, *rest = row
    ended, duties, age, until, figures = rest
    return WorkerRow(
        id=worker_id, name=name, host=host, pid=pid, lanes=tuple(json.loads(lanes)), slots=slots,
        code_version=code_version, started_at=to_datetime(started_at), heartbeat_at=to_datetime(heartbeat_at),
        live=bool(live), ended=ended, duties=duties_from_text(duties, age or 0),
        lease_expires_at=maybe_datetime(until),
        figures=figures_from_text(figures),
    )  # fmt: skip


def duties_text(duties: Sequence[Duty]) -> str:
    facts = [[each.name, each.last_success_age, each.errors, each.last_error] for each in duties]
    return json.dumps(facts, ensure_ascii=False)


def duties_from_text(text: str, age: int) -> tuple[Duty, ...]:
    """A report that is `age` microseconds old, with its ages as they are now; none where it cannot be read."""
    try:
        return tuple(_duty(each, max(0, age) / SECOND) for each in json.loads(text))
    except (ValueError, TypeError):
        return ()


def figures_from_text(text: str) -> Mapping[str, float]:
    """Return a worker's counters; empty when unreadable."""
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(facts, dict):
        return {}
    return {name: value for name, value in facts.items() if isinstance(value, int | float)}


def _duty(facts: Sequence[object], seconds: float) -> Duty:
    name, succeeded, errors, last_error = facts
    return Duty(
        name=str(name),
        last_success_age=float(succeeded) + seconds if isinstance(succeeded, int | float) else None,
        errors=errors if isinstance(errors, int) else 0,
        last_error=last_error if isinstance(last_error, str) else None,
    )
