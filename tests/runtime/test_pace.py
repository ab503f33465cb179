"""A fleet that has nothing to do asks the store little more often than one worker would."""

from __future__ import annotations

from penstock.domain.worker import HeartbeatAnswer
from penstock.runtime.pace import Pace


def _pace(workers: int, *, leads: bool = False) -> Pace:
    pace = Pace()
    pace.workers, pace.leads = workers, leads
    return pace


def test_who_is_alone_rests_as_long_as_was_said() -> None:
    assert _pace(1, leads=True).rest(1.0) == 1.0
    assert _pace(1).rest(1.0) == 1.0
    assert _pace(1).rest_between_claims(1.0, notified=True) == 1.0


def test_who_leads_does_timed_work_as_if_it_were_alone() -> None:
    assert _pace(10, leads=True).rest(1.0) == 1.0
    assert _pace(10, leads=True).rest_between_claims(1.0, notified=True) >= 9.0


def test_the_others_rest_longer_and_not_in_step() -> None:
    rests = [_pace(10).rest(1.0) for _ in range(200)]

    assert all(36.0 <= each <= 44.0 for each in rests)
    assert len(set(rests)) > 100


def test_no_rest_is_stretched_without_end_and_none_is_cut() -> None:
    assert 54.0 <= _pace(1000).rest(1.0) <= 66.0
    assert 108.0 <= _pace(1000).rest(120.0) <= 132.0
    assert 9.0 <= _pace(1000).rest_between_claims(1.0, notified=True) <= 11.0


def test_who_cannot_hear_the_doorbell_looks_as_often_as_was_said() -> None:
    assert _pace(1000).rest_between_claims(1.0, notified=False) == 1.0


def test_a_worker_learns_when_it_has_taken_over() -> None:
    pace = Pace()

    answers = [HeartbeatAnswer([], 0, 1, workers, leads=leads) for workers, leads in ((3, False), (2, True), (2, True))]
    took_over = [pace.update(answer) for answer in answers]

    assert took_over == [False, True, False]
    assert pace.workers == 2


def test_a_worker_that_does_not_lead_looks_a_little_later() -> None:
    assert _pace(4, leads=True).delay_after_due() == 0
    assert _pace(1, leads=True).delay_after_due() == 0
    assert 0.1 <= _pace(4).delay_after_due() <= 0.3
