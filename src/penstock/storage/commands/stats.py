"""Statistics: errors, throughput, durations and counts; a part of the admin port.

The cost does not grow with the number of jobs that are kept: counters are written with each change, and only a bounded
number of the newest rows is examined.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, maybe_datetime, to_datetime
from penstock.domain.plan import Statement, Steps, reads, writes
from penstock.domain.states import BY_CODE, Status
from penstock.domain.stats import (
    LOST,
    DefinitionStats,
    DurationHistogram,
    Durations,
    ErrorGroup,
    ErrorPage,
    Flow,
    LifetimeStats,
    MinuteStats,
    Ready,
    Running,
    Stats,
    Totals,
    durations,
    histogram_of,
    sum_histograms,
)
from penstock.storage.commands.rows import Row

MOST = 500
"""The longest page of errors."""
LOOK = 5000
"""How many of the newest failures are examined."""
DEEPEST = 10_000
"""How many ready jobs of each definition are examined for their priorities, and how many outbox rows are counted."""
LONGEST = 90 * DAY
"""How far back statistics reach: hours are kept a little longer."""

_AFTER_ALL = 2**62
_LOOK = 500
_HOUR = HOUR // MINUTE
_RETRIED, _LOST = -1, -2
"""Pseudo statuses in the statement that reads arrivals by span."""
_ENDINGS = (Status.SCHEDULED, Status.REVIEW_NEEDED, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
_FLOWS = {
    Status.QUEUED: "queued",
    Status.RUNNING: "started",
    Status.SUCCEEDED: "succeeded",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a list of errors: the span of time that the list is of, and the last one seen."""

    since: int
    until: int
    at: int = _AFTER_ALL
    fingerprint: str = ""
    definition: str = ""


@reads
def errors(since: int | None = None, *, limit: int = 50, cursor: str | None = None) -> Steps[ErrorPage]:
    """All pages of a list are of the same span of time, so that failures that come meanwhile move nothing."""
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"A page holds 1 to {MOST} errors, not {limit}.")
    if cursor is None:
        ((now,),) = yield Statement("clock")
        place = _Place(now - DAY if since is None else since, now)
    else:
        place = _place(cursor)
    values = {
        "since": place.since, "until": place.until, "past_at": place.at, "past_fingerprint": place.fingerprint,
        "past_key": place.definition, "limit": limit + 1, "look": LOOK,
    }  # fmt: skip
    found = yield Statement("read_errors", values)
    groups = [_group(row) for row in found[:limit]]
    more = None
    if len(found) > limit:
        fingerprint, key, last_at = found[limit - 1][0], found[limit - 1][1], found[limit - 1][7]
        more = _cursor(_Place(place.since, place.until, last_at, fingerprint, key))
    return ErrorPage(groups, more, capped=bool(found) and found[0][9] >= LOOK)


@reads
def stats(since: int | None = None) -> Steps[Stats]:
    ((now,),) = yield Statement("clock")
    begin = now - HOUR if since is None else since
    if begin + MINUTE < now - LONGEST or begin > now:
        raise InvalidInput(
            f"Statistics cover at most the last {LONGEST // DAY} days, and no future.", hint="Ask for a later time."
        )
    grain = 1 if begin + MINUTE >= now - DAY else _HOUR
    first = begin // MINUTE // grain * grain
    seen = yield from _seen(_spans(first))
    day = yield from _seen(_spans((now - DAY) // MINUTE), measure=False)
    counts: defaultdict[str, dict[Status, int]] = defaultdict(dict)
    for key, _, status, n in (yield Statement("read_counts")):
        counts[key][BY_CODE[status]] = counts[key].get(BY_CODE[status], 0) + n
    oldest: dict[str, int] = {}
    for key, _, due_at in (yield Statement("oldest_ready", {"look": _LOOK})):
        oldest[key] = min(due_at, oldest.get(key, due_at))
    series: defaultdict[int, _Seen] = defaultdict(_Seen)
    for span, status, n in (yield Statement("read_series", {"grain": grain, "first": first})):
        series[span].add(status, n)
    keys = [key for (key,) in (yield Statement("definition_keys"))]
    return Stats(
        at=to_datetime(now),
        since=to_datetime(first * MINUTE),
        counts=_sum(counts.values()),
        flow=_sum_of_flows(each.flow for each in seen.values()),
        definitions=[
            DefinitionStats(
                key, counts[key], seen[key].flow, maybe_datetime(oldest.get(key)), durations(seen[key].runs),
                durations(seen[key].waits), day[key].flow.failed,
            )
            for key in keys
        ],
        minutes=[MinuteStats(to_datetime(span * MINUTE), each.flow) for span, each in sorted(series.items())],
        durations=durations(sum_histograms(each.runs for each in seen.values())),
        waits=durations(sum_histograms(each.waits for each in seen.values())),
        step=grain * 60,
    )  # fmt: skip


@reads
def totals() -> Steps[Totals]:
    ((now,),) = yield Statement("clock")
    seen = yield from _seen({"near": 0, "first": 0, "hour": 1, "far": 0})
    oldest = {(key, priority): due_at for key, priority, due_at in (yield Statement("oldest_ready", {"look": _LOOK}))}
    depths = {(key, priority): n for key, priority, n in (yield Statement("ready_depths", {"look": DEEPEST}))}
    ((hooks, deliveries),) = yield Statement("outbox_depths", {"cap": DEEPEST})
    return Totals(
        at=to_datetime(now),
        ever=[LifetimeStats(key, each.flow, each.waits, each.all_runs) for key, each in sorted(seen.items())],
        ready=[Ready(*each, depths.get(each, 0), maybe_datetime(oldest.get(each))) for each in sorted(depths | oldest)],
        hooks_waiting=hooks,
        deliveries_waiting=deliveries,
    )


@reads
def usual_durations() -> Steps[dict[str, Durations]]:
    seen = yield from _seen({"near": 0, "first": 0, "hour": 1, "far": 0})
    return {key: known for key, each in seen.items() if (known := durations(each.runs)) is not None}


@reads
def longest_running(limit: int = 100) -> Steps[list[Running]]:
    found = yield Statement("longest_running", {"limit": limit})
    return [
        Running(job_id, key, to_datetime(started), maybe_datetime(reported)) for job_id, key, started, reported in found
    ]


class _Seen:
    """What was counted of one definition, or in one span of time."""

    def __init__(self) -> None:
        self._arrived: dict[int, int] = {}
        self._took: dict[int, int] = {}
        self._letters: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def add(self, status: int, n: int, took: int = 0) -> None:
        self._arrived[status] = n
        self._took[status] = took

    def add_letters(self, status: int, code: int, n: int) -> None:
        self._letters[status][code] = n
        told = _LOST if code == LOST else _RETRIED if status == Status.SCHEDULED.code else None
        if told is not None:
            self._arrived[told] = self._arrived.get(told, 0) + n

    @property
    def flow(self) -> Flow:
        facts = {name: self._arrived.get(status.code, 0) for status, name in _FLOWS.items()}
        return Flow(**facts, retried=self._arrived.get(_RETRIED, 0), lost=self._arrived.get(_LOST, 0))

    @property
    def waits(self) -> DurationHistogram:
        return self._lengths(Status.RUNNING)

    @property
    def runs(self) -> DurationHistogram:
        """Of those that succeeded."""
        return self._lengths(Status.SUCCEEDED)

    @property
    def all_runs(self) -> DurationHistogram:
        return sum_histograms(map(self._lengths, _ENDINGS))

    def _lengths(self, status: Status) -> DurationHistogram:
        return histogram_of(self._letters[status.code], self._took.get(status.code, 0) / SECOND)


def _spans(first: int) -> dict[str, int]:
    """From a minute on: the minutes up to a full hour, then the hours."""
    return {"near": 1, "first": first, "hour": -(-first // _HOUR) * _HOUR, "far": _HOUR}


def _seen(spans: Mapping[str, int], *, measure: bool = True) -> Steps[defaultdict[str, _Seen]]:
    """What was counted by definition."""
    seen: defaultdict[str, _Seen] = defaultdict(_Seen)
    for key, status, n, took in (yield Statement("read_flow", spans)):
        seen[key].add(status, n, took)
    if measure:
        for key, status, code, n in (yield Statement("read_lengths", spans)):
            seen[key].add_letters(status, code, n)
    return seen


def _group(row: Row) -> ErrorGroup:
    fingerprint, key, error_type, error, jobs, attempts, first_at, last_at, job_id, _ = row
    lines = (error or "").strip().splitlines()
    return ErrorGroup(
        fingerprint, key, error_type, lines[0][:500] if lines else "", jobs, attempts, to_datetime(first_at),
        to_datetime(last_at), job_id,
    )  # fmt: skip


def _sum_of_flows(several: Iterable[Flow]) -> Flow:
    flows = list(several)
    return Flow(**{each.name: sum(getattr(flow, each.name) for flow in flows) for each in fields(Flow)})


def _sum(several: Iterable[Mapping[Status, int]]) -> dict[Status, int]:
    total: dict[Status, int] = {}
    for each in several:
        for status, n in each.items():
            total[status] = total.get(status, 0) + n
    return total


def _cursor(place: _Place) -> str:
    facts = [place.since, place.until, place.at, place.fingerprint, place.definition]
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place(cursor: str) -> _Place:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        since, until, at, fingerprint, definition = json.loads(text)
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise _not_a_cursor(cursor) from None
    numbers = all(type(each) is int and abs(each) <= _AFTER_ALL for each in (since, until, at))
    texts = all(
        isinstance(each, str) and "\x00" not in each and each.isprintable() for each in (fingerprint, definition)
    )
    if not numbers or not texts:
        raise _not_a_cursor(cursor)
    return _Place(since, until, at, fingerprint, definition)


def _not_a_cursor(cursor: str) -> InvalidInput:
    return InvalidInput(f"{cursor[:100]!r} is not a cursor of this list.", hint="Use the one that the last page gave.")


BATCH = 10_000
"""How many deltas one transaction folds, so that it stays short."""


@reads
def counts() -> Steps[dict[tuple[str, int], dict[Status, int]]]:
    answer: dict[tuple[str, int], dict[Status, int]] = {}
    for key, version, status, n in (yield Statement("read_counts")):
        answer.setdefault((key, version), {})[BY_CODE[status]] = n
    return answer


@writes
def fold() -> Steps[int]:
    """Fold one batch: when it was a full one, fold again."""
    ((folded,),) = yield Statement("fold", {"limit": BATCH}, alone=True)
    return int(folded)
