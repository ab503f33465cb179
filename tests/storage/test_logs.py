"""save_logs: lines that attempts wrote."""

from __future__ import annotations

import pytest

from penstock.domain.attempt import LogLine
from penstock.domain.errors import LeaseLost
from penstock.domain.instant import to_datetime
from penstock.domain.states import Trigger
from penstock.storage.commands import admin, jobs
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


def test_lines_are_kept_as_they_were_written_in_their_order(kit: Kit) -> None:
    claimed = kit.running()
    held = kit.held(claimed, 1)
    lines = [
        LogLine("info", "begun"),
        LogLine("debug", 'odd "text" \\ {} NULL ü\n', at=kit.now - 5, phase="load", details='{"a": 1}', duration=7),
        LogLine("warning", ""),
        LogLine("error", "x" * 100_000),
    ]

    kit.run(jobs.save_logs(held, lines[:1]))
    kit.run(jobs.save_logs(held, lines[1:]))

    stored = kit.run(admin.logs(claimed.job_id))
    assert [(each.level, each.message) for each in stored] == [(line.level, line.message) for line in lines]
    assert (stored[1].at, stored[1].phase) == (to_datetime(kit.now - 5), "load")
    assert (stored[1].details_text, stored[1].duration) == ('{"a": 1}', 7)
    assert stored[0].at == to_datetime(kit.now)
    assert [each.seq for each in stored] == sorted({each.seq for each in stored})


def test_lines_say_which_attempt_wrote_them(kit: Kit) -> None:
    claimed = kit.running()
    kit.run(jobs.save_logs(kit.held(claimed, 1), [LogLine("info", "one")]))
    kit.settle(claimed, Trigger.RELEASE)
    kit.claim()
    kit.run(jobs.save_logs(kit.held(claimed, 2), [LogLine("info", "two")]))

    assert [(each.fence, each.message) for each in kit.run(admin.logs(claimed.job_id))] == [(1, "one"), (2, "two")]


def test_an_attempt_that_lost_its_job_writes_no_lines(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)
    kit.claim()

    with pytest.raises(LeaseLost):
        kit.run(jobs.save_logs(kit.held(claimed, 1), [LogLine("info", "late")]))

    assert kit.run(admin.logs(claimed.job_id)) == []


def test_no_lines_are_no_work_but_the_fence_is_looked_at(kit: Kit) -> None:
    claimed = kit.running()

    kit.run(jobs.save_logs(kit.held(claimed, 1), []))

    with pytest.raises(LeaseLost):
        kit.run(jobs.save_logs(kit.held(claimed, 2), []))
