"""A claim on SQLite asks only definitions that have a job ready, however many a worker serves."""

from __future__ import annotations

from pathlib import Path

from penstock.core.definition import Definition
from penstock.stores.sqlite import SqliteStore
from penstock.stores.verbs import admin, jobs
from tests.stores.kit import Kit


def test_a_claim_does_no_more_for_three_thousand_idle_definitions_than_for_thirty(tmp_path: Path) -> None:
    steps = [steps_of_a_claim(tmp_path / f"{count}.db", count) for count in (30, 3_000)]

    assert steps[1] < 2 * steps[0]


def steps_of_a_claim(path: Path, definitions: int) -> int:
    """How many steps SQLite's machine takes to claim ten jobs of two definitions."""
    store = SqliteStore(str(path))
    kit = Kit(store)
    given = [Definition(key=f"work{n}") for n in range(definitions)]
    lanes = kit.run(admin.register(given))
    kit._lanes = {each.key: lanes[each.key, 1] for each in given}
    worker = kit.worker()
    created = [kit.create(f"work{n % 2 * (definitions - 1)}") for n in range(20)]
    taken = [0]

    def count() -> bool:
        taken[0] += 1
        return False

    store._writer().set_progress_handler(count, 50)
    claimed = kit.run(jobs.claim(worker, sorted(kit._lanes.values()), 10))
    store._writer().set_progress_handler(None)
    store.close()
    assert [each.job_id for each in claimed] == created[:10]
    return taken[0]
