"""PostgreSQL: a transaction of an application that stays open delays nobody else, and loses nothing at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.instant import DAY, SECOND
from penstock.domain.job import Claimed
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, Tick
from penstock.domain.states import Status
from penstock.storage.commands import control, jobs, schedules
from tests.conftest import Counts
from tests.storage.concurrency import Arena, another
from tests.storage.conftest import open_store
from tests.storage.kit import LEASE, START, Kit
from tests.storage.tables import check_soundness, query
from tests.storage.test_rate_and_key import Queue


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """A store that gives up on a lock after three seconds: whatever waits for the open transaction fails its test."""
    for store in open_store("postgres-18", request, tmp_path, statement_seconds=3):
        kit = Kit(store)
        kit.define(key_concurrency=1)
        yield kit
        kit.run(jobs.promote())
        check_soundness(store)


@contextmanager
def open_transaction(kit: Kit) -> Iterator[psycopg.Connection[Any]]:
    """An application that has created a job under the key `k` and has not committed."""
    with psycopg.connect(kit.store.url) as connection:
        kit.store.run_on(connection, jobs.create([kit.draft(concurrency_key="k")]), now=kit.now)
        yield connection


def keyed(kit: Kit, worker: str | None = None) -> Claimed:
    return kit.running(worker=worker, concurrency_key="k")


def admitted(kit: Kit) -> int:
    among = "limit_key IS NOT NULL AND NOT blocked AND (status IN {pending} OR status IN {live})"
    return len(query(kit.store, f"SELECT id FROM {{s}}job WHERE {among}"))


def create(kit: Kit) -> None:
    kit.create(concurrency_key="k")


def settle(kit: Kit) -> None:
    worker = kit.worker()
    ended, with_another = keyed(kit, worker), kit.running(worker=worker)

    report = kit.settle_all([kit.ending(ended), kit.ending(with_another)])

    assert len(report.applied) == 2


def promote(kit: Kit) -> None:
    due = [kit.create(delay=SECOND, **key) for key in ({"concurrency_key": "k"}, {})]
    kit.advance(1)

    promoted = kit.run(jobs.promote())

    assert sorted(promoted) == sorted(due)


def reclaim(kit: Kit) -> None:
    worker = kit.worker()
    kit.create(concurrency_key="k")
    kit.create()
    assert len(kit.claim(worker)) == 2
    kit.advance(LEASE / SECOND + 2)

    assert len(kit.run(jobs.reclaim(SECOND, 0.5)).lost) == 2


def tick(kit: Kit) -> None:
    kit.run(schedules.save(Schedule("often", "work", Kind.INTERVAL, "60", next_run_at=START), by="ann"))
    draft = kit.draft(concurrency_key="k")

    assert kit.run(schedules.tick(Tick("often", 1, START, START + DAY), draft, Overlap.ALLOW)).verdict == "made"


def cancel(kit: Kit) -> None:
    first = kit.create(concurrency_key="k")

    assert kit.run(control.cancel([first])) == {first: Status.CANCELLED}


def claim(kit: Kit) -> None:
    kit.create()

    assert len(kit.claim()) == 1


def override(kit: Kit) -> None:
    kit.create(concurrency_key="k")
    kit.create(concurrency_key="k")

    kit.run(control.override("work", {"key_concurrency": 5}, by="ann"))


@pytest.mark.parametrize("act", [create, claim, settle, promote, reclaim, tick, cancel, override])
def test_a_transaction_that_created_a_job_under_a_key_delays_nothing_of_that_key(
    kit: Kit, act: Callable[[Kit], None]
) -> None:
    with open_transaction(kit):
        act(kit)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_job_of_a_callers_transaction_is_admitted_once_that_is_committed(kit: Kit, ends: str) -> None:
    with open_transaction(kit) as connection:
        assert kit.run(jobs.next_due()) is None
        getattr(connection, ends)()

    assert kit.run(jobs.next_due()) == (0 if ends == "commit" else None)
    kit.run(jobs.promote())

    assert kit.run(jobs.next_due()) is None
    assert len(kit.claim()) == (1 if ends == "commit" else 0)


def test_of_many_transactions_that_end_together_the_key_admits_no_more_than_its_limit(kit: Kit, counts: Counts) -> None:
    kit.define(key_concurrency=3)
    rounds = counts(ci=15, soak=300)

    def enqueue_in_transaction() -> None:
        with psycopg.connect(kit.store.url) as connection:
            kit.store.run_on(connection, jobs.create([kit.draft(concurrency_key="k")]), now=kit.now)

    with another(kit) as other, Arena(6) as arena:
        for _ in range(rounds):
            endings = [kit.ending(each) for each in kit.claim(limit=100)]
            settled = partial(kit.settle_all, endings)
            answers = arena.together(
                partial(create, kit), partial(create, other), enqueue_in_transaction, settled,
                partial(kit.run, jobs.promote()), partial(other.run, jobs.promote()),
            )  # fmt: skip
            assert [each for each in answers if isinstance(each, BaseException)] == []
            assert admitted(kit) <= 3
            kit.run(jobs.promote())

    assert admitted(kit) == 3
    assert kit.run(jobs.next_due()) is None


def test_a_blocked_job_that_an_operators_transaction_holds_is_admitted_as_soon_as_that_ends(kit: Kit) -> None:
    first = keyed(kit)
    second = kit.create(concurrency_key="k")

    with psycopg.connect(kit.store.url) as operator:
        operator.execute(f"SELECT FROM {kit.store.schema}.job WHERE id = %s FOR UPDATE", (second,))
        kit.settle(first)
        assert kit.job(second).blocked
        kit.run(jobs.promote())
        assert kit.job(second).blocked
        assert kit.run(jobs.next_due()) == 0

    kit.run(jobs.promote())
    assert not kit.job(second).blocked


def test_a_slot_that_is_free_while_the_first_in_line_is_held_goes_to_the_next(kit: Kit) -> None:
    first = keyed(kit)
    second, third = kit.create(concurrency_key="k"), kit.create(concurrency_key="k")

    with psycopg.connect(kit.store.url) as operator:
        operator.execute(f"SELECT FROM {kit.store.schema}.job WHERE id = %s FOR UPDATE", (second,))
        kit.settle(first)

        assert not kit.job(third).blocked
    assert kit.job(second).blocked


def test_a_rate_bucket_that_another_transaction_holds_delays_its_key_no_longer_than_that(kit: Kit) -> None:
    kit.define(concurrency=1, rate_limit=RateLimit(1, 10, per_key=True))
    queue = Queue(kit)
    made = [kit.create(concurrency_key="a") for _ in range(2)]
    queue.run(2)
    kit.advance(10)
    kit.run(jobs.promote())
    other = kit.create(concurrency_key="b")

    with psycopg.connect(kit.store.url) as stranger:
        held = stranger.execute(f"SELECT name FROM {kit.store.schema}.bucket FOR UPDATE").fetchall()
        assert len(held) == 1
        queue.claim_and_settle()
        assert queue.claim() == []

    queue.claim_and_settle()
    assert [job_id for _, job_id in queue.started] == [made[0], other, made[1]]
