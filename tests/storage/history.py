"""One history of commands, given to a model and to several stores: the base of the state machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from penstock.domain.definition import Definition
from penstock.domain.instant import DAY, HOUR, SECOND
from penstock.domain.job import Claimed, Draft, Held
from penstock.domain.maintenance import RetentionBatch
from penstock.domain.outcome import RETURNED_NOTHING, AttemptCounters, Failure, Outcome, Settlement, Usage, decide
from penstock.domain.plan import Plan
from penstock.domain.retry import Fixed
from penstock.domain.schedule.schedule import Tick
from penstock.domain.states import LIVE, PENDING, TERMINAL, Status, Trigger
from penstock.domain.worker import WorkerInfo
from penstock.storage.commands import admin, control, jobs, schedules
from tests.storage.compared_stores import CAUSES, ComparedStore, Expectation, Raised, answer
from tests.storage.kit import LEASE, START
from tests.storage.liveness import CROWD, LONG, POLLER, Deadlines, Terms, Workday
from tests.storage.model import Move, World
from tests.storage.model_control import AdminModel, ControlModel, SchedulesModel
from tests.storage.model_jobs import JobsModel

T = TypeVar("T")

_CROWDED = 30


class History(RuleBasedStateMachine):
    """What all rules need. Things are picked by number, the newest first, so that any number picks something."""

    world_type: ClassVar[type[World]] = World
    jobs_type: ClassVar[type[JobsModel]] = JobsModel
    steps: ClassVar[int] = 0
    moves: ClassVar[set[Move]] = set()

    @staticmethod
    def open_stores() -> list[ComparedStore]:
        """Open stores in which nothing has happened."""
        raise NotImplementedError

    @staticmethod
    def tamper(party: ComparedStore) -> None:
        """Plant a fault into a store once its history is over; here none."""

    def __init__(self) -> None:
        super().__init__()
        self.world = self.world_type(START)
        self.jobs = self.jobs_type(self.world)
        self.control = ControlModel(self.world)
        self.schedules = SchedulesModel(self.world, self.jobs)
        self.admin = AdminModel(self.world)
        self.expected = Expectation(self.world)
        self.claims: list[Claimed] = []
        self.holders: dict[tuple[str, int], str] = {}
        self.drafts: list[Draft] = []
        self.ticked: list[tuple[Tick, Draft | None, str]] = []
        self.numbers = self.step = 0
        self.parties: list[ComparedStore] = []
        self.terms = Terms()
        self.turns = Definition("turns")
        self.crashes = 0
        self.everywhere = False
        self.resumes = False
        self.outside = sys.exception()

    def open(self, ageing: int) -> None:
        self.world.ageing = ageing
        self.parties = type(self).open_stores()
        for party in self.parties:
            party.begin(self.world.now, ageing)

    def teardown(self) -> None:
        type(self).moves.update(self.world.moves)
        try:
            if self.parties and sys.exception() is self.outside:
                self.run_everything()
        finally:
            for party in self.parties:
                party.end()

    def run_everything(self) -> None:
        """The clock runs on: every job that may run must start in time, and end.

        It does so on all stores for some histories only, because they have come to the same.
        """
        if self.resumes and self.world.pause is not None:
            self.same(lambda: self.control.pause("*", None), lambda _: control.pause("*", None, by="me"))
        self.crowd()
        self.expected.compare(self.parties, everything=False)
        deadlines = Deadlines(self.world, self.terms)
        for party in self.parties if self.everywhere else self.parties[:1]:
            type(self).tamper(party)
            Workday(party.store, self.new_id, deadlines, party.name).run()

    def crowd(self) -> None:
        """Create ordinary jobs without limits, jobs with the limits that were drawn, and soon an urgent one of each."""
        self.crash()
        for definition in (Definition(LONG), Definition(CROWD), self.turns):
            self.register(definition)
        lanes = {key: lane for lane, (key, _) in sorted(self.world.lanes.items())}
        self.make([self.draft_of(lanes.pop(LONG), priority=20)])
        self.make([self.draft_of(lanes[CROWD]) for _ in range(_CROWDED)])
        self.make([self.draft_of(lanes["turns"], concurrency_key=key) for key in (*"aaaaaaaaab", None)])
        for key, lane in lanes.items():
            if self.world.definitions[key].enabled:
                self.make([self.draft_of(lane, priority=20, concurrency_key="a", delay=5 * SECOND)])

    def crash(self) -> None:
        """Workers crash as often as was drawn while they run one job."""
        self.register(Definition(POLLER))
        lane = next(lane for lane, (key, _) in self.world.lanes.items() if key == POLLER)
        self.make([self.draft_of(lane, priority=20)])
        for _ in range(self.crashes):
            self.new_worker(LEASE)
            self.begin_all(self.take(next(reversed(self.world.workers)), [lane], 1, [], True))
            self.world.now += LEASE + 2 * SECOND
            self.rescue(0.5)
            self.world.now += 10 * SECOND
            self.same(lambda: self.jobs.promote(1000), lambda _: jobs.promote(1000), set)

    @invariant()
    def all_are_alike(self) -> None:
        type(self).steps += 1
        self.step += 1
        self.expected.compare(self.parties, everything=self.step % 25 == 0)

    def register(self, definition: Definition) -> None:
        pair = definition.key, definition.version
        (lane,) = self.admin.register([definition]).values()
        for party in self.parties:
            party.lanes[lane] = party.run(admin.register([definition]), self.world.now)[pair]

    def rescue(self, chance: float) -> None:
        self.same(lambda: self.jobs.has_expired_workers(SECOND), lambda _: jobs.has_expired_workers(SECOND))
        self.same(lambda: by_fate(self.jobs.reclaim(SECOND, chance)), lambda _: jobs.reclaim(SECOND, chance), by_fate)

    def new_worker(self, lease: int) -> None:
        worker = WorkerInfo(self.new_id(), "worker", "here", 1, lanes=())
        self.same(lambda: self.jobs.register_worker(worker, lease), lambda _: jobs.register_worker(worker, lease))

    def draft(self, number: int, **options: Any) -> Draft:
        return self.draft_of(pick(list(self.world.lanes), number), **options)

    def draft_of(self, lane: int, **options: Any) -> Draft:
        facts = {"params": "{}", "priority": 10, "max_attempts": 2, "params_digest": "same", "idempotency_life": DAY}
        return Draft(id=self.new_id(), lane=lane, definition=self.world.lanes[lane][0], **{**facts, **options})

    def save_phase(self, held: Held, position: int, status: str, message: str | None) -> None:
        name, result = f"phase-{position}", f'"{message}"' if status == "completed" else None
        self.expected.touched.add(held.job_id)
        self.same(
            lambda: self.jobs.save_phase(held, name, position, status, 50.0, message, result),
            lambda _: jobs.save_phase(held, name, position, status, progress=50, message=message, result=result),
        )

    def make(self, drafts: Sequence[Draft]) -> None:
        self.drafts.extend(drafts)
        self.expected.created.extend(draft.id for draft in drafts if draft.id not in self.expected.created)
        self.same(lambda: self.jobs.create(drafts), lambda party: jobs.create([party.draft(draft) for draft in drafts]))

    def make_tick(self, tick: Tick, draft: Draft | None, overlap: str) -> None:
        self.ticked.append((tick, draft, overlap))
        if draft is not None and draft.id not in self.expected.created:
            self.expected.created.append(draft.id)
        self.look_what_is_due()
        self.same(
            lambda: self.schedules.tick(tick, draft, overlap),
            lambda party: schedules.tick(tick, draft and party.draft(draft), overlap),
        )

    def look_what_is_due(self) -> None:
        self.same(self.schedules.due, lambda _: schedules.due(), lambda found: [row.schedule.key for row in found])

    def take(self, worker: str, lanes: list[int], limit: int, limited: list[int], start: bool) -> list[Claimed]:
        claimed = answer(lambda: self.jobs.claim(worker, lanes, limit, limited, start=start))
        for party in self.parties:
            plan = jobs.claim(worker, party.lane(lanes), limit, limited=party.lane(limited), start=start)
            found = party.ask(plan, self.world.now, party.claimed)
            assert found == claimed, f"{party.name}\n  store: {found}\n  model: {claimed}"
        if isinstance(claimed, Raised):
            return []
        # An id that was deleted and made again begins anew: nobody hands in attempts of both its lives at once.
        again = {each.job_id for each in claimed if each.fence == 1}
        self.holders.update(((each.job_id, each.fence), worker) for each in claimed)
        self.claims = [*(each for each in self.claims if each.job_id not in again), *claimed]
        return list(claimed)

    def take_anything(self, limit: int, *, start: bool = True) -> list[Claimed]:
        """The newest worker, or a new one if that is gone, takes what it can get."""
        newest = next(reversed(self.world.workers.values()))
        if newest.ended or newest.lease_until <= self.world.now:
            self.new_worker(LEASE)
        lanes = list(self.world.lanes)
        return self.take(next(reversed(self.world.workers)), lanes, limit, lanes, start)

    def begin_all(self, claimed: Sequence[Claimed]) -> None:
        held = [self.name(each) for each in claimed]
        self.same(lambda: self.jobs.start(held), lambda _: jobs.start(held))

    def end(self, done: Sequence[Settlement]) -> None:
        """Each worker hands in the endings of its attempts."""
        workers = [self.holders[each.job_id, each.fence] for each in done]
        for worker in dict.fromkeys(workers):
            self.end_for(worker, [each for each, holder in zip(done, workers, strict=True) if holder == worker])

    def end_for(self, worker: str, done: Sequence[Settlement]) -> None:
        self.same(lambda: self.jobs.settle(worker, done), lambda party: jobs.settle(worker, party.endings(done)))

    def cancel_all(self, ids: Sequence[str], by: str | None = None) -> None:
        self.same(lambda: self.control.cancel(ids), lambda _: control.cancel(ids, by=by))

    def retry_all(self, ids: Sequence[str], position: int | None = None) -> None:
        self.same(lambda: self.control.retry(ids, position), lambda _: control.retry(ids, from_position=position))

    def retire(self, limit: int) -> None:
        self.same(
            lambda: self.admin.retire(limit),
            lambda _: admin.retire(limit),
            lambda sweep: RetentionBatch(sorted(sweep.stale), sorted(sweep.deleted)),
        )

    def ending(self, claimed: Claimed, trigger: Trigger, retryable: bool, delay: int | None) -> Settlement:
        """What a worker would hand in, from what it was told at its claim; without delay a success returns nothing.

        Sometimes it says that nothing follows from it, which may be wrong.
        """
        failure = (
            Failure("ValueError", "broken", "Traceback", "fingerprint")
            if trigger in (Trigger.FAIL, Trigger.LOSE)
            else None
        )
        outcome = Outcome(
            trigger, CAUSES[trigger], result=None if failure else '"done"', failure=failure, retryable=retryable,
            delay=delay, note="note", data="{}", usage=Usage(exit_code=1, cpu_seconds=0.5),
        )  # fmt: skip
        if trigger is Trigger.SUCCEED and delay is None:
            outcome = RETURNED_NOTHING
        standing = AttemptCounters(claimed.attempt, claimed.max_attempts, claimed.lost)
        settlement = decide(claimed.job_id, claimed.fence, outcome, standing, Fixed(10), 0.5)
        return settlement._replace(lane=claimed.lane, lone=True) if retryable else settlement

    def same(
        self,
        model: Callable[[], Any],
        plan: Callable[[ComparedStore], Plan[Any]],
        form: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        """The verb answers the same everywhere."""
        expected = answer(model)
        for party in self.parties:
            found = party.ask(plan(party), self.world.now, form)
            if isinstance(found, Raised) and isinstance(expected, Raised) and expected.job_id == "several":
                found = replace(found, job_id="several")
            assert found == expected, f"{party.name}\n  store: {found}\n  model: {expected}"

    def new_id(self) -> str:
        """Ids of which the later one is not always the greater one."""
        self.numbers += 1
        return f"{self.numbers * 7919 % 10_007:08x}-0000-7000-8000-{self.numbers:012x}"

    def ids(self, numbers: Sequence[int], wanted: Collection[Status]) -> list[str]:
        """Jobs that mostly stand where they are wanted; sometimes any, also such as are gone."""
        if not any(job.told(self.world.now) in wanted for job in self.world.jobs.values()):
            self.bring(wanted)
        fitting = [job.id for job in self.world.jobs.values() if job.told(self.world.now) in wanted]
        pools = [fitting if fitting and number % 4 else self.expected.created for number in numbers]
        return [pick(pool, number) for pool, number in zip(pools, numbers, strict=True)]

    def bring(self, wanted: Collection[Status]) -> None:
        """See to it that jobs stand where they are wanted."""
        if wanted is PENDING:
            self.make([self.draft(0, delay=0), self.draft(1, delay=HOUR)])
        else:
            trigger = Trigger.FAIL if wanted is TERMINAL else Trigger.ASK_REVIEW
            done = [self.ending(each, trigger, False, None) for each in self.take_anything(2)]
            self.end(done)

    def claimed(self, number: int) -> Claimed:
        """A claim that mostly still holds, and sometimes is an old one of a job that is held by another."""
        if not any(job.status in LIVE for job in self.world.jobs.values()):
            self.take_anything(2)
        live = {job.id: job.fence for job in self.world.jobs.values() if job.status in LIVE}
        holding = [each for each in self.claims if live.get(each.job_id) == each.fence]
        outlived = [each for each in self.claims if live.get(each.job_id, 0) > each.fence]
        return pick((holding if number % 4 else outlived) or self.claims, number // 4)

    def held(self, number: int) -> Held:
        return self.name(self.claimed(number))

    def by_another(self, held: Held) -> Held:
        """The same under the name of the newest worker, which may never have held it."""
        return held._replace(worker=next(reversed(self.world.workers)))

    def name(self, claimed: Claimed) -> Held:
        """What writes of an attempt name."""
        return Held(claimed.job_id, claimed.fence, self.holders[claimed.job_id, claimed.fence])


def pick(items: Sequence[T], number: int) -> T:
    return items[-1 - number % len(items)]


def by_fate(reclaimed: Any) -> dict[str, list[str]]:
    names = ("workers", "lost", "released", "cancelled", "failed")
    return {name: sorted(getattr(reclaimed, name)) for name in names}
