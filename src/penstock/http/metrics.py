"""Metrics for Prometheus. Every scrape reads the store, so all servers report the same figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as TEXT
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPEN_TEXT
from prometheus_client.openmetrics.exposition import generate_latest as in_open_metrics
from prometheus_client.registry import Collector

from penstock.domain.alerts import Alert
from penstock.domain.states import Status
from penstock.domain.stats import DurationHistogram, Flow, Totals
from penstock.domain.worker import WorkerRow
from penstock.runtime import durations

Counts = Mapping[tuple[str, int], Mapping[Status, int]]
__all__ = ["OPEN_TEXT", "TEXT", "exposition"]

_FINISHED = ("succeeded", "failed", "cancelled")


def exposition(
    counts: Counts, workers: Sequence[WorkerRow], alerts: Sequence[Alert], totals: Totals, *, is_open: bool = False
) -> bytes:
    """Return all metrics as text; `is_open`: in the OpenMetrics format."""
    registry = CollectorRegistry(auto_describe=False)
    live = [each for each in workers if each.live]
    registry.register(
        _Figures(
            [*_jobs(counts), *_queue(totals), *_ever(totals), *_workers(live), *_by_workers(live), _alerts(alerts)]
        )
    )
    if not is_open:
        return generate_latest(registry)
    text: bytes = in_open_metrics(registry)  # type: ignore[no-untyped-call]
    return text


class _Figures(Collector):
    """A collector of metrics that are already built."""

    def __init__(self, made: Sequence[Metric]) -> None:
        self._made = made

    def collect(self) -> Iterator[Metric]:
        return iter(self._made)


def _jobs(counts: Counts) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("penstock_jobs", "Jobs by status.", labels=["definition", "version", "status"])
    for (key, version), statuses in sorted(counts.items()):
        for status, n in statuses.items():
            jobs.add_metric([key, str(version), status], n)
    yield jobs


def _queue(totals: Totals) -> Iterator[Metric]:
    labels = ["definition", "priority"]
    depth = GaugeMetricFamily(
        "penstock_queue_depth", "Jobs that are ready, of the first 10,000 of each definition.", labels=labels
    )
    oldest = GaugeMetricFamily(
        "penstock_queue_oldest_age_seconds", "How long the longest-waiting ready job has waited.", labels=labels
    )
    for each in totals.ready:
        depth.add_metric([each.definition, str(each.priority)], each.depth)
        if each.oldest_due_at is not None:
            age = max(0.0, (totals.at - each.oldest_due_at).total_seconds())
            oldest.add_metric([each.definition, str(each.priority)], age)
    yield depth
    yield oldest
    outbox = GaugeMetricFamily("penstock_outbox_depth", "Messages to be sent, counted up to 10,000.", labels=["outbox"])
    outbox.add_metric(["hooks"], totals.hooks_waiting)
    outbox.add_metric(["webhooks"], totals.deliveries_waiting)
    yield outbox


def _ever(totals: Totals) -> Iterator[Metric]:
    finished = CounterMetricFamily("penstock_jobs_finished", "Jobs that ended.", labels=["definition", "outcome"])
    for each in totals.ever:
        for outcome in _FINISHED:
            finished.add_metric([each.definition, outcome], getattr(each.flow, outcome))
    yield finished
    yield _counter("penstock_attempts_started", "Attempts that were claimed.", totals, lambda it: it.started)
    yield _counter(
        "penstock_retries", "Attempts that failed and were followed by another one.", totals, lambda it: it.retried
    )
    yield _counter("penstock_lease_expiries", "Attempts whose worker's lease ended.", totals, lambda it: it.lost)
    waits = HistogramMetricFamily(
        "penstock_wait_seconds", "How long jobs waited in the queue before they were claimed.", labels=["definition"]
    )
    runs = HistogramMetricFamily(
        "penstock_run_seconds", "How long attempts took, however they ended.", labels=["definition"]
    )
    for each in totals.ever:
        waits.add_metric([each.definition], _buckets(each.waits), each.waits.total)
        runs.add_metric([each.definition], _buckets(each.runs), each.runs.total)
    yield waits
    yield runs


def _counter(name: str, text: str, totals: Totals, value: Callable[[Flow], int]) -> Metric:
    counter = CounterMetricFamily(name, text, labels=["definition"])
    for each in totals.ever:
        counter.add_metric([each.definition], value(each.flow))
    return counter


def _buckets(found: DurationHistogram) -> list[tuple[str, float]]:
    return [(_bound(bound), n) for bound, n in found.cumulative()]


def _bound(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else f"{seconds:g}"


def _workers(live: Sequence[WorkerRow]) -> Iterator[Metric]:
    yield GaugeMetricFamily("penstock_workers_live", "Workers whose lease is live.", value=len(live))
    yield GaugeMetricFamily(
        "penstock_worker_slots", "Slots of all live workers.", value=sum(each.slots for each in live)
    )
    ages = GaugeMetricFamily(
        "penstock_duty_last_success_age_seconds",
        "Seconds since a worker's duty last succeeded.",
        labels=["worker", "duty"],
    )
    errors = CounterMetricFamily("penstock_duty_errors", "How often a worker's duty failed.", labels=["worker", "duty"])
    for worker in live:
        for duty in worker.duties:
            if duty.last_success_age is not None:
                ages.add_metric([worker.id, duty.name], duty.last_success_age)
            errors.add_metric([worker.id, duty.name], duty.errors)
    yield ages
    yield errors


def _by_workers(live: Sequence[WorkerRow]) -> Iterator[Metric]:
    """Return what workers count themselves, as of a recent heartbeat."""
    refused = CounterMetricFamily(
        "penstock_stale_writes_refused", "Writes of attempts that no longer owned their job.", labels=["worker"]
    )
    forks = CounterMetricFamily("penstock_zygote_forks", "Processes that were forked for jobs.", labels=["worker"])
    claims = HistogramMetricFamily("penstock_claim_seconds", "How long a claim takes.", labels=["worker"])
    for worker in live:
        figures = worker.figures
        refused.add_metric([worker.id], figures.get("refused", 0))
        forks.add_metric([worker.id], figures.get("forks", 0))
        buckets, so_far = [], 0.0
        for place, bound in enumerate((*durations.BOUNDS, math.inf)):
            so_far += figures.get(f"claim_{place}", 0)
            buckets.append((_bound(bound), so_far))
        claims.add_metric([worker.id], buckets, figures.get("claim_seconds", 0.0))
    yield refused
    yield forks
    yield claims


def _alerts(alerts: Sequence[Alert]) -> Metric:
    found = GaugeMetricFamily("penstock_alerts", "Active alerts.", labels=["kind", "severity"])
    for (kind, severity), n in sorted(Counter((each.kind, each.severity) for each in alerts).items()):
        found.add_metric([kind, severity], n)
    return found
