"""Maintenance: rules between rows, and instants ahead of a clock that was wrong."""

from __future__ import annotations

from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.maintenance import BrokenRule, ClockMark, schedule_marks
from penstock.domain.plan import Statement, Steps, reads, writes
from penstock.domain.schedule import due_ticks
from penstock.storage.commands import audit, limits, schedules
from penstock.storage.statements import read

KINDS = (
    "scheduled_jobs", "queued_jobs", "ended_jobs", "idempotency_keys", "buckets", "deliveries", "receivers",
    "endpoints", "sessions", "alerts",
)  # fmt: skip
"""The kinds of instants besides schedules; each has a statement that finds those ahead of the clock."""


@reads
def marks_ahead(limit: int = 100) -> Steps[list[ClockMark]]:
    """Return instants ahead of the clock that delay work: all those of schedules, up to `limit` of each other kind."""
    return (yield from _found(limit))


@writes
def set_back(*, by: str, limit: int = 1000) -> Steps[list[ClockMark]]:
    """Set instants ahead of the clock back, up to `limit` of each kind; return those found, none when all is done."""
    found = yield from _found(limit)
    now = yield from _now()
    for mark in found:
        if mark.kind == "schedule":
            yield from _reset(mark, now, by)
    for kind in KINDS:
        names = list(dict.fromkeys(mark.name for mark in found if mark.kind == kind))
        if not names:
            continue
        if kind == "buckets":
            yield from limits.follow_clock(limit)
        else:
            yield Statement(f"set_back_{kind}", columns={"name": names})
        yield audit.entry(by, "clock.set_back", kind, None, {"count": len(names), "names": names[:100]})
    return found


def _found(limit: int) -> Steps[list[ClockMark]]:
    now = yield from _now()
    found = schedule_marks((yield from schedules.all().steps()), now)
    for kind in KINDS:
        rows = yield Statement(f"marked_{kind}", {"limit": limit})
        found += [ClockMark(kind, str(name), to_datetime(at)) for name, at in rows]
    return found


def _now() -> Steps[int]:
    ((now,),) = yield Statement("clock")
    return int(now)


def _reset(mark: ClockMark, now: int, by: str) -> Steps[None]:
    """Continue a schedule after its newest tick that is not ahead of the clock; its `missed` policy decides about later
    ones."""
    stored = (yield from schedules._hold_all([mark.name])).get(mark.name)
    if stored is None or not schedule_marks([stored], now):
        return
    ((newest,),) = yield Statement("newest_tick", {"key": mark.name})
    following = due_ticks.next_tick_after(stored.schedule, now if newest is None else newest)
    yield Statement("reset_schedule", {"key": mark.name, "mark": newest, "next_run_at": following})
    before = {"lastScheduledAt": _text(stored.last_scheduled_at), "nextRunAt": _instant(stored.schedule.next_run_at)}
    after = {"lastScheduledAt": _instant(newest), "nextRunAt": _instant(following)}
    yield audit.entry(by, "clock.set_back", f"schedule {mark.name}", before, after)


def _instant(value: int | None) -> str | None:
    return _text(maybe_datetime(value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def rules() -> list[str]:
    """Return the names of the rules; both dialects have the same ones."""
    return [name for name in read("postgres") if name.startswith("unsound_")]


@reads
def check_integrity(limit: int = 10) -> Steps[list[BrokenRule]]:
    """The rules that do not hold, each with up to `limit` rows that break it."""
    broken: list[BrokenRule] = []
    for rule in rules():
        rows = yield Statement(rule, {"limit": limit})
        if rows:
            broken.append(BrokenRule(read("postgres")[rule].sentence, tuple(str(name) for (name,) in rows)))
    return broken
