"""Reasons why a job does not run, as sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.domain.definition import Pause, Retirement
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.states import PENDING, Status
from penstock.domain.worker_config import Disabled

MOST_HOLDERS = 5
"""The most holders of a slot that are named."""
MOST_AHEAD = 1000
"""The most jobs ahead of one that are counted."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a job does not run, or what it does now."""

    code: str
    message: str
    until: datetime | None = None
    """When it ends without intervention, if known."""
    by: str | None = None
    """The operator who paused, the worker that runs it, the workers that cannot load it, or the jobs that hold the
    slots; separated by commas."""


@dataclass(frozen=True, slots=True)
class FullLimit:
    """An exhausted limit: its size, how many jobs hold it now, and some of these."""

    limit: int
    taken: int
    holders: Sequence[str]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a store knows of a job and of everything that can keep it waiting."""

    definition: str
    version: int
    status: Status
    now: int
    due_at: int
    outcome: Status | None = None
    worker: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    cancel_at: int | None = None
    put_off: bool = False
    """A rate limit has given it a later time."""
    disabled: Disabled | None = None
    system_pause: Pause | None = None
    pause: Pause | None = None
    retired: Retirement | None = None
    served: bool = True
    versions: Sequence[int] = ()
    """The versions of its definition that live workers have loaded."""
    failing: Sequence[str] = ()
    """Live workers that cannot start their application; one of them might serve this job."""
    concurrency: FullLimit | None = None
    key: str | None = None
    key_slots: FullLimit | None = None
    next_token: int | None = None
    """When its rate lets it start; None: now."""
    ahead: int = 0


def reasons(facts: JobFacts) -> list[Reason]:
    """Return every reason why a waiting job does not run; for any other job, what it does now."""
    if facts.status not in PENDING:
        return [_current_state(facts)]
    found = [*_not_yet(facts), *_disabled(facts), *_paused(facts), *_retired(facts), *_unserved(facts), *_full(facts)]
    return found or [_jobs_ahead(facts)]


def _current_state(facts: JobFacts) -> Reason:
    match facts.status:
        case Status.RUNNING if facts.started_at is None:
            text = f"Worker {facts.worker} has claimed it and will start it when it has a slot."
            return Reason("running", text, by=facts.worker)
        case Status.RUNNING:
            return Reason("running", f"It runs on worker {facts.worker}{_since(facts.started_at)}.", by=facts.worker)
        case Status.CANCELLING:
            text = f"It was asked to stop{_since(facts.cancel_at, at='at')} and has not ended yet."
            return Reason("cancelling", text, by=facts.worker)
        case Status.REVIEW_NEEDED:
            return Reason("review_needed", "It waits for a person to approve or reject it.")
        case _:
            ending = facts.outcome or facts.status
            return Reason("ended", f"It ended{_since(facts.finished_at, at='at')}: {ending}.")


def _not_yet(facts: JobFacts) -> list[Reason]:
    if facts.status is Status.SCHEDULED and facts.due_at > facts.now:
        due = to_datetime(facts.due_at)
        if facts.put_off:
            return [_rate_limited(facts, facts.due_at)]
        return [Reason("not_due", f"It is not due before {_time(facts.due_at)}.", until=due)]
    if facts.next_token is not None:
        return [_rate_limited(facts, facts.next_token)]
    return []


def _rate_limited(facts: JobFacts, until: int) -> Reason:
    text = f"The rate limit of {facts.definition!r} lets it start at {_time(until)} at the earliest."
    return Reason("rate_limited", text, until=to_datetime(until))


def _disabled(facts: JobFacts) -> list[Reason]:
    if (disabled := facts.disabled) is None:
        return []
    text = f"Workers take no jobs: {disabled.by} has disabled them in the worker configuration."
    return [Reason("disabled", text, by=disabled.by)]


def _paused(facts: JobFacts) -> list[Reason]:
    found = []
    for code, what, pause in (
        ("system_paused", "The whole system", facts.system_pause),
        ("paused", f"Definition {facts.definition!r}", facts.pause),
    ):
        if pause is not None:
            end = "until it is resumed" if pause.until is None else f"until {_time(pause.until)}"
            why = f": {pause.reason.rstrip('.')}" if pause.reason else ""
            text = f"{what} is paused by {pause.by} {end}{why}."
            found.append(Reason(code, text, until=maybe_datetime(pause.until), by=pause.by))
    return found


def _retired(facts: JobFacts) -> list[Reason]:
    if (retired := facts.retired) is None:
        return []
    text = f"{retired.by} has retired definition {facts.definition!r} at {_time(retired.at)}: no code declares it."
    return [Reason("retired", text, by=retired.by)]


def _unserved(facts: JobFacts) -> list[Reason]:
    if facts.served:
        return []
    there = ", ".join(map(str, facts.versions))
    rest = f"; version {there} is served" if there else " in any version"
    text = f"No live worker has {facts.definition!r} version {facts.version} loaded{rest}."
    if facts.failing:
        some = "Worker" if len(facts.failing) == 1 else "Workers"
        text += f" {some} {', '.join(facts.failing)} cannot start its application."
    return [Reason("no_worker", text, by=",".join(facts.failing) or None)]


def _full(facts: JobFacts) -> list[Reason]:
    found = []
    if (full := facts.concurrency) is not None:
        text = f"{facts.definition!r} may run {full.limit} jobs concurrently, and {_holders(full)}."
        found.append(Reason("concurrency_full", text, by=_names(full)))
    if (full := facts.key_slots) is not None:
        text = f"Concurrency key {facts.key!r} admits {full.limit} jobs concurrently, and {_holders(full)}."
        found.append(Reason("key_full", text, by=_names(full)))
    return found


def _jobs_ahead(facts: JobFacts) -> Reason:
    if not facts.ahead:
        return Reason("behind", "It is next: no job that workers serve ranks before it.")
    count = f"{facts.ahead} or more jobs rank" if facts.ahead >= MOST_AHEAD else f"{facts.ahead} jobs rank"
    return Reason("behind", f"{'1 job ranks' if facts.ahead == 1 else count} before it.")


def _holders(full: FullLimit) -> str:
    if not full.holders:
        return "the next sweep will look whether there is room"
    more = full.taken - len(full.holders)
    others = f" and {more} more" if more > 0 else ""
    return f"these hold it: {', '.join(full.holders)}{others}"


def _names(full: FullLimit) -> str | None:
    return ",".join(full.holders) or None


def _since(instant: int | None, at: str = "since") -> str:
    return "" if instant is None else f" {at} {_time(instant)}"


def _time(instant: int) -> str:
    return to_datetime(instant).isoformat(timespec="seconds")
