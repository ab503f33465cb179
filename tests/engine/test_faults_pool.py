"""Who may start beside whom: a job with losses behind it must not take the others with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engine.pool import Pool


def pool(*losses: int, slots: int = 3, clock: Callable[[], float] = time.monotonic) -> Pool:
    """A pool in which jobs wait that were lost so many times."""
    made = Pool(slots, ahead=10, clock=clock)
    made.waiting.extend(holding(number, lost) for number, lost in enumerate(losses))
    return made


class Waiting:
    """As much of a holding as a pool looks at."""

    def __init__(self, number: int, lost: int) -> None:
        self.held = number
        self.claimed = SimpleNamespace(lost=lost)


def holding(number: int, lost: int) -> Any:
    return Waiting(number, lost)


def start(some: Pool) -> list[Any]:
    return [taken.held for taken in _started(some)]


def _started(some: Pool) -> Iterator[Any]:
    for taken in some.take():
        some.running.add(taken)
        yield taken


def test_no_more_start_than_there_are_slots() -> None:
    some = pool(0, 0, 0, 0)

    assert start(some) == [0, 1, 2]
    assert (some.free, some.room) == (-1, 9)
    some.running.clear()
    assert start(some) == [3]


def test_of_jobs_with_a_loss_one_runs_at_a_time_beside_the_others() -> None:
    some = pool(1, 1, 0, 0)

    assert start(some) == [0, 2, 3]
    some.running.clear()
    assert start(some) == [1]


def test_a_job_with_two_losses_runs_alone_and_nobody_overtakes_it() -> None:
    some = pool(0, 2, 0)

    assert start(some) == [0]
    assert start(some) == [], "it waits until it is alone"
    some.running.clear()
    assert start(some) == [1]
    assert start(some) == [], "nobody runs beside it"
    some.running.clear()
    assert start(some) == [2]


def test_nobody_is_claimed_who_would_have_to_wait_for_a_job_with_two_losses() -> None:
    some = pool(0, 2)

    assert start(some) == [0]
    assert some.room == 0, "one waits to be alone"
    some.running.clear()
    assert (start(some), some.room, some.is_left_alone) == ([1], 0, True)
    some.running.clear()
    assert (some.room, some.is_left_alone) == (13, False)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_job_does_not_wait_for_ever_to_be_apart(lost: int) -> None:
    now = 0.0
    some = pool(1, lost, clock=lambda: now)
    assert start(some) == [0]

    now += 31

    assert start(some) == [1]
