"""Four processes that create, claim and settle on one store: nobody is turned away, each job runs once."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Counts, Figures
from tests.crash.processes import Journal, Place, create_claim_and_settle, started
from tests.storage.kit import Kit
from tests.storage.tables import check_soundness, query, statuses

pytestmark = pytest.mark.crash


def test_four_processes_share_a_store_and_each_job_is_claimed_once(
    shared_store: Any, tmp_path: Path, counts: Counts, figures: Figures
) -> None:
    lane = Kit(shared_store).define("work")
    share = counts(ci=500, soak=2000)
    journals = [Journal(tmp_path / f"journal-{n}") for n in range(4)]

    began = time.monotonic()
    with ExitStack() as stack:
        processes = [
            stack.enter_context(started(create_claim_and_settle, Place.of(shared_store), lane, journal.path, share))
            for journal in journals
        ]
        for process in processes:
            process.join(timeout=100)
            assert process.exitcode == 0
    seconds = time.monotonic() - began

    claimed = [job_id for journal in journals for ids in journal.read("claimed") for job_id in ids]
    there = [str(job_id) for (job_id,) in query(shared_store, "SELECT id FROM {s}job")]
    assert all(journal.read("done") for journal in journals)
    assert len(there) == 4 * share
    assert sorted(claimed) == sorted(there)
    assert query(shared_store, "SELECT DISTINCT fence, status FROM {s}job") == [(1, 5)]
    assert statuses(shared_store) == {5: 4 * share}
    check_soundness(shared_store)
    shares = [sum(map(len, journal.read("claimed"))) for journal in journals]
    figures("four_processes", store=shared_store.dialect, jobs=4 * share, seconds=round(seconds, 2), shares=shares)
