"""What SQLite does in one step: exactly what its statements say, whoever stands between the jobs that they mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from penstock.domain.errors import StoreError
from penstock.domain.job import Claimed
from penstock.domain.states import Status
from penstock.storage import statements
from penstock.storage.commands import jobs
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness

EVERY = statements.Catalogue("sqlite", {})


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    store = SqliteStore(str(tmp_path / "penstock.db"))
    store.open()
    yield Kit(store)
    check_soundness(store)
    store.close()


def test_what_is_done_at_once_is_known_by_its_names() -> None:
    found = {name for name in statements.read("sqlite") if EVERY[name, (), ""].at_once}

    assert found == {"claim", "claim_job", "claim_lane", "settle_done"}
    for name in found:
        entry = EVERY[name, (), ""]
        assert entry.given == ("lowest", "highest", "in_a_row", "alike")
        assert all(f" AS {each}" in entry.before[-1] for each in entry.given)
        assert "-- " not in "".join((*entry.before, *entry.at_once, *entry.steps))


@pytest.mark.parametrize("lanes", ["one", "all"])
@pytest.mark.parametrize("between", ["nobody", "one that waits", "many that have ended", "one that is held back"])
def test_a_claim_takes_nobody_who_stands_between_those_it_means(kit: Kit, lanes: str, between: str) -> None:
    mine, other = kit.define("mine"), kit.define("other", key_concurrency=1)
    first = [kit.create("mine") for _ in range(3)]
    others = []
    if between == "one that waits":
        others = [kit.create("mine" if lanes == "all" else "other", priority=0)]
    elif between == "many that have ended":
        past = kit.define("past")
        others = [kit.create("past") for _ in range(30)]
        for each in kit.claim(lanes=[past], limit=30):
            kit.settle(each)
    elif between == "one that is held back":
        others = [kit.create("other", concurrency_key="k", priority=0) for _ in range(2)]
    last = [kit.create("mine") for _ in range(3)]
    before = [kit.job(job_id) for job_id in others]

    claimed = kit.claim(lanes=[mine] if lanes == "one" else [mine, other], limit=6)

    assert [each.job_id for each in claimed] == first + last
    assert {kit.job(each).status for each in first + last} == {Status.RUNNING}
    assert [kit.job(job_id) for job_id in others] == before


@pytest.mark.parametrize("ended", [(0, 1, 2, 3, 4, 5), (1, 2, 3), (0, 5), (0, 2, 4), (3,)])
@pytest.mark.parametrize("held_by", ["one", "two"])
def test_an_ending_ends_nobody_who_stands_between_those_it_means(
    kit: Kit, ended: tuple[int, ...], held_by: str
) -> None:
    workers = [kit.worker(), kit.worker()]
    for _ in range(6):
        kit.create()
    held = [kit.claim(workers[n % 2 if held_by == "two" else 0], limit=1)[0] for n in range(6)]
    mine = [held[n] for n in ended if kit.held(held[n]).worker == workers[0]]
    before = {each.job_id: kit.job(each.job_id) for each in held}

    report = kit.run(jobs.settle(workers[0], [kit.ending(held[n]) for n in ended]))

    assert sorted(report.applied) == sorted(each.job_id for each in mine)
    assert {kit.job(each.job_id).status for each in mine} <= {Status.SUCCEEDED}
    for each in held:
        assert each in mine or kit.job(each.job_id) == before[each.job_id]


def test_an_ending_leaves_those_alone_that_are_tried_again_between_others(kit: Kit) -> None:
    held = _claimed_with_a_second_try(kit)
    first_try = [each for each in held if each.fence == 1]

    kit.settle_all([kit.ending(each) for each in first_try])

    statuses = {each.job_id: kit.job(each.job_id).status for each in held}
    assert statuses == {each.job_id: Status.SUCCEEDED if each.fence == 1 else Status.RUNNING for each in held}


def test_what_was_learnt_in_a_transaction_that_was_undone_is_learnt_again(kit: Kit) -> None:
    job_id = kit.create()
    store = kit.store
    assert isinstance(store, SqliteStore)
    writer = store._writer()
    worker = kit.worker()
    plan = jobs.claim(worker, sorted(kit._lanes.values()), 1)

    writer.execute("BEGIN IMMEDIATE")
    (claimed,) = store._drive(writer, plan, store._values(kit.now))
    assert claimed.job_id == job_id
    writer.execute("ROLLBACK")
    assert not _has_learnt_to_claim(writer)

    assert [each.job_id for each in kit.claim(worker)] == [job_id]
    assert _has_learnt_to_claim(writer)


def test_what_goes_wrong_in_it_is_told(kit: Kit) -> None:
    kit.create()
    kit.claim()
    job_id = kit.create()
    store = kit.store
    assert isinstance(store, SqliteStore)
    store._writer().execute("ALTER TABLE temp.claimed RENAME TO elsewhere")

    with pytest.raises(StoreError, match="claimed") as told:
        kit.claim()
    assert isinstance(told.value.__cause__, apsw.SQLError)

    store._writer().execute("ALTER TABLE temp.elsewhere RENAME TO claimed")
    assert [each.job_id for each in kit.claim()] == [job_id]


def _claimed_with_a_second_try(kit: Kit) -> list[Claimed]:
    """Five jobs that run, the third of them for the second time."""
    worker = kit.worker()
    made = [kit.create() for _ in range(5)]
    held = kit.claim(worker, limit=5)
    kit.run(jobs.release_unheld(worker, [kit.held(each) for each in held if each.job_id != made[2]]))
    return [each for each in held if each.job_id != made[2]] + kit.claim(worker, limit=1)


def _has_learnt_to_claim(connection: apsw.Connection) -> bool:
    return ("do_claim_lane",) in connection.execute("SELECT name FROM temp.sqlite_schema").fetchall()
