"""A fleet that has nothing to do asks the store about as often as one worker would."""

from __future__ import annotations

import pytest

from penstock.engine.pace import Pace


@pytest.mark.parametrize("workers", [0, 1])
def test_who_is_alone_rests_as_long_as_was_said(workers: int) -> None:
    pace = Pace()
    pace.workers = workers

    assert pace.rest(1.0) == 1.0


def test_many_rest_longer_and_not_in_step() -> None:
    pace = Pace()
    pace.workers = 10

    rests = [pace.rest(1.0) for _ in range(200)]

    assert all(9.0 <= each <= 11.0 for each in rests)
    assert len(set(rests)) > 100


def test_no_rest_is_stretched_beyond_half_a_minute_or_so_but_one_that_was_meant_to_be() -> None:
    pace = Pace()
    pace.workers = 1000

    assert 27.0 <= pace.rest(1.0) <= 33.0
    assert 54.0 <= pace.rest(60.0) <= 66.0
