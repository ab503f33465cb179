"""From where on a worker claims: from the front, unless that has become slow."""

from __future__ import annotations

from penstock.core.job import Claimed, Place
from penstock.engine.claims import Mark


def _jobs(lane: int, *ranks: int) -> list[Claimed]:
    facts = {"fence": 1, "attempt": 1, "max_attempts": 1, "lost": 0, "params": "{}"}
    nothing = dict.fromkeys(("reference_type", "reference_id", "traceparent", "schedule", "scheduled_for"))
    return [Claimed(job_id=f"{lane}-{rank}", lane=lane, rank=rank, **facts, **nothing) for rank in ranks]  # type: ignore[arg-type]


def test_quick_claims_begin_at_the_front() -> None:
    mark = Mark()
    for now in (0.0, 0.1, 0.2):
        assert mark.start(now) == {}
        mark.note(_jobs(1, 1, 2), full=True, took=0.002, from_front=True)


def test_after_a_slow_one_the_next_go_on_behind_it_for_a_second() -> None:
    mark = Mark()
    mark.start(10.0)
    mark.note([*_jobs(1, 5, 6), *_jobs(2, 7)], full=True, took=0.2, from_front=True)

    assert mark.start(10.3) == {1: Place(6, "1-6"), 2: Place(7, "2-7")}

    mark.note(_jobs(1, 8), full=True, took=0.001, from_front=False)
    assert mark.start(10.6) == {1: Place(8, "1-8"), 2: Place(7, "2-7")}
    assert mark.start(11.0) == {}


def test_where_nothing_is_left_behind_the_front_is_looked_at_again() -> None:
    mark = Mark()
    mark.start(10.0)
    mark.note(_jobs(1, 5), full=True, took=0.2, from_front=True)
    assert mark.start(10.1)

    mark.note([], full=False, took=0.001, from_front=False)

    assert mark.start(10.2) == {}
