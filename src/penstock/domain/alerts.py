"""Alerts: conditions of a store that need attention, computed from its statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from penstock.domain.definition import Pause
from penstock.domain.instant import to_datetime
from penstock.domain.schedule.schedule import ScheduleRow
from penstock.domain.stats import Durations, Running, Stats
from penstock.domain.webhook.endpoint import Endpoint
from penstock.domain.worker import LOAD, WorkerRow
from penstock.domain.worker_config import AlertThresholds, Disabled

ALL = "*"
"""The subject of an alert about the whole system."""
LATE = timedelta(minutes=1)
"""How long after its time a tick counts as missed."""

WARNING, CRITICAL = "warning", "critical"


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that needs attention; its id is the same while it lasts."""

    kind: str
    subject: str
    """The key of a definition or a schedule, the id of a job, a worker or an endpoint, or `*`."""
    message: str
    severity: str = WARNING
    since: datetime | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert as it was raised, and whether it was cleared."""

    seq: int
    alert: Alert
    raised_at: datetime
    cleared_at: datetime | None
    """None: it is active."""


@dataclass(frozen=True, slots=True)
class AlertNews:
    """What came of writing alerts down: those that were raised, and those that were cleared."""

    raised: list[Alert]
    cleared: list[Alert]


@dataclass(frozen=True, slots=True)
class AlertFacts:
    """What alerts are made from; `stats` are those of the window that the thresholds name."""

    stats: Stats
    thresholds: AlertThresholds
    config_error: str | None = None
    """Why the stored worker configuration cannot be read; the thresholds are the defaults then."""
    disabled: Disabled | None = None
    system_pause: Pause | None = None
    unserved: Sequence[tuple[str, int, int]] = ()
    failing: Sequence[WorkerRow] = ()
    """Workers that cannot start their application."""
    schedules: Sequence[ScheduleRow] = ()
    running: Sequence[Running] = ()
    endpoints: Sequence[Endpoint] = ()
    history: Mapping[str, Durations] = field(default_factory=dict)
    """How long the jobs of each definition have taken since the store began, for those without one in the window."""
    timeouts: Mapping[str, float | None] = field(default_factory=dict)
    """How many seconds an attempt of each definition may take; None: any number."""


def alerts(facts: AlertFacts) -> list[Alert]:
    """Return the active alerts, the critical first."""
    found = [
        *_unreadable(facts), *_disabled(facts), *_paused(facts), *_unserved(facts), *_workers(facts), *_failing(facts),
        *_missed(facts), *_deep(facts), *_stuck(facts), *_endpoints(facts),
    ]  # fmt: skip
    return sorted(found, key=lambda each: (each.severity != CRITICAL, each.kind, each.subject))


def _unreadable(facts: AlertFacts) -> Iterator[Alert]:
    if facts.config_error is not None:
        text = f"The stored worker configuration cannot be used, and the last good one holds: {facts.config_error}"
        yield Alert("worker_config", ALL, text, CRITICAL)


def _disabled(facts: AlertFacts) -> Iterator[Alert]:
    if (disabled := facts.disabled) is not None:
        text = f"Workers take no jobs: {disabled.by} has disabled them in the worker configuration."
        yield Alert("worker_disabled", ALL, text, since=disabled.at)


def _paused(facts: AlertFacts) -> Iterator[Alert]:
    if (pause := facts.system_pause) is not None:
        why = f": {pause.reason.rstrip('.')}" if pause.reason else ""
        yield Alert("system_paused", ALL, f"{pause.by} has paused the whole system{why}.", since=to_datetime(pause.at))


def _unserved(facts: AlertFacts) -> Iterator[Alert]:
    oldest = {each.definition_key: each.oldest_run_at for each in facts.stats.definitions}
    waiting: dict[str, list[tuple[int, int]]] = {}
    for key, version, n in facts.unserved:
        waiting.setdefault(key, []).append((version, n))
    for key, versions in waiting.items():
        told = ", ".join(f"{n} of version {version}" for version, n in versions)
        text = f"No live worker has {key!r} loaded, and jobs wait for one: {told}."
        yield Alert("unserved", key, text, CRITICAL, oldest.get(key))


def _workers(facts: AlertFacts) -> Iterator[Alert]:
    for each in facts.failing:
        # Not with the reason: it is text of the application, and alerts are sent to webhooks.
        text = (
            f"Worker {each.name} (process {each.pid} on {each.host}) cannot start its application and runs no jobs "
            f"with process isolation; its duty {LOAD!r} says why."
        )
        yield Alert("worker_failing", each.id, text, CRITICAL)


def _failing(facts: AlertFacts) -> Iterator[Alert]:
    limit = facts.thresholds
    for each in facts.stats.definitions:
        rate, ended = each.flow.failure_rate, each.flow.succeeded + each.flow.failed
        if rate is not None and ended >= limit.least_sample and rate > limit.failure_rate:
            minutes = f"{limit.window / 60:g} minutes"
            text = f"{each.flow.failed} of {ended} jobs of {each.definition_key!r} have failed in the last {minutes}."
            yield Alert("failure_rate", each.definition_key, text, CRITICAL)


def _missed(facts: AlertFacts) -> Iterator[Alert]:
    for row in facts.schedules:
        due = row.schedule.next_run_at
        if due is None or row.error or not row.schedule.enabled or _is_active(row.pause, facts.stats.at):
            continue
        since = to_datetime(due)
        if since + LATE <= facts.stats.at:
            text = f"Schedule {row.schedule.key!r} was due at {since.isoformat(timespec='seconds')} and has not ticked."
            yield Alert("schedule_missed", row.schedule.key, text, CRITICAL, since)


def _deep(facts: AlertFacts) -> Iterator[Alert]:
    most = facts.thresholds.depth
    for each in facts.stats.definitions:
        if each.depth > most:
            text = f"{each.depth} jobs of {each.definition_key!r} are queued."
            yield Alert("depth", each.definition_key, text, since=each.oldest_run_at)
    if facts.stats.depth > most:
        yield Alert("depth", ALL, f"{facts.stats.depth} jobs are queued.")


def _stuck(facts: AlertFacts) -> Iterator[Alert]:
    """Running longer than usual, or without progress reports for too long after the first one."""
    in_window = {each.definition_key: each.durations for each in facts.stats.definitions}
    stuck = facts.thresholds.stuck
    for job in facts.running:
        known = in_window.get(job.definition) or facts.history.get(job.definition)
        seconds = (facts.stats.at - job.started_at).total_seconds()
        usual, most = (0.0, _most_without_history(facts, job.definition)) if known is None else (known.p95, None)
        if seconds > (usual + stuck if most is None else most):
            told = "no job of it has succeeded yet" if known is None else f"{known.p95:.3g} s are usual"
            text = f"Job {job.job_id} of {job.definition!r} has been running for {seconds:.0f} s; {told}."
            yield Alert("stuck", job.job_id, text, since=job.started_at)
        silent = None if job.heard_at is None else (facts.stats.at - job.heard_at).total_seconds()
        if silent is not None and silent > usual + stuck:
            text = f"Job {job.job_id} of {job.definition!r} has reported no progress for {silent:.0f} s."
            yield Alert("silent", job.job_id, text, since=job.heard_at)


def _most_without_history(facts: AlertFacts, definition: str) -> float:
    """The threshold alone, or the timeout where that is shorter: some time after it the attempt should have ended."""
    timeout = facts.timeouts.get(definition)
    stuck = facts.thresholds.stuck
    return stuck if timeout is None else min(stuck, timeout + LATE.total_seconds())


def _endpoints(facts: AlertFacts) -> Iterator[Alert]:
    """Endpoints that were disabled after failures, or that fail repeatedly."""
    for each in facts.endpoints:
        if not each.enabled and each.disabled_reason is not None:
            text = f"Endpoint {each.id} is disabled: {each.disabled_reason}"
            yield Alert("endpoint_failing", each.id, text, CRITICAL, each.updated_at)
        elif each.enabled and each.failures >= facts.thresholds.endpoint_failures:
            text = f"The last {each.failures} tries to reach endpoint {each.id} have failed."
            yield Alert("endpoint_failing", each.id, text, since=each.last_failure_at)


def _is_active(pause: Pause | None, now: datetime) -> bool:
    return pause is not None and (pause.until is None or to_datetime(pause.until) > now)
