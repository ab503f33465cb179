"""heartbeat with duties: how it goes with what a worker does again and again, for everyone to read."""

from __future__ import annotations

import pytest

from penstock.domain.worker import Duty
from penstock.storage.commands import admin, jobs
from tests.storage.kit import LEASE, Kit
from tests.storage.tables import change

REPORT = [Duty("claim", 0.5, 0), Duty("schedule", None, 3, "nichts: ä 'quoted'")]


def test_a_worker_that_has_said_nothing_has_no_duties(kit: Kit) -> None:
    kit.worker()

    assert _duties(kit) == ()


def test_a_report_is_read_as_it_was_given_and_grows_older(kit: Kit) -> None:
    worker = kit.worker()
    kit.run(jobs.heartbeat(worker, LEASE, duties=REPORT))

    assert _duties(kit) == tuple(REPORT)
    kit.advance(4)
    kit.run(jobs.heartbeat(worker, LEASE))
    claim, schedule = _duties(kit)
    assert claim.last_success_age == pytest.approx(4.5)
    assert schedule == REPORT[1]


def test_the_newest_report_counts(kit: Kit) -> None:
    worker = kit.worker()
    kit.run(jobs.heartbeat(worker, LEASE, duties=REPORT))
    kit.advance(4)

    kit.run(jobs.heartbeat(worker, LEASE, duties=[Duty("claim", 1.0, 7)]))

    assert _duties(kit) == (Duty("claim", 1.0, 7),)


@pytest.mark.parametrize("text", ["{", "3", '[["claim"]]', "[3]"])
def test_a_report_that_cannot_be_read_is_none(kit: Kit, text: str) -> None:
    kit.worker()
    change(kit.store, f"UPDATE {{s}}worker SET duties = '{text}'")

    assert _duties(kit) == ()


def _duties(kit: Kit) -> tuple[Duty, ...]:
    (row,) = kit.run(admin.workers())
    return row.duties
