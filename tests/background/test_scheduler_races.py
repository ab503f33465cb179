"""Several schedulers at once: whoever comes first makes the tick, and there is no second one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.background.scheduler import Scheduler
from penstock.domain.instant import MINUTE, SECOND
from penstock.domain.schedule.recurrence import recurrence
from penstock.domain.schedule.schedule import Kind
from penstock.runtime.service import Service
from penstock.storage import ports
from tests.background.clockwork import SHARED_KINDS, START, Clockwork, TimedStore, micros, new_store, opened, work
from tests.conftest import Counts
from tests.waiting import wait_until_async

RHYTHMS = ("1s", "2s", "5s", "7s from 2027-01-15T00:00:03Z")


@pytest.fixture(params=SHARED_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clockwork(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clockwork]:
    yield from opened(kind, request, tmp_path)


@pytest.mark.parametrize("schedulers", [2, 4])
def test_schedulers_at_once_make_what_the_timetable_says_and_nothing_twice(
    clockwork: Clockwork, kind: str, request: pytest.FixtureRequest, tmp_path: Path, counts: Counts, schedulers: int
) -> None:
    number, seconds = counts(ci=8, soak=200), counts(ci=12, soak=60)
    for each in range(number):
        clockwork.app.save_schedule(f"s{each}", "work", every=RHYTHMS[each % 4], missed="all", missed_max=1000)
    in_step = threading.Barrier(schedulers)
    parties = [Party(new_store(kind, request, tmp_path), each, in_step) for each in range(schedulers)]

    with ThreadPoolExecutor(schedulers) as threads:
        killed = sum(threads.map(lambda party: party.run(seconds), parties))
    clockwork.now = START + seconds * SECOND
    clockwork.settle()

    made = Counter((job.schedule_id, micros(job.scheduled_for)) for job in clockwork.app.iter_jobs())
    assert set(made) == {(f"s{each}", instant) for each in range(number) for instant in _oracle(each, seconds)}
    assert set(made.values()) == {1}
    assert killed > 0
    assert sum(party.scheduler.ticked > 0 for party in parties) > 1
    assert all(party.scheduler.errors == 0 for party in parties)


def test_one_that_pauses_and_changes_while_others_tick_doubles_nothing(
    clockwork: Clockwork, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    clockwork.app.save_schedule("often", "work", every="1s", missed="all", missed_max=1000)
    parties = [Party(new_store(kind, request, tmp_path), seed=each) for each in range(2)]

    def disturb(_: int) -> int:
        for turn in range(6):
            clockwork.now += 2 * SECOND
            clockwork.app.pause_schedule("often", f"turn {turn}")
            clockwork.app.resume_schedule("often")
            clockwork.app.change_schedule("often", priority=turn, by="ann")
        return 0

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda act: act(12), [disturb, *(party.run for party in parties)]))
    clockwork.now = START + MINUTE
    clockwork.settle()

    ticks = clockwork.verdicts("often")
    made = Counter(micros(job.scheduled_for) for job in clockwork.app.iter_jobs())
    assert set(made.values()) == {1}
    assert sum(1 + passed_over for _, _, passed_over in ticks) == 60
    assert sorted(made) == [instant for instant, verdict, _ in ticks if verdict == "made"]


async def test_by_the_clock_of_the_store_two_services_make_each_second_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = new_store(kind, request, tmp_path)
    app = Penstock(store)
    app.job("work")(work)
    await app.asave_schedule("often", "work", every="1s")
    made: list[str] = []

    async def draft(schedule: Any, instant: int) -> Any:
        return await app._ado(app._tick_draft(schedule, instant))

    looks = [Scheduler(store, ports.schedules, ports.admin, draft, made.extend).tick for _ in range(2)]
    services = [Service("scheduler", look) for look in looks]
    tasks = [asyncio.create_task(service.run()) for service in services]
    await wait_until_async(lambda: len(made) >= 3, "three seconds were ticked")
    for service in services:
        service.stop()
    await asyncio.gather(*tasks)

    jobs = [(await app.aget(job_id)).job for job_id in made]
    instants = sorted(micros(job.scheduled_for) for job in jobs)
    assert instants == list(range(instants[0], instants[-1] + 1, SECOND))
    assert len(made) == len(set(made))
    assert all(service.errors == 0 for service in services)
    await app.aclose()


class Party:
    """A scheduler as another process would have it; its clock is not quite right, and it is often killed."""

    def __init__(self, store: Any, seed: int, in_step: threading.Barrier | None = None) -> None:
        self.store = TimedStore(store)
        self.app = Penstock(self.store)
        self.random = random.Random(seed)
        self.in_step = in_step
        self.scheduler = Scheduler(self.store, ports.schedules, ports.admin, self._draft, lambda _: None)

    def run(self, seconds: int) -> int:
        """Let time pass; how often it was killed."""
        return asyncio.run(self._run(seconds))

    async def _run(self, seconds: int) -> int:
        killed = 0
        try:
            for second in range(seconds + 1):
                if self.in_step is not None:
                    # Nobody is a second ahead: one that is has made all ticks before the others look.
                    self.in_step.wait(60)
                self.store.now = START + second * SECOND + self.random.randrange(SECOND)
                for _ in range(2):
                    look = asyncio.create_task(self.scheduler.tick())
                    if self.random.random() < 0.3:
                        for _ in range(self.random.randrange(20)):
                            await asyncio.sleep(0)
                        look.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await look
                    killed += look.cancelled()
        finally:
            await self.store._host.aclose()
            self.store._host.close()
        return killed

    async def _draft(self, schedule: Any, instant: int) -> Any:
        return await self.app._ado(self.app._tick_draft(schedule, instant))


def _oracle(number: int, seconds: int) -> list[int]:
    """All instants of a schedule in the time of the test."""
    times = recurrence(Kind.INTERVAL, RHYTHMS[number % 4])
    found: list[int] = []
    instant = times.next(START)
    while instant is not None and instant <= START + seconds * SECOND:
        found.append(instant)
        instant = times.next(instant)
    return found
