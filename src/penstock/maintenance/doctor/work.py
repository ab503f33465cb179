"""The jobs in a store: whether workers run them, and whether all rows are readable."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from penstock.domain.instant import SECOND, to_datetime
from penstock.domain.maintenance import ClockMark, Finding, error, fine, warning
from penstock.domain.ports.store import Store
from penstock.domain.worker import WorkerRow
from penstock.maintenance.doctor.host import Host, Limits
from penstock.storage.commands import admin, maintenance, schedules

_SHOWN = 5


def clock_finding(store: Store, host: Host, limits: Limits) -> Finding:
    """Report the difference between the clocks of this host and the store."""
    store.run(admin.clock())
    began = time.monotonic()
    before, store_time = host.now(), store.run(admin.clock()) / 1e6
    on_the_way = time.monotonic() - began
    skew = max(0.0, abs(before + on_the_way / 2 - store_time) - on_the_way / 2)
    if skew > limits.skew:
        return error(
            "clock.skew",
            f"The clock of this host is {skew:,.1f} s from the store's.",
            "Let both hosts set their clocks by NTP; jobs and schedules are due by the store's clock.",
        )
    return fine("clock.skew", f"The clocks differ by {skew * 1000:.0f} ms at most.")


def work_findings(store: Store, limits: Limits) -> list[Finding]:
    return [
        *_workers(store, limits), *_unserved(store), *_undeclared(store, limits), *_unreadable(store),
        *_ahead_of_the_clock(store),
    ]  # fmt: skip


def _workers(store: Store, limits: Limits) -> list[Finding]:
    now = to_datetime(store.run(admin.clock()))
    rows = store.run(admin.workers())
    live = [row for row in rows if row.live]
    silent = [row for row in rows if row.ended is None and not row.live]
    since = now - timedelta(seconds=limits.lost)
    lost = [row for row in rows if row.ended == "lost" and row.heartbeat_at >= since]
    found = []
    if silent:
        message = f"{_named(silent)} sent no heartbeat, and no process has freed its jobs."
        found.append(
            error("workers.dead", message, "Start a worker, or `penstock serve`: it frees them within seconds.")
        )
    if lost:
        message = f"{len(lost)} worker(s) died within the last {limits.lost / 3600:g} h: {_named(lost)}."
        found.append(warning("workers.lost", message, "Find the cause: out of memory, a lost host, kill -9."))
    found += [
        warning(
            "workers.duties",
            f"{duty.name!r} of worker {row.name} has not succeeded for {_length(duty.last_success_age)}: "
            f"{duty.last_error or 'no error was reported'}.",
            "Check its log; if it does not recover, restart the worker.",
        )
        for row in live
        for duty in row.duties
        if duty.errors and (duty.last_success_age is None or duty.last_success_age > limits.duty)
    ]
    return found or [fine("workers", f"{len(live)} worker(s) live, and none was lost.")]


def _unserved(store: Store) -> list[Finding]:
    waiting = store.run(admin.unserved())
    if not waiting:
        return [fine("jobs.unserved", "Every waiting job has a worker that can run it.")]
    names = ", ".join(f"{key} version {version} ({count})" for key, version, count in waiting[:_SHOWN])
    return [
        warning(
            "jobs.unserved",
            f"Jobs wait for definitions that no live worker has loaded: {names}.",
            "Start a worker with that code, or cancel them; an old version needs a worker with the old code.",
        )
    ]


def _undeclared(store: Store, limits: Limits) -> list[Finding]:
    """Report definitions that have had no worker and no declaration for long."""
    since = store.run(admin.clock()) - round(limits.undeclared * SECOND)
    newest: dict[str, int] = {}
    for row in store.run(admin.definitions()):
        if not row.removed and row.retired is None:
            newest[row.definition.key] = max(row.declared_at, newest.get(row.definition.key, 0))
    old = sorted(key for key, declared_at in newest.items() if declared_at < since)
    if not old:
        return [fine("definitions.undeclared", "Code declares every definition that is not retired.")]
    named = ", ".join(f"{key} (since {to_datetime(newest[key]).date()})" for key in old[:_SHOWN])
    more = f" and {len(old) - _SHOWN} more" if len(old) > _SHOWN else ""
    return [
        warning(
            "definitions.undeclared",
            f"No code has declared these definitions for {limits.undeclared / 86_400:g} days: {named}{more}.",
            "Where the code is gone, run `penstock definitions retire KEY`, then `penstock definitions remove KEY`.",
        )
    ]


def _unreadable(store: Store) -> list[Finding]:
    """Report rows that are skipped because they cannot be read."""
    bad: list[tuple[str, Any, str]] = [
        ("definition", f"{row.definition.key} version {row.definition.version}", row.error)
        for row in store.run(admin.definitions())
        if row.error and not row.removed
    ]
    bad += [("schedule", row.schedule.key, row.error) for row in store.run(schedules.all()) if row.error]
    repair = {
        "definition": "Register it again: start a worker with its code.",
        "schedule": "Save it again or delete it; it does not tick until then.",
    }
    return [
        error("rows.unreadable", f"The {kind} {name} cannot be read: {problem}", repair[kind])
        for kind, name, problem in bad
    ] or [fine("rows.unreadable", "Every definition and schedule can be read.")]


def _ahead_of_the_clock(store: Store) -> list[Finding]:
    """Report times that were written while the clock was ahead and that block work; schedules first."""
    marks: dict[str, list[ClockMark]] = {}
    for mark in store.run(maintenance.marks_ahead()):
        marks.setdefault(mark.kind, []).append(mark)
    hint = "Check that the clock is right, then run `penstock db set-back`: it shows what it would change."
    return [
        warning(
            "clock.marks",
            f"The clock was ahead of now when these were written ({kind.replace('_', ' ')}): {_marked(found)}.",
            hint,
        )
        for kind, found in marks.items()
    ] or [fine("clock.marks", "No work waits for a time that was written while the clock was ahead.")]


def _marked(marks: list[ClockMark]) -> str:
    named = [f"{mark.name} at {mark.at.isoformat(timespec='seconds')}" for mark in marks[:_SHOWN]]
    return ", ".join(named) + (f" and {len(marks) - _SHOWN} more" if len(marks) > _SHOWN else "")


def _named(rows: list[WorkerRow]) -> str:
    names = [f"{row.name} (process {row.pid} on {row.host})" for row in rows[:_SHOWN]]
    return ", ".join(names) + (f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else "")


def _length(seconds: float | None) -> str:
    return "ever" if seconds is None else f"{seconds / 60:,.0f} min"
