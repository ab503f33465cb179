"""A rate by key together with the other limits: what may run does run, in turn and in time."""

from __future__ import annotations

import pytest

from penstock.core.definition import RateLimit
from penstock.core.instant import SECOND
from penstock.core.job import Claimed
from penstock.core.transitions import Status
from penstock.stores.verbs import access, control, jobs
from tests.stores.kit import Kit

pytestmark = pytest.mark.usefixtures("sound")

HOUR = 3600


class Queue:
    """A worker with one slot that works through the jobs of one key, on a clock that moves by seconds."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.worker = kit.worker(lease=10**15)
        self.started: list[tuple[int, str]] = []
        self._begin = kit.now

    def run(self, seconds: int, *, sweep: bool = True) -> list[tuple[int, str]]:
        """Claim and settle for so long; the second and the id of each job that started."""
        for second in range(seconds):
            self.kit.run(jobs.promote())
            if sweep and second % 10 == 0:
                self.kit.run(jobs.repair_limits())
            self.claim_and_settle()
            self.kit.advance(1)
        return self.started

    def claim_and_settle(self) -> None:
        for each in self.claim():
            self.started.append(((self.kit.now - self._begin) // SECOND, each.job_id))
            self.kit.settle(each)

    def claim(self) -> list[Claimed]:
        lanes = sorted(self.kit._lanes.values())
        return self.kit.claim(self.worker, limit=1, lanes=lanes, limited=lanes)


@pytest.mark.parametrize("sweep", [True, False], ids=["with-sweep", "without-sweep"])
@pytest.mark.parametrize(("period", "count"), [(2, 5), (10, 20), (60, 5)])
def test_jobs_of_a_key_start_once_a_period_in_their_order(kit: Kit, period: int, count: int, sweep: bool) -> None:
    kit.define(key_concurrency=1, rate_limit=RateLimit(1, period, per_key=True))
    made = [kit.create(concurrency_key="k") for _ in range(count)]

    started = Queue(kit).run(period * count, sweep=sweep)

    assert started == [(n * period, job_id) for n, job_id in enumerate(made)]


def test_a_job_put_off_by_its_rate_holds_the_slot_of_its_key(kit: Kit) -> None:
    kit.define(key_concurrency=1, rate_limit=RateLimit(1, 60, per_key=True))
    first, second, third = (kit.create(concurrency_key="k") for _ in range(3))
    queue = Queue(kit)
    queue.run(2)

    assert [each for _, each in queue.started] == [first]
    assert kit.status(second) is Status.SCHEDULED
    assert kit.job(third).blocked


def test_cancelling_a_job_that_its_rate_has_put_off_admits_the_next(kit: Kit) -> None:
    kit.define(key_concurrency=1, rate_limit=RateLimit(1, 60, per_key=True))
    _, second, third = (kit.create(concurrency_key="k") for _ in range(3))
    queue = Queue(kit)
    queue.run(2)

    kit.run(control.cancel([second]))

    assert not kit.job(third).blocked
    assert queue.run(120)[-1][1] == third


def test_a_job_that_is_rescheduled_gives_back_the_slot_that_it_held_while_it_was_put_off(kit: Kit) -> None:
    kit.define(key_concurrency=1, rate_limit=RateLimit(1, 60, per_key=True))
    _, second, third = (kit.create(concurrency_key="k") for _ in range(3))
    queue = Queue(kit)
    queue.run(2)

    kit.run(control.reschedule(second, delay=HOUR * SECOND))

    assert not kit.job(third).blocked
    assert queue.run(120)[-1][1] == third


@pytest.mark.parametrize("per_key", [False, True], ids=["rate", "rate-by-key"])
@pytest.mark.parametrize("key_concurrency", [0, 1])
def test_a_clock_that_is_set_back_stops_no_rate(kit: Kit, per_key: bool, key_concurrency: int) -> None:
    kit.define(key_concurrency=key_concurrency, rate_limit=RateLimit(1, 2, per_key=per_key))
    made = [kit.create(concurrency_key="k") for _ in range(6)]
    queue = Queue(kit)
    queue.run(3)
    before = {job_id for _, job_id in queue.started}
    kit.advance(-HOUR)

    queue.run(40)

    assert before < {job_id for _, job_id in queue.started} == set(made)


@pytest.mark.parametrize("per_key", [False, True], ids=["rate", "rate-by-key"])
@pytest.mark.parametrize("key_concurrency", [0, 1])
@pytest.mark.parametrize("back", [HOUR, 0.9], ids=["an-hour", "less-than-a-second"])
def test_a_claim_before_the_next_sweep_follows_a_clock_that_was_set_back(
    kit: Kit, per_key: bool, key_concurrency: int, back: float
) -> None:
    kit.define(key_concurrency=key_concurrency, rate_limit=RateLimit(1, 2, per_key=per_key))
    queue = Queue(kit)
    made = [kit.create(concurrency_key="k") for _ in range(6)]
    queue.run(3, sweep=False)
    kit.advance(-back)

    queue.claim_and_settle()
    made += [kit.create(concurrency_key="k") for _ in range(2)]
    queue.claim_and_settle()
    queue.run(30)

    assert {job_id for _, job_id in queue.started} == set(made)


@pytest.mark.parametrize("per_key", [False, True], ids=["rate", "rate-by-key"])
def test_a_clock_that_jumps_forth_and_back_by_an_hour_stops_no_rate(kit: Kit, per_key: bool) -> None:
    kit.define(rate_limit=RateLimit(1, 2, per_key=per_key))
    made = [kit.create(concurrency_key="k") for _ in range(12)]
    queue = Queue(kit)

    for _ in range(4):
        kit.advance(HOUR)
        queue.run(2, sweep=False)
        kit.advance(-HOUR)
        queue.claim_and_settle()
        queue.run(2, sweep=False)
    queue.run(30)

    assert {job_id for _, job_id in queue.started} == set(made)


@pytest.mark.parametrize("per_key", [False, True], ids=["rate", "rate-by-key"])
def test_a_rate_goes_on_on_a_clock_that_is_set_back_by_half_a_second_each_second(kit: Kit, per_key: bool) -> None:
    kit.define(key_concurrency=1, rate_limit=RateLimit(1, 2, per_key=per_key))
    for _ in range(30):
        kit.create(concurrency_key="k")
    queue = Queue(kit)

    for _ in range(40):
        queue.run(1)
        kit.advance(-0.5)

    assert len(queue.started) >= 9


def test_the_api_may_be_used_on_a_clock_that_is_set_back_by_half_a_second_each_second(kit: Kit) -> None:
    taken = 0
    for _ in range(40):
        taken += kit.run(access.take("creation", 1, 2 * SECOND)) is None
        kit.advance(1)
        kit.advance(-0.5)

    assert taken >= 9


def test_a_clock_that_is_set_back_stops_no_bucket_of_the_api(kit: Kit) -> None:
    assert kit.run(access.take("creation", 1, 60 * SECOND)) is None
    assert kit.run(access.take("creation", 1, 60 * SECOND)) is not None

    kit.advance(-HOUR)

    assert kit.run(access.take("creation", 1, 60 * SECOND)) is None
