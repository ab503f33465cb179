"""stats and longest_running: figures that are equal to what the rows say."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import DAY, HOUR, MINUTE, SECOND, to_datetime
from penstock.domain.job import Claimed
from penstock.domain.states import BY_CODE, Status, Trigger
from penstock.domain.stats import BOUNDS, DefinitionStats, DurationHistogram, Durations, Flow, durations
from penstock.storage.commands import admin, control, jobs
from tests.storage.kit import START, Kit
from tests.storage.tables import ATTEMPTS, query

pytestmark = pytest.mark.usefixtures("sound")
assert START % HOUR == 0
HOURS_OF_THREE = [(0, 2), (24, 1)]


def of(kit: Kit, key: str = "work", since: int | None = None) -> DefinitionStats:
    (found,) = [each for each in kit.run(admin.stats(since)).definitions if each.definition_key == key]
    return found


def run(kit: Kit, definition: str = "work", seconds: float = 0, trigger: Trigger = Trigger.SUCCEED) -> str:
    claimed = kit.running(definition)
    kit.advance(seconds)
    facts: dict[str, Any] = {"retryable": False} if trigger is Trigger.FAIL else {}
    kit.settle(claimed, trigger, **facts)
    return claimed.job_id


def histogram(seconds: Sequence[float]) -> DurationHistogram:
    """The same from the lengths themselves."""
    counts = [0] * (len(BOUNDS) + 1)
    for each in seconds:
        counts[sum(each > bound for bound in BOUNDS)] += 1
    return DurationHistogram(tuple(counts), round(math.fsum(seconds), 6))


def test_an_empty_store_has_empty_figures(kit: Kit) -> None:
    kit.define()

    found = kit.run(admin.stats())

    assert (found.at, found.since) == (to_datetime(START), to_datetime(START - HOUR))
    assert (found.counts, found.flow, found.depth, found.minutes, found.durations) == ({}, Flow(), 0, [], None)
    assert found.definitions == [DefinitionStats("work")]
    assert found.flow.failure_rate is None


def test_counts_are_by_status_and_by_definition_over_all_versions(kit: Kit) -> None:
    kit.define("work", version=1)
    kit.job_in(Status.SUCCEEDED)
    kit.job_in(Status.FAILED)
    kit.define("work", version=2)
    kit.job_in(Status.SUCCEEDED)
    kit.create("mail")

    found = kit.run(admin.stats())

    assert found.counts == {Status.SUCCEEDED: 2, Status.FAILED: 1, Status.QUEUED: 1}
    assert of(kit).counts == {Status.SUCCEEDED: 2, Status.FAILED: 1}
    assert (of(kit, "mail").depth, of(kit).depth, found.depth) == (1, 0, 1)


def test_what_happened_is_told_by_the_minute_folded_or_not(kit: Kit) -> None:
    run(kit)
    kit.advance(60)
    run(kit, trigger=Trigger.FAIL)
    run(kit, "mail")
    before = kit.run(admin.stats())

    assert kit.run(admin.fold()) > 0

    after = kit.run(admin.stats())
    assert before == after
    assert after.flow == Flow(queued=3, started=3, succeeded=2, failed=1)
    assert [(each.minute, each.flow.succeeded, each.flow.failed) for each in after.minutes] == [
        (to_datetime(START), 1, 0),
        (to_datetime(START + MINUTE), 1, 1),
    ]
    assert of(kit).flow == Flow(queued=2, started=2, succeeded=1, failed=1)
    assert of(kit).flow.failure_rate == 0.5


def test_minutes_before_the_instant_are_left_out(kit: Kit) -> None:
    run(kit)
    kit.run(admin.fold())
    kit.advance(120)
    run(kit)

    found = kit.run(admin.stats(START + MINUTE + 1))

    assert found.since == to_datetime(START + MINUTE)
    assert found.flow.succeeded == 1
    assert of(kit, since=START + 59 * SECOND).flow.succeeded == 2


def test_figures_reach_back_for_a_day_by_the_minute_and_for_ninety_by_the_hour(kit: Kit) -> None:
    run(kit)
    kit.advance(40 * 60)
    run(kit, trigger=Trigger.FAIL)
    kit.run(admin.fold())
    kit.advance(86_400)
    run(kit)

    found = kit.run(admin.stats(START + MINUTE))

    assert (found.step, found.since) == (3600, to_datetime(START // HOUR * HOUR))
    assert [(each.minute, each.flow.finished) for each in found.minutes] == [
        (to_datetime(START // HOUR * HOUR + hours * HOUR), n) for hours, n in HOURS_OF_THREE
    ]
    assert (found.flow.succeeded, found.flow.failed) == (2, 1)
    assert kit.run(admin.stats(kit.now - DAY)).step == 60
    kit.run(admin.stats(kit.now - 90 * DAY))
    for since in (kit.now - 90 * DAY - 2 * MINUTE, kit.now + 1):
        with pytest.raises(InvalidInput, match="90 days"):
            kit.run(admin.stats(since))


def test_failures_of_the_last_day_are_told_whatever_the_span(kit: Kit) -> None:
    run(kit, trigger=Trigger.FAIL)
    kit.run(admin.fold())
    kit.advance(7200)
    run(kit, trigger=Trigger.FAIL)

    assert (of(kit).flow.failed, of(kit).failed_last_day) == (1, 2)
    kit.advance(23 * 3600)
    assert of(kit).failed_last_day == 1


def test_the_oldest_of_a_definition_is_found_behind_whatever_is_more_urgent(kit: Kit) -> None:
    kit.create(priority=1)
    kit.advance(10)
    for priority in (0, 5, 10, 20):
        kit.create(priority=priority)
        kit.advance(10)
    kit.create("mail")
    kit.create("later", delay=HOUR)

    assert of(kit).oldest_run_at == to_datetime(START)
    assert of(kit, "mail").oldest_run_at == to_datetime(kit.now)
    assert of(kit, "later").oldest_run_at is None


@pytest.mark.parametrize("priority", range(21))
def test_the_oldest_is_found_in_each_priority(kit: Kit, priority: int) -> None:
    kit.create(priority=priority)
    kit.advance(10)
    for other in range(21):
        kit.create(priority=other)

    assert of(kit).oldest_run_at == to_datetime(START)


def test_jobs_that_are_held_back_by_their_key_are_deep_but_not_ready(kit: Kit) -> None:
    kit.define("work", key_concurrency=1)
    kit.create(concurrency_key="a")
    kit.advance(1)
    kit.create(concurrency_key="a")
    kit.claim(limit=1)

    assert of(kit).depth == 1
    assert of(kit).oldest_run_at is None


@pytest.mark.parametrize("folded", [False, True])
def test_durations_are_those_of_attempts_that_succeeded(kit: Kit, folded: bool) -> None:
    for seconds in (1, 2, 3, 4):
        run(kit, seconds=seconds)
    run(kit, seconds=100, trigger=Trigger.FAIL)
    run(kit, "mail", seconds=10)
    if folded:
        kit.run(admin.fold())

    found = kit.run(admin.stats())

    assert of(kit).durations == Durations(2.5, 5.0, 4)
    assert of(kit, "mail").durations == Durations(10.0, 10.0, 1)
    assert found.durations == Durations(4.0, 10.0, 5)
    kit.advance(120)
    assert of(kit, since=kit.now).durations is None


def test_waits_are_from_the_queue_to_the_claim(kit: Kit) -> None:
    kit.create()
    kit.create(delay=10 * SECOND)
    kit.advance(30)
    kit.run(jobs.promote())
    kit.advance(0.5)
    kit.claim()

    assert of(kit).waits == Durations((30.5 + 0.5) / 2, of(kit).waits.p95, 2)  # type: ignore[union-attr]
    assert 30 <= of(kit).waits.p95 <= 60  # type: ignore[union-attr]


def test_retries_and_losses_are_told_apart(kit: Kit) -> None:
    retried, snoozed, lost, released = (kit.running(key) for key in ("a", "b", "c", "d"))
    kit.settle(retried, Trigger.FAIL)
    kit.settle(snoozed, Trigger.SNOOZE, delay=SECOND)
    kit.settle(lost, Trigger.LOSE)
    kit.settle(released, Trigger.RELEASE)
    before = kit.run(admin.stats())

    kit.run(admin.fold())

    after = kit.run(admin.stats())
    assert before == after
    assert (after.flow.retried, after.flow.lost) == (1, 1)
    assert [(each.flow.retried, each.flow.lost) for each in after.minutes] == [(1, 1)]
    assert (of(kit, "a").flow.retried, of(kit, "c").flow.lost) == (1, 1)


def test_a_bucket_has_its_upper_bound(kit: Kit) -> None:
    for seconds in BOUNDS:
        run(kit, seconds=seconds)
        kit.now += 60 * SECOND
    kit.run(admin.fold())

    (found,) = kit.run(admin.totals()).ever

    assert found.runs.counts == (1,) * len(BOUNDS) + (0,)
    assert found.runs.total == pytest.approx(sum(BOUNDS))


def test_a_quantile_is_found_between_the_bounds_of_its_bucket() -> None:
    counts = [0] * (len(BOUNDS) + 1)
    assert durations(DurationHistogram(tuple(counts))) is None

    counts[9] = 100  # over half a second, up to a second
    assert durations(DurationHistogram(tuple(counts), 80.0)) == Durations(0.8, 0.5 + 0.5 * 95 / 100, 100)
    counts[-1] = 100
    assert DurationHistogram(tuple(counts), 200 * 200_000.0).quantile(0.95) == 200_000
    assert DurationHistogram(tuple(counts), 1.0).quantile(0.95) == BOUNDS[-1]
    assert DurationHistogram(tuple(counts)).cumulative()[-1] == (math.inf, 200)


def test_figures_equal_the_rows_after_a_random_history(kit: Kit) -> None:
    chance = random.Random(5)
    waits: defaultdict[str, list[float]] = defaultdict(list)
    keys = {kit.define(key): key for key in ("one", "two", "three")}

    def claim(limit: int) -> list[Claimed]:
        queued: dict[Any, int] = dict(query(kit.store, "SELECT id, queued_at FROM {s}job WHERE status = {queued}"))
        taken = kit.claim(limit=limit)
        for each in taken:
            waits[keys[each.lane]].append((kit.now - {str(key): at for key, at in queued.items()}[each.job_id]) / 1e6)
        return taken

    for _ in range(160):
        key = chance.choice(sorted(keys.values()))
        kit.advance(chance.uniform(0, 20))
        match chance.randrange(7):
            case 0:
                kit.create(key, priority=chance.randrange(21))
            case 1:
                kit.create(key, delay=chance.randrange(1, 60) * SECOND)
            case 2:
                kit.run(jobs.promote())
                claim(2)
            case 3:
                kit.run(control.cancel([kit.create(key)]))
            case 4:
                kit.run(admin.fold())
            case 5:
                kit.run(jobs.reclaim(0, 0.5))
            case _:
                for claimed in claim(1):
                    kit.advance(chance.choice([0.0004, 0.03, 0.7, 8]))
                    kit.settle(claimed, chance.choice([Trigger.SUCCEED, Trigger.FAIL]))
    found = kit.run(admin.stats(START))
    totals = kit.run(admin.totals())

    text = "SELECT key, status, count(*) FROM {s}job JOIN {s}definition USING (lane) GROUP BY 1, 2"
    rows = {(key, BY_CODE[status]): n for key, status, n in query(kit.store, text)}
    assert {(each.definition_key, status): n for each in found.definitions for status, n in each.counts.items()} == rows
    text = "SELECT key, min(due_at) FROM {s}job JOIN {s}definition USING (lane) WHERE status = {queued} GROUP BY 1"
    oldest = {key: to_datetime(at) for key, at in query(kit.store, text)}
    assert {each.definition_key: each.oldest_run_at for each in found.definitions if each.oldest_run_at} == oldest
    text = (
        "SELECT key, priority, count(*), min(due_at) FROM {s}job JOIN {s}definition USING (lane)"
        " WHERE status = {queued} GROUP BY 1, 2"
    )
    ready = {(key, priority): (n, to_datetime(at)) for key, priority, n, at in query(kit.store, text)}
    assert {(each.definition, each.priority): (each.depth, each.oldest_due_at) for each in totals.ready} == ready
    text = "SELECT kind, count(*) FROM {s}event GROUP BY 1"
    events: dict[str, int] = dict(query(kit.store, text))
    assert events["job.lost"] > 0
    assert events["job.retrying"] > 0
    assert found.flow.succeeded == events["job.succeeded"]
    assert found.flow.cancelled == events["job.cancelled"]
    assert found.flow.retried == events["job.retrying"]
    assert sum(each.flow.started for each in found.minutes) == found.flow.started
    for name in ("queued", "started", "succeeded", "failed", "cancelled", "retried", "lost"):
        assert sum(getattr(each.flow, name) for each in found.minutes) == getattr(found.flow, name)
        assert sum(getattr(each.flow, name) for each in totals.ever) == getattr(found.flow, name)
    text = (
        f"SELECT key, attempt.status, attempt.ended_at - attempt.started_at, cause FROM {ATTEMPTS}"
        " JOIN {s}job AS job ON job.id = attempt.job_id JOIN {s}definition AS definition ON definition.lane = job.lane"
    )
    attempts = [(key, status, (took or 0) / 1e6, cause) for key, status, took, cause in query(kit.store, text)]
    assert found.flow.lost == sum(cause == "lost" for *_, cause in attempts)
    for each in totals.ever:
        ran = [took for key, _, took, cause in attempts if key == each.definition and cause not in ("lost", "released")]
        assert each.runs == histogram(ran)
        assert each.waits == histogram(waits[each.definition])
    for one in found.definitions:
        took = [
            took for key, status, took, _ in attempts if key == one.definition_key and status == Status.SUCCEEDED.code
        ]
        assert one.durations == durations(histogram(took))
        assert one.waits == durations(histogram(waits[one.definition_key]))
    assert kit.run(admin.fold()) >= 0
    assert kit.run(admin.totals()) == totals
    assert kit.run(admin.stats(START)) == found


def test_those_that_run_longest_come_first(kit: Kit) -> None:
    first = kit.running().job_id
    kit.advance(1)
    second = kit.running("mail").job_id
    kit.create()

    found = kit.run(admin.longest_running())

    assert [(each.job_id, each.definition) for each in found] == [(first, "work"), (second, "mail")]
    assert found[1].started_at - found[0].started_at == timedelta(seconds=1)
    assert [each.job_id for each in kit.run(admin.longest_running(1))] == [first]
