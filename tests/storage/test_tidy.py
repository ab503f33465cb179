"""tidy: what nothing needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.domain.definition import RateLimit
from penstock.domain.errors import IdempotencyConflict
from penstock.domain.instant import DAY
from penstock.domain.states import Status
from penstock.storage.commands import admin, jobs
from tests.storage.conftest import open_store
from tests.storage.kit import Kit
from tests.storage.tables import change, query

pytestmark = pytest.mark.usefixtures("sound")


@pytest.fixture(params=("postgres-16", "postgres-18"))
def postgres_kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    for store in open_store(request.param, request, tmp_path):
        yield Kit(store)


def left(kit: Kit, table: str) -> int:
    ((n,),) = query(kit.store, f"SELECT count(*) FROM {{s}}{table}")
    return int(n)


def test_a_store_in_use_has_nothing_to_tidy(kit: Kit) -> None:
    kit.define("work", key_concurrency=1, rate_limit=RateLimit(1, 60.0))
    kit.create(idempotency_key="a", concurrency_key="k")
    kit.claim(limited=[1])

    assert kit.run(admin.tidy(DAY)) == 0


def test_idempotency_keys_go_when_they_have_ended(kit: Kit) -> None:
    kit.job_in(Status.SUCCEEDED, idempotency_key="ended", idempotency_life=10_000_000)
    kit.job_in(Status.SUCCEEDED, idempotency_key="longer", idempotency_life=11_000_000)
    kit.advance(10)

    assert kit.run(admin.tidy(DAY)) == 1

    assert query(kit.store, "SELECT key FROM {s}idempotency") == [("longer",)]


def test_an_ended_key_of_one_scope_leaves_the_same_key_of_another(kit: Kit) -> None:
    kit.job_in(Status.SUCCEEDED, idempotency_key="key", idempotency_life=10_000_000)
    kit.job_in(Status.SUCCEEDED, idempotency_key="key", idempotency_life=11_000_000, key_scope="others")
    kit.advance(10)

    assert kit.run(admin.tidy(DAY)) == 1

    assert query(kit.store, "SELECT scope FROM {s}idempotency") == [("others",)]


def test_the_idempotency_key_of_an_active_job_stays_after_its_time(kit: Kit) -> None:
    job_id = kit.create(idempotency_key="key", idempotency_life=1)
    kit.advance(3600)

    assert kit.run(admin.tidy(DAY)) == 0

    again = kit.run(jobs.create([kit.draft(idempotency_key="key")]))
    assert again[0].job_id == job_id
    with pytest.raises(IdempotencyConflict):
        kit.run(jobs.create([kit.draft(idempotency_key="key", params_digest="other")]))


def test_the_idempotency_key_of_a_job_that_is_gone_stays_until_its_time(kit: Kit) -> None:
    kit.define("work", stale_after=1, delete_after=1)
    kit.job_in(Status.SUCCEEDED, idempotency_key="key", idempotency_life=DAY)
    kit.advance(60)
    kit.run(admin.retire())
    kit.run(admin.retire())

    assert kit.run(admin.tidy(DAY)) == 0
    kit.advance(86_400)
    assert kit.run(admin.tidy(0)) >= 1
    assert left(kit, "idempotency") == 0


def test_rate_buckets_go_when_they_are_full_again(kit: Kit) -> None:
    lane = kit.define("work", rate_limit=RateLimit(1, 60.0))
    kit.create()
    kit.claim(limited=[lane])
    assert left(kit, "bucket") == 1
    kit.advance(59)
    assert kit.run(admin.tidy(DAY)) == 0

    kit.advance(1)

    assert kit.run(admin.tidy(DAY)) == 1
    assert left(kit, "bucket") == 0


def test_workers_that_ended_long_ago_go_unless_jobs_still_name_them(kit: Kit) -> None:
    kit.define()
    gone, live, holding = kit.worker(), kit.worker(lease=10 * DAY), kit.worker()
    kit.create()
    kit.claim(holding)
    kit.run(jobs.end_worker(gone))
    change(kit.store, f"UPDATE {{s}}worker SET ended = 'lost' WHERE id = '{holding}'")
    kit.advance(86_400)
    assert kit.run(admin.tidy(DAY)) == 0

    kit.advance(1)

    assert kit.run(admin.tidy(DAY)) == 1
    assert [row.id for row in kit.run(admin.workers())] == sorted([live, holding])


def test_old_ticks_go_but_never_the_newest_of_a_schedule(kit: Kit) -> None:
    for schedule, instants in (("quiet", (1, 2)), ("busy", (1, 2, 3))):
        for instant in instants:
            at = kit.now - DAY - 1 if instant < 3 else kit.now
            change(
                kit.store,
                "INSERT INTO {s}tick (schedule, instant, verdict, at) "
                f"VALUES ('{schedule}', {instant}, 'created', {at})",
            )

    assert kit.run(admin.tidy(DAY)) == 3

    assert sorted(query(kit.store, "SELECT schedule, instant FROM {s}tick")) == [("busy", 3), ("quiet", 2)]


def test_counts_by_minute_go_when_they_are_old(kit: Kit) -> None:
    kit.create()
    kit.run(admin.fold())
    kit.advance(86_400 + 60)
    kit.create()
    kit.run(admin.fold())

    assert kit.run(admin.tidy(DAY)) == 2, "of its definition, and of all of them"

    assert left(kit, "tally_span WHERE grain = 1") == 2
    assert left(kit, "tally_span WHERE grain = 60") == 4


def test_counts_by_hour_stay_thirteen_times_as_long_and_those_of_ever_for_ever(kit: Kit) -> None:
    kit.running()
    kit.run(admin.fold())
    kit.advance(13 * 86_400 + 3600)
    kit.define("other")

    assert kit.run(admin.tidy(DAY)) > 0

    assert left(kit, "tally_span WHERE grain > 0") == left(kit, "tally_length WHERE grain > 0") == 0
    assert left(kit, "tally_length") == 1


def test_no_more_than_the_limit_of_each_kind_goes_at_once(kit: Kit) -> None:
    kit.define("work", key_concurrency=1)
    for n in range(5):
        kit.job_in(Status.CANCELLED, idempotency_key=f"key {n}", idempotency_life=1)
    kit.advance(1)

    assert [kit.run(admin.tidy(DAY, limit=2)) for _ in range(4)] == [2, 2, 1, 0]
