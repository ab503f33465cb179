"""Jobs of a concurrency key are admitted at the end of whatever changes or holds them, not at the next sweep."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.domain.job import Claimed
from penstock.domain.plan import Plan
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, Tick
from penstock.domain.states import Trigger
from penstock.storage.commands import control, jobs, schedules
from tests.conftest import Counts, Figures
from tests.storage.concurrency import Arena, another
from tests.storage.conftest import open_store
from tests.storage.kit import LEASE, START, Kit
from tests.storage.tables import check_soundness, query

HOUR = 3600 * 10**6
ROOM = 2


class Line:
    """A concurrency key with room for two: two jobs that run, a review, an ended job, and jobs that wait."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        kit.define(key_concurrency=ROOM)
        self.worker = kit.worker()
        (asking,) = self._claimed(1)
        kit.settle(asking, Trigger.ASK_REVIEW)
        self.review = asking.job_id
        (failing,) = self._claimed(1)
        kit.settle(failing, Trigger.FAIL, retryable=False)
        self.failed = failing.job_id
        self.running = self._claimed(ROOM)
        self.waiting = [kit.create(concurrency_key="k") for _ in range(4)]
        self.scheduled = kit.create(concurrency_key="k", delay=HOUR)
        assert [kit.job(each).blocked for each in self.waiting] == [True] * 4

    def settle(self) -> None:
        """A running job of the key ends: there is room for one more."""
        self.kit.run(jobs.settle(self.worker, [self.kit.ending(self.running[0])]))

    def draft(self) -> Any:
        return self.kit.draft(concurrency_key="k")

    def _claimed(self, n: int) -> list[Claimed]:
        for _ in range(n):
            self.kit.create(concurrency_key="k")
        return self.kit.claim(self.worker, limit=n)


def _tick(line: Line) -> Plan[Any]:
    line.kit.run(schedules.save(Schedule("often", "work", Kind.INTERVAL, "60", next_run_at=START), by="ann"))
    return schedules.tick(Tick("often", 1, START, START + HOUR), line.draft(), Overlap.ALLOW)


def _promote(line: Line) -> Plan[Any]:
    line.kit.advance(3600)
    return jobs.promote()


def _reclaim(line: Line) -> Plan[Any]:
    line.kit.advance(LEASE / 10**6 + 2)
    return jobs.reclaim(10**6, 0.5)


HOLDERS: dict[str, Callable[[Line], Plan[Any]]] = {
    "create": lambda line: jobs.create([line.draft()]),
    "tick": _tick,
    "promote": _promote,
    "settle": lambda line: jobs.settle(line.worker, [line.kit.ending(line.running[1], Trigger.RELEASE)]),
    "release_unheld": lambda line: jobs.release_unheld(line.worker, [line.kit.held(line.running[0])]),
    "reclaim": _reclaim,
    "cancel the first": lambda line: control.cancel(line.waiting[:1]),
    "cancel all": lambda line: control.cancel(line.waiting),
    "reprioritise the first": lambda line: control.reprioritise(line.waiting[:1], 0),
    "reprioritise all": lambda line: control.reprioritise(line.waiting, 20),
    "reschedule the first": lambda line: control.reschedule(line.waiting[0], delay=HOUR),
    "reschedule to now": lambda line: control.reschedule(line.scheduled),
    "approve": lambda line: control.approve(line.review, by="ann", finished=False),
    "reject": lambda line: control.reject(line.review, by="ann"),
    "retry": lambda line: control.retry([line.failed]),
    "delete": lambda line: control.delete([line.failed]),
    "override": lambda line: control.override("work", {"key_concurrency": 3}, by="ann"),
}


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    """A store that gives up on a lock after five seconds."""
    for store in open_store("postgres-18", request, tmp_path, statement_seconds=5):
        yield Kit(store)


@pytest.fixture
def line(kit: Kit) -> Line:
    return Line(kit)


@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_slot_that_is_freed_while_a_transaction_holds_jobs_of_its_key_is_taken_when_that_ends(
    line: Line, holder: str, ends: str
) -> None:
    kit = line.kit
    plan = HOLDERS[holder](line)
    with psycopg.connect(kit.store.url) as connection:
        kit.store.run_on(connection, plan, now=kit.now)
        if holder not in ("reclaim", "release_unheld"):
            line.settle()
        getattr(connection, ends)()

    while kit.run(jobs.next_due()) == 0:
        kit.run(jobs.promote())

    check_soundness(kit.store)
    assert _stand_still(kit)


def test_a_key_that_many_verbs_change_together_is_left_full(kit: Kit, counts: Counts, figures: Figures) -> None:
    chance = random.Random(4)
    kit.define(key_concurrency=ROOM)
    worker = kit.worker()
    seen = {"settled": 0, "admitted later": 0}
    for _ in range(6):
        kit.create(concurrency_key="k")
    with another(kit) as other, Arena(6) as arena:
        for _ in range(counts(ci=15, soak=300)):
            claimed = kit.claim(worker)
            waiting = [kit.create(concurrency_key="k") for _ in range(3)]
            some = chance.sample(waiting, 2)
            answers = arena.together(
                partial(kit.run, jobs.settle(worker, [kit.ending(each) for each in claimed])),
                partial(other.run, control.reprioritise(waiting, chance.choice((0, 20)))),
                partial(other.run, control.reschedule(some[0], delay=chance.choice((0, HOUR)))),
                partial(kit.run, control.cancel(some[1:])),
                partial(other.run, control.override("work", {"key_concurrency": chance.choice((1, 2, 3))}, by="ann")),
                partial(kit.run, jobs.promote()),
            )  # fmt: skip
            assert [each for each in answers if isinstance(each, BaseException)] == []
            seen["settled"] += len(claimed)
            while kit.run(jobs.next_due()) == 0:
                seen["admitted later"] += 1
                kit.run(jobs.promote())
            assert _stand_still(kit)
            check_soundness(kit.store)
    assert seen["settled"] > 0
    figures("admission.together", **seen)


def _stand_still(kit: Kit) -> bool:
    """Whether no note is left and the sweep would find nothing to admit."""
    blocked = "SELECT id FROM {s}job WHERE blocked ORDER BY id"
    before = query(kit.store, blocked)
    kit.run(jobs.repair_limits())
    return query(kit.store, "SELECT 1 FROM {s}key_note") == [] and query(kit.store, blocked) == before
