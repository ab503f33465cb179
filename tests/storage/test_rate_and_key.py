"""A rate by key together with the other limits: what may run does run, in turn and in time."""

from __future__ import annotations

import pytest

from penstock.domain.definition import Pause, RateLimit
from penstock.domain.instant import SECOND
from penstock.domain.job import Claimed
from penstock.domain.states import Status
from penstock.storage.commands import access, control, jobs
from tests.storage.kit import Kit
from tests.storage.tables import query

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


def test_jobs_of_a_key_start_in_their_order_and_time_however_long_concurrency_holds_them_up(kit: Kit) -> None:
    kit.define(concurrency=1, rate_limit=RateLimit(1, 2, per_key=True))
    made = [kit.create(concurrency_key="k") for _ in range(11)]

    assert Queue(kit).run(22) == [(2 * n, job_id) for n, job_id in enumerate(made)]


@pytest.mark.parametrize(("concurrency", "key_concurrency"), [(0, 0), (1, 0), (0, 1)])
def test_starts_do_not_bunch_after_a_pause(kit: Kit, concurrency: int, key_concurrency: int) -> None:
    rate = RateLimit(2, 10, per_key=True)
    kit.define(concurrency=concurrency, key_concurrency=key_concurrency, rate_limit=rate)
    made = [kit.create(concurrency_key="k") for _ in range(9)]
    queue = Queue(kit)
    queue.run(12)
    kit.run(control.pause("work", Pause("deploy", "anna", kit.now), by="anna"))
    queue.run(60)
    kit.run(control.pause("work", None, by="anna"))

    queue.run(60)

    starts = [second for second, _ in queue.started]
    assert [job_id for _, job_id in queue.started] == made
    assert all(third - first >= 5 for first, third in zip(starts, starts[2:], strict=False))


def test_a_job_that_runs_longer_than_the_period_delays_no_other_key(kit: Kit) -> None:
    kit.define(concurrency=2, rate_limit=RateLimit(1, 10, per_key=True))
    kit.create(concurrency_key="long")
    queue = Queue(kit)
    queue.claim()
    made = [kit.create(concurrency_key="k") for _ in range(5)]

    queue.run(60)

    assert [job_id for _, job_id in queue.started] == made


def test_keys_that_have_no_token_delay_no_other_key(kit: Kit) -> None:
    kit.define(concurrency=250, rate_limit=RateLimit(1, HOUR, per_key=True))
    kit.run(jobs.create([kit.draft(concurrency_key=f"k{n % 250}", priority=20) for n in range(500)]))
    lanes = sorted(kit._lanes.values())
    assert len(kit.claim(limit=250, lanes=lanes, limited=lanes)) == 250
    kit.run(control.override("work", {"concurrency": 251}, by="anna"))
    last = kit.create(concurrency_key="last")

    assert [each.job_id for each in Queue(kit).claim()] == [last]


def test_few_jobs_of_a_key_are_written_however_many_wait(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(2, 10, per_key=True))
    made = [kit.draft(concurrency_key="k") for _ in range(2_000)]
    kit.run(jobs.create(made))

    started = len(Queue(kit).run(60))

    touched = query(kit.store, "SELECT count(*) FROM {s}job WHERE NOT blocked")[0][0]
    assert 12 <= started <= 14
    assert touched <= started + 2


def test_a_rate_by_key_that_ends_lets_all_jobs_of_the_key_start(kit: Kit) -> None:
    kit.define(rate_limit=RateLimit(1, HOUR, per_key=True))
    made = [kit.create(concurrency_key="k") for _ in range(6)]
    queue = Queue(kit)
    queue.run(2)

    kit.run(control.override("work", {"rate_count": 0}, by="anna"))

    assert {job_id for _, job_id in queue.run(10)} == {*made} - {made[1]}
