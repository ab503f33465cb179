"""counts and fold: how many jobs stand where."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.domain.definition import Definition
from penstock.domain.states import BY_CODE, Status, Trigger
from penstock.storage.commands import admin, control, jobs, stats
from tests.storage.kit import START, Kit
from tests.storage.tables import query


def recount(kit: Kit) -> dict[tuple[str, int], dict[Status, int]]:
    """The same answer from the jobs themselves."""
    answer: dict[tuple[str, int], dict[Status, int]] = {}
    text = "SELECT key, version, status, count(*) FROM {s}job JOIN {s}definition USING (lane) GROUP BY 1, 2, 3"
    for key, version, status, n in query(kit.store, text):
        answer.setdefault((key, version), {})[BY_CODE[status]] = n
    return answer


def history(kit: Kit, definition: str = "work") -> None:
    """One job in every status, and one that is gone."""
    stale = kit.job_in(Status.STALE, definition)
    for status in Status:
        if status is not Status.STALE:
            kit.job_in(status, f"{definition}-{status}")
    failed = kit.job_in(Status.FAILED, definition)
    kit.run(control.retry([failed]))
    kit.run(control.delete([stale]))


def test_an_empty_store_counts_nothing(kit: Kit) -> None:
    kit.define()

    assert kit.run(admin.counts()) == {}
    assert kit.run(admin.fold()) == 0


def test_counts_are_by_definition_version_and_stored_status(kit: Kit) -> None:
    kit.run(admin.register([Definition("work", 1)]))
    kit.job_in(Status.STALE)
    kit.define("work", version=2)
    kit.create()
    kit.create()

    assert kit.run(admin.counts()) == {("work", 1): {Status.SUCCEEDED: 1}, ("work", 2): {Status.QUEUED: 2}}


@pytest.mark.usefixtures("sound")
def test_counts_are_those_of_the_jobs_before_and_after_folding(kit: Kit) -> None:
    history(kit, "first")
    assert kit.run(admin.counts()) == recount(kit)

    assert kit.run(admin.fold()) > 0
    assert kit.run(admin.counts()) == recount(kit)
    assert kit.run(admin.fold()) == 0

    history(kit, "second")
    assert kit.run(admin.counts()) == recount(kit)
    kit.run(admin.fold())
    assert kit.run(admin.counts()) == recount(kit)


def test_folding_leaves_no_deltas(kit: Kit) -> None:
    history(kit)
    ((deltas,),) = query(kit.store, "SELECT count(*) FROM {s}tally_delta")

    assert kit.run(admin.fold()) == deltas
    assert query(kit.store, "SELECT count(*) FROM {s}tally_delta") == [(0,)]


def test_folding_goes_in_batches(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "BATCH", 2)
    for _ in range(5):
        kit.create()

    assert [kit.run(admin.fold()) for _ in range(4)] == [2, 2, 1, 0]
    assert kit.run(admin.counts()) == {("work", 1): {Status.QUEUED: 5}}


def test_arrivals_are_counted_by_the_minute(kit: Kit) -> None:
    kit.create()
    kit.create()
    kit.advance(60)
    claimed, _ = kit.claim(limit=2)
    kit.run(admin.fold())
    kit.settle(claimed, Trigger.FAIL, retryable=False)
    kit.run(admin.fold())

    minute = START // 60_000_000
    assert sorted(query(kit.store, "SELECT span, status, n FROM {s}tally_span WHERE grain = 1 AND lane > 0")) == [
        (minute, Status.QUEUED.code, 2),
        (minute + 1, Status.RUNNING.code, 2),
        (minute + 1, Status.FAILED.code, 1),
    ]


@pytest.mark.usefixtures("sound")
def test_folds_at_once_and_while_others_write_lose_and_double_nothing(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "BATCH", 7)
    kit = Kit(store)
    kit.define("a")
    kit.define("b")
    kit.run(jobs.create([kit.draft(key) for key in "ab" for _ in range(3)]))
    ready = threading.Barrier(4)
    writing = threading.Event()

    def write() -> None:
        ready.wait()
        for n in range(40):
            kit.run(jobs.create([kit.draft("ab"[n % 2])]))
        writing.set()

    def fold() -> int:
        ready.wait()
        folded = 0
        while not writing.is_set() or kit.run(admin.fold()):
            folded += kit.run(admin.fold())
            counted = kit.run(admin.counts())
            assert sum(sum(each.values()) for each in counted.values()) >= 6
        return folded

    with ThreadPoolExecutor(4) as pool:
        folding = [pool.submit(fold) for _ in range(3)]
        pool.submit(write).result()
        assert sum(each.result() for each in folding) > 0

    assert (
        kit.run(admin.counts())
        == recount(kit)
        == {
            ("a", 1): {Status.QUEUED: 23},
            ("b", 1): {Status.QUEUED: 23},
        }
    )
