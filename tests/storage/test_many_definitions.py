"""What a claim on SQLite costs where a worker serves many definitions, idle ones and ones with jobs ready."""

from __future__ import annotations

from pathlib import Path

from penstock.domain.definition import Definition
from penstock.storage.commands import admin, jobs
from penstock.storage.sqlite.store import SqliteStore
from tests.storage.kit import Kit

STEPS_OF_A_LOOK = 50
"""About as many steps it takes to find a lane, its definition or its first job."""


def test_a_claim_does_no_more_for_three_thousand_idle_definitions_than_for_thirty(tmp_path: Path) -> None:
    steps = [steps_of_a_claim(tmp_path / f"{count}.db", count) for count in (30, 3_000)]

    assert steps[1] < 2 * steps[0]


def test_a_claim_reads_little_of_each_of_three_thousand_definitions_with_jobs_ready(tmp_path: Path) -> None:
    counts = (30, 3_000)

    steps = [steps_of_a_claim(tmp_path / f"{count}.db", count, ready=count) for count in counts]

    assert (steps[1] - steps[0]) / (counts[1] - counts[0]) < 4 * STEPS_OF_A_LOOK


def test_jobs_of_one_rank_are_claimed_without_reading_them_again_for_each(tmp_path: Path) -> None:
    steps = [steps_of_a_claim(tmp_path / f"{each}.db", 2, jobs_each=each, limit=each) for each in (50, 1_000)]

    assert steps[1] / 1_000 < 2 * steps[0] / 50


def steps_of_a_claim(path: Path, definitions: int, *, ready: int = 2, jobs_each: int = 10, limit: int = 10) -> int:
    """How many steps SQLite's machine takes for a claim over definitions of which so many have jobs ready."""
    store = SqliteStore(str(path))
    kit = Kit(store)
    given = [Definition(key=f"work{n}") for n in range(definitions)]
    lanes = kit.run(admin.register(given))
    kit._lanes = {each.key: lanes[each.key, 1] for each in given}
    worker = kit.worker()
    busy = [given[n * (definitions - 1) // (ready - 1)].key for n in range(ready)]
    created = kit.run(jobs.create([kit.draft(key) for _ in range(jobs_each) for key in busy]))
    taken = [0]

    def count() -> bool:
        taken[0] += 1
        return False

    store._writer().set_progress_handler(count, 1)
    claimed = kit.run(jobs.claim(worker, sorted(kit._lanes.values()), limit))
    store._writer().set_progress_handler(None)
    store.close()
    assert [each.job_id for each in claimed] == [each.job_id for each in created[:limit]]
    return taken[0]
