"""emit: events of the handler's own."""

from __future__ import annotations

import pytest

from penstock.domain.errors import LeaseLost
from penstock.domain.instant import to_datetime
from penstock.domain.states import Trigger
from penstock.storage.commands import feed, jobs
from tests.storage.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")


def test_an_event_of_the_handler_is_kept(kit: Kit) -> None:
    claimed = kit.running()
    kit.advance(1)

    kit.run(jobs.emit(kit.held(claimed, 1), "invoice.sent", '{"to": "anna"}'))
    kit.run(jobs.emit(kit.held(claimed, 1), "invoice.sent", None))

    first, second = kit.run(feed.of_job(claimed.job_id))[-2:]
    assert (first.type, first.data_text, first.fence) == ("invoice.sent", '{"to": "anna"}', 1)
    assert (first.at, first.job_id, first.subject) == (to_datetime(kit.now), claimed.job_id, None)
    assert (second.type, second.data_text) == ("invoice.sent", None)
    assert first.seq < second.seq


def test_several_events_are_kept_in_their_order(kit: Kit) -> None:
    claimed = kit.running()

    kit.run(jobs.emit_many(kit.held(claimed, 1), [(f"step.{number}", f"[{number}]") for number in range(5)]))

    kept = kit.run(feed.of_job(claimed.job_id))[-5:]
    assert [(each.type, each.data_text, each.fence) for each in kept] == [(f"step.{n}", f"[{n}]", 1) for n in range(5)]


def test_an_attempt_that_lost_its_job_emits_nothing(kit: Kit) -> None:
    claimed = kit.running()
    kit.settle(claimed, Trigger.RELEASE)
    kit.claim()

    with pytest.raises(LeaseLost):
        kit.run(jobs.emit(kit.held(claimed, 1), "late", None))

    assert "late" not in kit.events(claimed.job_id)
