"""Who may start beside whom: a job with losses behind it must not take the others with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.worker.pool import Pool


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


def leave_running(some: Pool, number: Any) -> None:
    some.running = {each for each in some.running if each.held == number}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ahead(slots: int = 1) -> tuple[Pool, Clock]:
    """A pool with a backlog that was claimed ahead, ranks 10 to 13 of lane 1; lane 2 has a limit."""
    clock = Clock()
    made = Pool(slots, ahead=4, clock=clock)
    made.limited = {2}
    for rank in range(10, 14):
        made.add(ranked(1, rank))
    return made, clock


def ranked(lane: int, rank: int) -> Any:
    made = Waiting(rank, 0)
    made.claimed = SimpleNamespace(lost=0, lane=lane, rank=rank)
    return made


@pytest.mark.parametrize("inline", [False, True])
def test_a_free_slot_is_kept_until_limited_definitions_were_asked(inline: bool) -> None:
    some, clock = ahead()

    def begin() -> list[Any]:
        if not inline:
            return start(some)
        taken = some.next()
        some.running.update([taken] if taken else [])
        return [taken.held] if taken else []

    assert (begin(), some.keeps_slot, some.room >= 1) == ([], True, True)

    limited = ranked(2, 5)
    some.note_limited([limited.claimed])
    some.add(limited)
    assert begin() == [5], "it starts before those that were claimed ahead"
    some.running.clear()
    assert (begin(), some.keeps_slot) == ([], True), "there may be more of them"
    some.note_limited([])
    assert begin() == [10]
    some.running.clear()
    assert begin() == [11]
    some.running.clear()
    clock.now += 1
    assert (begin(), some.keeps_slot) == ([], True), "after a while they are asked again"


def test_jobs_with_a_limit_overtake_those_that_were_claimed_ahead_only_once() -> None:
    some, clock = ahead()
    late = ranked(2, 12)
    some.note_limited([late.claimed])
    some.add(late)

    started = []
    for _ in range(3):
        started += start(some)
        some.running.clear()
        clock.now += 1

    assert started == [12, 10, 11]
    assert (start(some), some.keeps_slot) == ([], True), "those are started that it overtook"


def test_many_slots_keep_one_of_them() -> None:
    some, _ = ahead(slots=4)

    assert start(some) == [10, 11, 12]
    assert some.keeps_slot
    some.note_limited([])
    assert start(some) == [13]


def test_no_slot_is_kept_where_nothing_has_a_limit_or_nothing_may_be_claimed() -> None:
    some, _ = ahead()
    some.limited = set()
    assert start(some) == [10]

    other, _ = ahead()
    other.closed = True
    assert other.room == 0
    other.note_limited([])
    assert start(other) == [10]


def test_jobs_behind_one_that_waits_to_be_alone_are_given_up() -> None:
    some = pool(0, 2, 0, 1)
    assert start(some) == [0]

    assert some.waits_for_solitude
    gone: list[Any] = some.give_up_others()
    assert [each.held for each in gone] == [2, 3]

    some.running.clear()
    assert (start(some), some.waits_for_solitude) == ([1], False)


def test_what_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    clock = Clock()
    some = Pool(4, ahead=0, clock=clock)
    some.waiting.extend([holding(0, 0), holding(1, 2)])
    assert start(some) == [0]
    assert start(some) == []
    clock.now += 31
    assert start(some) == [1]

    leave_running(some, 0)
    some.waiting.append(holding(1, 2))
    assert start(some) == [1], "the same job, given back and claimed again"
    leave_running(some, 0)
    some.waiting.extend([holding(2, 0), holding(3, 2)])
    assert start(some) == [2]
    assert start(some) == [], "what began later is waited for"


def test_a_job_that_is_given_up_leaves_nothing_behind() -> None:
    some = pool(0, 2, 1)
    start(some)
    start(some)
    assert some._waits_since

    some.give_up()

    assert some._waits_since == {}
