"""Changes in bulk: what filters speak of, all of it, within bounds, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Bulk, InvalidInput, Penstock, Status
from penstock.domain.outcome import Failure
from penstock.operations import bulk as module
from penstock.storage.commands import admin
from tests.definitions import shapes
from tests.operations.hand import Hand


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)


def enqueue(app: Penstock, count: int, **options: Any) -> list[str]:
    handle = next((each for each in app.definitions.declared if each.key == "work"), None) or app.job("work")(
        shapes.plain
    )
    orders = [handle.options(**options).order(f"{number}") for number in range(count)]
    return [job.id for job in app.enqueue_many(orders)]


def statuses(app: Penstock, job_ids: list[str]) -> list[Status]:
    return [app.jobs.read(job_id).status for job_id in job_ids]


@pytest.mark.usefixtures("small_batches")
def test_all_that_the_filter_speaks_of_is_cancelled_and_nothing_else(app: Penstock) -> None:
    tagged, others = enqueue(app, 5, tags=["a"]), enqueue(app, 3)

    done = app.jobs.bulk("cancel", tag="a", by="ann")

    assert done == Bulk(matched=5, changed=5, skipped=0)
    assert statuses(app, tagged) == [Status.CANCELLED] * 5
    assert statuses(app, others) == [Status.QUEUED] * 3
    assert {entry.actor for entry in app.store.run(admin.audit())} == {"ann"}


@pytest.mark.usefixtures("small_batches")
async def test_a_dry_run_counts_what_would_change_and_changes_nothing(app: Penstock) -> None:
    job_ids = enqueue(app, 5, tags=["a"])
    app.jobs.cancel(job_ids[1])

    told = app.jobs.bulk("cancel", tag="a", dry_run=True)
    told_again = await app.jobs.abulk("cancel", tag="a", dry_run=True)
    unchanged = statuses(app, job_ids).count(Status.QUEUED)
    done = await app.jobs.abulk("cancel", tag="a")

    assert told == told_again == done == Bulk(matched=5, changed=4, skipped=1)
    assert unchanged == 4


@pytest.mark.usefixtures("small_batches")
def test_the_limit_bounds_how_many_are_looked_at_the_oldest_first(app: Penstock) -> None:
    job_ids = enqueue(app, 5)

    done = app.jobs.bulk("cancel", definition_key="work", limit=3)

    assert done == Bulk(3, 3, 0)
    assert statuses(app, job_ids) == [Status.CANCELLED] * 3 + [Status.QUEUED] * 2


@pytest.mark.usefixtures("small_batches")
def test_what_ended_badly_is_retried_and_the_rest_is_skipped(app: Penstock) -> None:
    good, bad = enqueue(app, 2)
    hand = Hand(app)
    claimed = {each.job_id: each for each in hand.claim()}
    hand.end(claimed[bad], hand.failing(Failure("E", "no")))
    hand.end(claimed[good], hand.succeeding())
    (waiting,) = enqueue(app, 1)

    done = app.jobs.bulk("retry", definition_key="work")

    assert done == Bulk(3, 1, 2)
    assert statuses(app, [good, bad, waiting]) == [Status.SUCCEEDED, Status.QUEUED, Status.QUEUED]


def test_one_that_cannot_be_retried_does_not_keep_the_others(app: Penstock) -> None:
    first = enqueue(app, 1, unique="same")
    app.jobs.cancel(first[0])
    others = enqueue(app, 3)
    app.jobs.bulk("cancel", job_id=others)
    holder = enqueue(app, 1, unique="same")

    done = app.jobs.bulk("retry", status="cancelled")

    assert done == Bulk(4, 3, 1)
    assert statuses(app, [*first, *others, *holder]) == [Status.CANCELLED] + [Status.QUEUED] * 4


@pytest.mark.usefixtures("small_batches")
def test_ended_jobs_are_deleted_in_bulk(app: Penstock) -> None:
    ended, active = enqueue(app, 3), enqueue(app, 2)
    app.jobs.bulk("cancel", job_id=ended)

    done = app.jobs.bulk("delete", everything=True)

    assert done == Bulk(5, 3, 2)
    assert sorted(job.id for job in app.jobs.iterate()) == sorted(active)


@pytest.mark.usefixtures("small_batches")
def test_jobs_that_wait_are_given_another_priority_in_bulk(app: Penstock) -> None:
    job_ids = enqueue(app, 3)
    app.jobs.cancel(job_ids[0])

    done = app.jobs.bulk("reprioritise", definition_key="work", priority=20)

    assert done == Bulk(3, 2, 1)
    assert [app.jobs.read(job_id).priority for job_id in job_ids] == [10, 20, 20]


def test_nothing_matched_is_no_error(app: Penstock) -> None:
    assert app.jobs.bulk("cancel", everything=True) == Bulk(0, 0, 0)


@pytest.mark.parametrize(
    ("action", "how", "problem"),
    [
        ("explode", {"tag": "a"}, "'explode' cannot be done in bulk"),
        ("cancel", {}, "cancel in bulk without a filter would change every job"),
        ("cancel", {"tag": None}, "without a filter"),
        ("cancel", {"tag": "a", "limit": 0}, "limit must be at least 1, not 0"),
        ("cancel", {"tag": "a", "limit": "all"}, "limit must be an integer"),
        ("cancel", {"tags": "a"}, "'tags' is not a filter of jobs"),
        ("cancel", {"tag": "a", "priority": 5}, "reprioritise needs a priority, and nothing else takes one"),
        ("reprioritise", {"tag": "a"}, "reprioritise needs a priority"),
        ("reprioritise", {"tag": "a", "priority": 21}, "priority must be an integer from 0 to 20"),
        ("cancel", {"tag": "a", "by": 5}, "by must be a text"),
    ],
)
def test_a_change_that_is_wrong_is_refused(
    memory_app: Penstock, action: str, how: dict[str, Any], problem: str
) -> None:
    job_ids = enqueue(memory_app, 2, tags=["a"])

    with pytest.raises(InvalidInput) as raised:
        memory_app.jobs.bulk(action, **how)

    assert problem in raised.value.message
    assert statuses(memory_app, job_ids) == [Status.QUEUED] * 2
