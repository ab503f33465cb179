"""retire: ended jobs become stale, and then go."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.domain.instant import HOUR, to_datetime
from penstock.domain.maintenance import RetentionBatch
from penstock.domain.plan import Statement
from penstock.domain.states import Status
from penstock.storage.commands import admin, control, feed
from tests.storage.conftest import open_store
from tests.storage.kit import START, Kit

DAYS = 86_400
NOTHING = RetentionBatch([], [])

pytestmark = pytest.mark.usefixtures("sound")


def test_active_jobs_and_young_ones_are_left_alone(kit: Kit) -> None:
    for status in Status:
        if status is not Status.STALE:
            kit.job_in(status, f"in-{status}")
    kit.advance(6 * DAYS)

    assert kit.run(admin.retire()) == NOTHING


def test_an_ended_job_is_announced_as_stale_and_deleted_as_long_after(kit: Kit) -> None:
    job_id = kit.job_in(Status.SUCCEEDED)
    kit.advance(7 * DAYS)

    assert kit.run(admin.retire()) == RetentionBatch([job_id], [])
    assert kit.events(job_id)[-1] == "job.stale"
    assert kit.run(admin.retire()) == NOTHING
    kit.advance(7 * DAYS - 1)
    assert kit.run(admin.retire()) == NOTHING

    kit.advance(1)
    assert kit.run(admin.retire()) == RetentionBatch([], [job_id])
    assert kit.run(admin.get([job_id])) == []
    assert kit.events(job_id)[-1] == "job.deleted"
    assert kit.run(admin.retire()) == NOTHING


@pytest.mark.parametrize("status", [Status.SUCCEEDED, Status.FAILED, Status.CANCELLED])
def test_every_way_to_end_is_retired(kit: Kit, status: Status) -> None:
    job_id = kit.job_in(status)
    kit.advance(7 * DAYS)

    assert kit.run(admin.retire()).stale == [job_id]
    job = kit.job(job_id)
    assert (job.status, job.outcome) == (Status.STALE, status)


def test_each_definition_has_its_own_times(kit: Kit) -> None:
    kit.define("short", stale_after=HOUR, delete_after=2 * HOUR)
    kit.define("never", stale_after=HOUR, delete_after=100 * 365 * 24 * HOUR)
    short, never = kit.job_in(Status.SUCCEEDED, "short"), kit.job_in(Status.SUCCEEDED, "never")

    kit.advance(3600)
    assert kit.run(admin.retire()).stale == [short, never]
    kit.advance(2 * 3600)
    assert kit.run(admin.retire()) == RetentionBatch([], [short])
    kit.advance(1000 * DAYS)
    assert kit.run(admin.retire()) == NOTHING
    assert kit.status(never) is Status.STALE


def test_definitions_that_say_nothing_have_the_stored_times(kit: Kit) -> None:
    kit.define("own", stale_after=2 * HOUR, delete_after=3 * HOUR)
    kit.define("plain")
    assert kit.run(admin.apply_defaults()) == 0
    early = kit.job_in(Status.SUCCEEDED, "plain")
    kit.run(admin.put_setting("worker", '{"retention": {"staleAfter": 60.5, "deleteAfter": 30}}', by="ann"))

    assert kit.run(admin.apply_defaults()) == 1
    assert kit.run(admin.apply_defaults()) == 0
    own, plain = kit.job_in(Status.SUCCEEDED, "own"), kit.job_in(Status.SUCCEEDED, "plain")

    kit.advance(60)
    assert kit.run(admin.retire()) == NOTHING
    kit.advance(0.5)
    assert kit.run(admin.retire()) == RetentionBatch([plain], [])
    kit.advance(30)
    assert kit.run(admin.retire()) == RetentionBatch([], [plain])
    kit.advance(2 * 3600)
    assert kit.run(admin.retire()) == RetentionBatch([own], [])
    kit.define("plain")
    assert kit.run(admin.apply_defaults()) == 0
    kit.run(admin.put_setting("worker", "{}", by="ann"))
    assert kit.run(admin.apply_defaults()) == 1
    assert kit.status(early) is Status.SUCCEEDED


def test_a_definition_that_is_made_known_has_the_stored_times_at_once(kit: Kit) -> None:
    kit.run(admin.put_setting("worker", '{"retention": {"staleAfter": 60, "deleteAfter": 30}}', by="ann"))
    kit.define("new")
    kit.define("own", stale_after=2 * HOUR)
    new, own = kit.job_in(Status.SUCCEEDED, "new"), kit.job_in(Status.SUCCEEDED, "own")
    kit.define("new", description="Changed by a deployment.")
    changed = kit.job_in(Status.SUCCEEDED, "new")

    assert kit.run(admin.apply_defaults()) == 0
    kit.advance(60)
    assert kit.run(admin.retire()) == RetentionBatch([new, changed], [])
    kit.advance(30)

    assert kit.run(admin.retire()) == RetentionBatch([], [new, changed])
    assert kit.status(own) is Status.SUCCEEDED


@pytest.mark.parametrize("text", ["[", "[]", '{"retention": {"staleAfter": -1}}'])
def test_a_configuration_that_cannot_be_read_changes_no_times(kit: Kit, text: str) -> None:
    kit.define("plain")
    kit.run(admin.put_setting("worker", text, by="ann"))

    assert kit.run(admin.apply_defaults()) == 0


def test_after_a_long_rest_each_job_is_still_announced_before_it_goes(kit: Kit) -> None:
    job_id = kit.job_in(Status.SUCCEEDED)
    kit.advance(100 * DAYS)

    assert kit.run(admin.retire()) == RetentionBatch([job_id], [])
    assert kit.run(admin.retire()) == RetentionBatch([], [job_id])
    assert [event.type for event in kit.run(feed.of_job(job_id))][-2:] == ["job.stale", "job.deleted"]


def test_a_batch_is_no_larger_than_asked_for_and_the_longest_overdue_go_first(kit: Kit) -> None:
    ended = []
    for _ in range(5):
        ended.append(kit.job_in(Status.SUCCEEDED))
        kit.advance(1)
    kit.advance(30 * DAYS)

    batches = []
    while (sweep := kit.run(admin.retire(limit=2))) != NOTHING:
        assert len(sweep.stale) + len(sweep.deleted) <= 2
        batches.append(sweep)

    assert [job_id for sweep in batches for job_id in sweep.stale] == ended
    assert sorted(job_id for sweep in batches for job_id in sweep.deleted) == ended


def test_a_stale_job_that_is_retried_begins_its_times_anew(kit: Kit) -> None:
    job_id = kit.job_in(Status.FAILED)
    kit.advance(7 * DAYS)
    kit.run(admin.retire())
    kit.run(control.retry([job_id]))
    kit.advance(7 * DAYS)
    assert kit.run(admin.retire()) == NOTHING

    (claimed,) = kit.claim()
    kit.settle(claimed)

    assert kit.job(job_id).stale_at == to_datetime(kit.now + 7 * DAYS * 1_000_000)
    kit.advance(7 * DAYS)
    assert kit.run(admin.retire()) == RetentionBatch([job_id], [])


def test_counts_follow_what_is_deleted(kit: Kit) -> None:
    kit.job_in(Status.SUCCEEDED)
    kit.advance(14 * DAYS)
    kit.run(admin.retire())
    assert kit.run(admin.counts()) == {("work", 1): {Status.SUCCEEDED: 1}}

    kit.run(admin.retire())

    assert kit.run(admin.counts()) == {}


def test_many_sweepers_at_once_handle_each_job_once(store: Any) -> None:
    kit = Kit(store)
    kit.define()
    ended = [kit.job_in(Status.SUCCEEDED) for _ in range(12)]
    kit.now = START + 30 * DAYS * 1_000_000
    together = threading.Barrier(3)

    def sweep(_: int) -> list[RetentionBatch]:
        together.wait()
        found = []
        for _ in range(20):
            found.append(kit.run(admin.retire(limit=3)))
        return found

    with ThreadPoolExecutor(3) as pool:
        sweeps = [each for found in pool.map(sweep, range(3)) for each in found]

    assert sorted(job_id for each in sweeps for job_id in each.stale) == ended
    assert sorted(job_id for each in sweeps for job_id in each.deleted) == ended
    assert [kit.events(job_id).count("job.stale") for job_id in ended] == [1] * 12


@pytest.mark.parametrize("kind", ["postgres-16", "postgres-18"])
def test_the_store_s_own_clock_does_not_make_retention_read_every_ended_job(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A clock that is asked for with each row cannot be searched for in an index."""
    searched = {
        "hold_retired": "retire_at", "hold_stale": "retire_at", "take_for_archive": "retire_at",
        "drop_expired_keys": "expires_at", "drop_old_ticks": "at", "drop_old_hooks": "at",
        "drop_expired_sessions": "expires_at", "drop_old_deliveries": "created_at",
    }  # fmt: skip
    for store in open_store(kind, request, tmp_path):
        prepare = store._statement(None)
        with store.connect() as connection:
            for name, column in searched.items():
                text, values = prepare(Statement(name, {"limit": 10, "age": 1, "hold": 1}))
                plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {text}", values))
                assert re.search(rf"Index Cond: \(\(?{column} <", plan), f"{name}\n{plan}"
