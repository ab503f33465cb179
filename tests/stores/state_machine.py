"""Random histories of verbs, told to a model and to several stores at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.admin import Sweep
from penstock.core.definition import Definition, Pause, RateLimit
from penstock.core.instant import DAY, HOUR, SECOND
from penstock.core.job import Claimed, Draft, Held
from penstock.core.outcome import Failure, Outcome, Settlement, Standing, Usage, decide
from penstock.core.plan import Plan
from penstock.core.retry import Backoff, Fixed
from penstock.core.schedule import Kind, Overlap, Schedule, Tick
from penstock.core.transitions import ACTIVE, ENDINGS, LIVE, TERMINAL, WAITING, Status, Trigger
from penstock.core.worker import WorkerInfo
from penstock.stores.verbs import admin, control, feed, jobs, schedules
from tests.stores.kit import LEASE, START
from tests.stores.model import Move, World
from tests.stores.model_control import AdminModel, ControlModel, SchedulesModel
from tests.stores.model_jobs import JobsModel
from tests.stores.parties import CAUSES, Expectation, Party, Raised, answer

T = TypeVar("T")
KEYS = ("mail", "report")
some = st.integers(0, 11)
few = st.lists(some, min_size=1, max_size=3, unique=True)
maybe = st.none() | st.just("a") | st.just("b")
delays = st.sampled_from((0, 0, 0, SECOND, HOUR))
endings = st.lists(st.tuples(some, st.sampled_from(sorted(ENDINGS))), min_size=1, max_size=4)
schedule_keys = st.sampled_from(("daily", "daily", "later"))

_BAD = (Trigger.FAIL, Trigger.LOSE)


class StoreMachine(RuleBasedStateMachine):
    """One history. Things are picked by number, the newest first, so that any number picks something."""

    world_type: ClassVar[type[World]] = World
    jobs_type: ClassVar[type[JobsModel]] = JobsModel
    open_stores: ClassVar[Callable[[], list[Party]]]
    steps: ClassVar[int] = 0
    moves: ClassVar[set[Move]] = set()

    def __init__(self) -> None:
        super().__init__()
        self.world = self.world_type(START)
        self.jobs = self.jobs_type(self.world)
        self.control = ControlModel(self.world)
        self.schedules = SchedulesModel(self.world, self.jobs)
        self.admin = AdminModel(self.world)
        self.expected = Expectation(self.world)
        self.claims: list[Claimed] = []
        self.drafts: list[Draft] = []
        self.ticked: list[tuple[Tick, Draft | None, str]] = []
        self.numbers = self.step = 0
        self.parties = type(self).open_stores()
        for party in self.parties:
            party.begin(self.world.now)

    def teardown(self) -> None:
        type(self).moves.update(self.world.moves)
        for party in self.parties:
            party.end()

    @invariant()
    def all_are_alike(self) -> None:
        type(self).steps += 1
        self.step += 1
        self.expected.compare(self.parties, everything=self.step % 25 == 0)

    @initialize()
    def begin(self) -> None:
        for key in KEYS:
            self._register(Definition(key=key, backoff=Fixed(10)))
        self._new_worker(LEASE)
        self._create([self._draft(lane) for lane in range(4)])

    # What code and operators say about definitions

    @rule(
        key=st.sampled_from((*KEYS, "rare")),
        version=st.integers(1, 3),
        concurrency=st.sampled_from((0, 0, 1, 2)),
        key_concurrency=st.sampled_from((0, 1, 2)),
        stale_after=st.sampled_from((HOUR, DAY, 7 * DAY)),
        delete_after=st.sampled_from((0, HOUR, 7 * DAY)),
        backoff=st.sampled_from((Fixed(10), Backoff(base=5, jitter=0.2))),
        rate_limit=st.sampled_from((None, None, RateLimit(1, 10), RateLimit(2, 10))),
    )
    def define(self, key: str, **options: Any) -> None:
        self._register(Definition(key=key, **options))

    @rule(
        key=st.sampled_from((*KEYS, *KEYS, "*", "unknown")),
        order=st.sampled_from(("pause", "resume", "resume", "enable", "enable", "disable")),
        until=st.none() | st.sampled_from((SECOND, HOUR)),
    )
    def order(self, key: str, order: str, until: int | None) -> None:
        if order in ("pause", "resume"):
            pause = Pause("maintenance", "me", self.world.now, until and self.world.now + until)
            wanted = pause if order == "pause" else None
            self._same(lambda: self.control.pause(key, wanted), lambda _: control.pause(key, wanted, by="me"))
        else:
            allowed = order == "enable"
            self._same(lambda: self.control.enable(key, allowed), lambda _: control.enable(key, allowed, by="me"))

    @rule(
        key=st.sampled_from((*KEYS, "unknown")),
        overrides=st.dictionaries(st.sampled_from(("concurrency", "key_concurrency")), st.integers(0, 2)),
    )
    def override(self, key: str, overrides: dict[str, int]) -> None:
        self._same(lambda: self.control.override(key, overrides), lambda _: control.override(key, overrides, by="me"))

    # Creating

    @rule(
        lanes=few,
        delay=delays,
        due=st.none() | st.sampled_from((-HOUR, HOUR)),
        priority=st.sampled_from((10, 10, 0, 20)),
        max_attempts=st.integers(1, 3),
        idempotency_key=maybe,
        digest=st.sampled_from(("same", "same", "same", "other")),
        unique=maybe,
        concurrency_key=maybe,
        tags=st.lists(st.sampled_from(("red", "blue")), unique=True, max_size=2),
    )
    def create(self, lanes: list[int], digest: str, tags: list[str], due: int | None, **options: Any) -> None:
        at = None if due is None else self.world.now + due
        facts = {"reference_type": "order", "reference_id": "7", "webhook_url": "https://here", "actor": "me"}
        drafts = [self._draft(lane, tags=tuple(tags), due=at, **facts, **options) for lane in lanes]
        self._create([*drafts[:-1], replace(drafts[-1], params_digest=digest)])

    @rule(lanes=st.lists(some, min_size=1, max_size=5), delay=delays, concurrency_key=maybe)
    def create_plain(self, lanes: list[int], **options: Any) -> None:
        self._create([self._draft(lane, **options) for lane in lanes])

    @rule(number=some)
    def create_again(self, number: int) -> None:
        if self.drafts:
            self._create([_pick(self.drafts, number)])

    @rule(wait=st.sampled_from((0, SECOND, 10 * SECOND, HOUR)), limit=st.sampled_from((1, 5, 5)))
    def promote(self, wait: int, limit: int) -> None:
        self.world.now += wait
        self._same(self.jobs.next_due, lambda _: jobs.next_due())
        self._same(lambda: self.jobs.promote(limit), lambda _: jobs.promote(limit), set)

    # Workers and their attempts

    @rule(what=st.sampled_from(("new", "short", "heartbeat", "heartbeat", "end")), number=some)
    def worker(self, what: str, number: int) -> None:
        worker = _pick(list(self.world.workers), number)
        if what == "heartbeat":
            self._same(
                lambda: self.jobs.heartbeat(worker, LEASE),
                lambda _: jobs.heartbeat(worker, LEASE),
                lambda pulse: set(pulse.cancels),
            )
        elif what == "end":
            self._same(lambda: self.jobs.end_worker(worker), lambda _: jobs.end_worker(worker))
        else:
            self._new_worker(LEASE if what == "new" else SECOND)

    @rule(
        number=st.integers(0, 2),
        skipped=st.lists(some, max_size=1),
        limit=st.integers(1, 5),
        limited=st.sampled_from((True, True, True, False)),
        start=st.booleans(),
    )
    def claim(self, number: int, skipped: list[int], limit: int, limited: bool, start: bool) -> None:
        worker = _pick(list(self.world.workers), number)
        lanes = [lane for lane in self.world.lanes if lane % 12 not in skipped]
        self._claim(worker, lanes, limit, lanes if limited else [], start)

    @rule(endings=endings, retryable=st.booleans(), delay=st.none() | st.sampled_from((0, HOUR)))
    def work(self, endings: list[tuple[int, Trigger]], retryable: bool, delay: int | None) -> None:
        """A worker takes what it can get and does it."""
        claimed = self._claim_anything(len(endings))
        worker = next(reversed(self.world.workers))
        triggers = [trigger for _, trigger in endings]
        done = [self._ending(*each, retryable, delay) for each in zip(claimed, triggers, strict=False)]
        self._same(lambda: self.jobs.settle(worker, done), lambda _: jobs.settle(worker, done))

    @rule(numbers=few)
    def start(self, numbers: list[int]) -> None:
        held = [self._held(number) for number in numbers if self.claims]
        self._same(lambda: self.jobs.start(held), lambda _: jobs.start(held))

    @rule(endings=endings, retryable=st.booleans(), delay=st.none() | st.sampled_from((0, HOUR)), named=st.booleans())
    def settle(self, endings: list[tuple[int, Trigger]], retryable: bool, delay: int | None, named: bool) -> None:
        done = [
            self._ending(self._claimed(number), trigger, retryable, delay) for number, trigger in endings if self.claims
        ]
        worker = next(reversed(self.world.workers)) if named else None
        self._same(lambda: self.jobs.settle(worker, done), lambda _: jobs.settle(worker, done))

    @rule(numbers=few, percent=st.sampled_from((-1.0, 0.0, 33.5, 250.0)), message=maybe, phase=maybe)
    def progress(self, numbers: list[int], percent: float, message: str | None, phase: str | None) -> None:
        reports = [(self._held(number), percent, message, phase) for number in numbers if self.claims]
        self._same(lambda: self.jobs.save_progress(reports), lambda _: jobs.save_progress(reports))

    @rule(
        number=some,
        position=st.integers(0, 2),
        status=st.sampled_from(("running", "completed", "failed")),
        message=maybe,
    )
    def phase(self, number: int, position: int, status: str, message: str | None) -> None:
        if self.claims:
            held, name = self._held(number), f"phase-{position}"
            result = f'"{message}"' if status == "completed" else None
            self.expected.touched.add(held.job_id)
            self._same(
                lambda: self.jobs.save_phase(held, name, position, status, 50.0, message, result),
                lambda _: jobs.save_phase(held, name, position, status, progress=50, message=message, result=result),
            )
            self._same(lambda: self.jobs.emit(held, "mail.sent"), lambda _: jobs.emit(held, "mail.sent", '{"to": 1}'))

    @rule(number=st.integers(0, 2), kept=st.lists(some, max_size=3, unique=True))
    def release_unheld(self, number: int, kept: list[int]) -> None:
        worker = _pick(list(self.world.workers), number)
        mine = [job.held for job in self.world.jobs.values() if job.worker == worker]
        held = [_pick(mine, each) for each in kept] if mine else []
        self._same(lambda: self.jobs.release_unheld(worker, held), lambda _: jobs.release_unheld(worker, held), set)

    @rule(lost=st.integers(0, 3), chance=st.sampled_from((0.0, 0.5)))
    def reclaim(self, lost: int, chance: float) -> None:
        """A worker claims and is gone, so many times."""
        for _ in range(lost):
            self._claim_anything(3)
            self.world.now += LEASE + 2 * SECOND
            self._reclaim(chance)
            self.promote(HOUR, 5)
        self._reclaim(chance)

    @rule(trigger=st.sampled_from(sorted(ENDINGS)), first=st.sampled_from(("start", "progress", "settle")))
    def wake_up_late(self, trigger: Trigger, first: str) -> None:
        """A worker sleeps past its lease, another one gets its jobs, and then it goes on as if nothing had happened."""
        old = self._claim_anything(3)
        self.world.now += LEASE + 2 * SECOND
        self._reclaim(0.5)
        self.promote(HOUR, 5)
        self._claim_anything(5)
        held = [Held(each.job_id, each.fence) for each in old]
        done = [self._ending(each, trigger, True, None) for each in old]
        if first == "start":
            self._same(lambda: self.jobs.start(held), lambda _: jobs.start(held))
        elif first == "progress":
            reports = [(each, 1.0, "late", None) for each in held]
            self._same(lambda: self.jobs.save_progress(reports), lambda _: jobs.save_progress(reports))
        self._same(lambda: self.jobs.settle(None, done), lambda _: jobs.settle(None, done))

    # Operators and jobs

    @rule(numbers=few, by=maybe)
    def cancel(self, numbers: list[int], by: str | None) -> None:
        ids = self._ids(numbers, ACTIVE)
        self._same(lambda: self.control.cancel(ids), lambda _: control.cancel(ids, by=by))

    @rule(endings=endings)
    def cancel_what_runs(self, endings: list[tuple[int, Trigger]]) -> None:
        ids = [job.id for job in self.world.jobs.values() if job.status in LIVE]
        self._same(lambda: self.control.cancel(ids), lambda _: control.cancel(ids))
        self.settle(endings, True, None, True)

    @rule(numbers=few, from_position=st.none() | st.integers(0, 2))
    def retry(self, numbers: list[int], from_position: int | None) -> None:
        ids = self._ids(numbers, TERMINAL)
        self._same(
            lambda: self.control.retry(ids, from_position), lambda _: control.retry(ids, from_position=from_position)
        )

    @rule(number=some, delay=delays, absolute=st.booleans())
    def reschedule(self, number: int, delay: int, absolute: bool) -> None:
        due = self.world.now + delay - SECOND if absolute else None
        (job_id,) = self._ids([number], WAITING)
        self._same(
            lambda: self.control.reschedule(job_id, due, delay),
            lambda _: control.reschedule(job_id, due=due, delay=delay),
        )

    @rule(numbers=few, priority=st.sampled_from((0, 10, 20)))
    def reprioritise(self, numbers: list[int], priority: int) -> None:
        ids = self._ids(numbers, WAITING)
        self._same(lambda: self.control.reprioritise(ids, priority), lambda _: control.reprioritise(ids, priority))

    @rule(
        number=some,
        note=maybe,
        result=st.none() | st.just('"edited"'),
        verdict=st.sampled_from(("finished", "go on", "no")),
    )
    def review(self, number: int, note: str | None, result: str | None, verdict: str) -> None:
        (job_id,) = self._ids([number], {Status.REVIEW_NEEDED})
        if verdict == "no":
            self._same(
                lambda: self.control.reject(job_id, "me", note), lambda _: control.reject(job_id, by="me", note=note)
            )
        else:
            facts: Any = {"by": "me", "note": note, "result": result, "finished": verdict == "finished"}
            self._same(lambda: self.control.approve(job_id, **facts), lambda _: control.approve(job_id, **facts))

    @rule(numbers=few)
    def delete(self, numbers: list[int]) -> None:
        ids = self._ids(numbers, TERMINAL)
        self._same(lambda: self.control.delete(ids), lambda _: control.delete(ids))

    # Duties

    @rule(wait=st.sampled_from((0, DAY, 8 * DAY)), limit=st.sampled_from((2, 1000)))
    def retire(self, wait: int, limit: int) -> None:
        self.world.now += wait
        self._same(
            lambda: self.admin.retire(limit),
            lambda _: admin.retire(limit),
            lambda sweep: Sweep(sorted(sweep.stale), sorted(sweep.deleted)),
        )

    @rule(duty=st.sampled_from(("fold", "tidy", "prune", "repair")), age=st.sampled_from((0, HOUR, DAY)))
    def sweep(self, duty: str, age: int) -> None:
        if duty == "prune":
            self._same(lambda: self.admin.prune(age), lambda _: feed.prune(age))
        elif duty == "repair":
            self._same(self.jobs.repair_limits, lambda _: jobs.repair_limits())
        else:
            if duty == "tidy":
                self.admin.tidy(age)
            plan = admin.fold() if duty == "fold" else admin.tidy(age)
            swept = [party.run(plan, self.world.now) for party in self.parties]
            assert len(set(swept)) == 1, f"{duty} found so many: {swept}"

    # Schedules

    @rule(
        key=schedule_keys,
        kind=st.sampled_from((Kind.INTERVAL, Kind.INTERVAL, Kind.ONCE)),
        next_run=st.none() | st.sampled_from((-SECOND, 0, SECOND, HOUR)),
        enabled=st.sampled_from((True, True, True, False)),
        revision=st.sampled_from((None, None, 0, 1, 2)),
    )
    def declare(self, key: str, kind: Kind, next_run: int | None, enabled: bool, revision: int | None) -> None:
        at = None if next_run is None else self.world.now + next_run
        schedule = Schedule(key, KEYS[0], kind, "3600", enabled=enabled, next_run_at=at)
        self._same(
            lambda: self.schedules.save(schedule, revision),
            lambda _: schedules.save(schedule, by="me", revision=revision),
        )

    @rule(key=schedule_keys, until=st.none() | st.just(HOUR), order=st.sampled_from(("pause", "resume", "remove")))
    def hold_up(self, key: str, until: int | None, order: str) -> None:
        if order == "remove":
            self._same(lambda: self.schedules.remove(key), lambda _: schedules.remove(key, by="me"))
        else:
            pause = Pause("holiday", "me", self.world.now, until and self.world.now + until)
            wanted = pause if order == "pause" else None
            self._same(lambda: self.schedules.pause(key, wanted), lambda _: schedules.pause(key, wanted, by="me"))

    @rule(
        key=schedule_keys,
        instants=st.lists(st.sampled_from((0, 1, -HOUR, HOUR)), min_size=1, max_size=3),
        following=st.none() | st.just(HOUR),
        overlap=st.sampled_from(sorted(Overlap)),
        stale=st.sampled_from((0, 0, 0, 1)),
        lane=st.none() | some,
    )
    def tick(
        self, key: str, instants: list[int], following: int | None, overlap: str, stale: int, lane: int | None
    ) -> None:
        for each in instants:
            row, at = self.world.schedules.get(key), self.world.now + each
            tick = Tick(key, row.revision - stale if row else 1, at, following and at + following, passed_over=stale)
            self._tick(tick, None if lane is None else self._draft(lane), overlap)

    @rule(number=some)
    def tick_again(self, number: int) -> None:
        if self.ticked:
            self._tick(*_pick(self.ticked, number))

    # Time

    @rule(by=st.sampled_from((0, 1, SECOND, -SECOND, 10 * SECOND, HOUR)))
    def advance(self, by: int) -> None:
        self.world.now += by

    def _register(self, definition: Definition) -> None:
        pair = definition.key, definition.version
        (lane,) = self.admin.register([definition]).values()
        for party in self.parties:
            party.lanes[lane] = party.run(admin.register([definition]), self.world.now)[pair]

    def _reclaim(self, chance: float) -> None:
        self._same(lambda: _sorted(self.jobs.reclaim(SECOND, chance)), lambda _: jobs.reclaim(SECOND, chance), _sorted)

    def _new_worker(self, lease: int) -> None:
        worker = WorkerInfo(self._new_id(), "worker", "here", 1, lanes=())
        self._same(lambda: self.jobs.register_worker(worker, lease), lambda _: jobs.register_worker(worker, lease))

    def _draft(self, lane: int, **options: Any) -> Draft:
        number = _pick(list(self.world.lanes), lane)
        facts = {"params": "{}", "priority": 10, "max_attempts": 2, "params_digest": "same", "idempotency_life": DAY}
        key = self.world.lanes[number][0]
        return Draft(id=self._new_id(), lane=number, definition=key, **{**facts, **options})

    def _create(self, drafts: Sequence[Draft]) -> None:
        self.drafts.extend(drafts)
        self.expected.created.extend(draft.id for draft in drafts if draft.id not in self.expected.created)
        self._same(
            lambda: self.jobs.create(drafts), lambda party: jobs.create([party.draft(draft) for draft in drafts])
        )

    def _tick(self, tick: Tick, draft: Draft | None, overlap: str) -> None:
        self.ticked.append((tick, draft, overlap))
        if draft is not None and draft.id not in self.expected.created:
            self.expected.created.append(draft.id)
        self._same(self.schedules.due, lambda _: schedules.due(), lambda found: [row.schedule.key for row in found])
        self._same(
            lambda: self.schedules.tick(tick, draft, overlap),
            lambda party: schedules.tick(tick, draft and party.draft(draft), overlap),
        )

    def _claim(self, worker: str, lanes: list[int], limit: int, limited: list[int], start: bool) -> None:
        """How many of the claimable jobs a claim takes is the store's affair; which, and in what order, is not."""
        claimable = self.jobs.claimable(lanes, limit, limited)
        answers = []
        for party in self.parties:
            plan = jobs.claim(worker, party.lane(lanes), limit, limited=party.lane(limited), start=start)
            answers.append(found := party.ask(plan, self.world.now, party.claimed))
            assert found or not claimable, f"{party.name} gives nothing, although there is {claimable[0].id}"
        first = answers[0]
        taken = claimable[: 0 if isinstance(first, Raised) else len(first)]
        expected = answer(lambda: self.jobs.claim(worker, taken, start=start))
        for party, found in zip(self.parties, answers, strict=True):
            assert found == expected, f"{party.name}\n  store: {found}\n  model: {expected}"
        if not isinstance(expected, Raised):
            self.claims.extend(expected)

    def _claim_anything(self, limit: int) -> list[Claimed]:
        """The newest worker, or a new one if that is gone, takes what it can get."""
        newest = next(reversed(self.world.workers.values()))
        if newest.ended or newest.lease_until <= self.world.now:
            self._new_worker(LEASE)
        lanes, before = list(self.world.lanes), len(self.claims)
        self._claim(next(reversed(self.world.workers)), lanes, limit, lanes, True)
        return self.claims[before:]

    def _ending(self, claimed: Claimed, trigger: Trigger, retryable: bool, delay: int | None) -> Settlement:
        """What a worker would hand in, from what it was told when it claimed."""
        failure = Failure("ValueError", "broken", "Traceback", "fingerprint") if trigger in _BAD else None
        outcome = Outcome(
            trigger, CAUSES[trigger], result=None if failure else '"done"', failure=failure, retryable=retryable,
            delay=delay, note="note", data="{}", usage=Usage(exit_code=1, cpu_seconds=0.5),
        )  # fmt: skip
        standing = Standing(claimed.attempt, claimed.max_attempts, claimed.lost)
        return decide(claimed.job_id, claimed.fence, outcome, standing, Fixed(10), 0.5)

    def _same(
        self,
        model: Callable[[], Any],
        plan: Callable[[Party], Plan[Any]],
        form: Callable[[Any], Any] = lambda found: found,
    ) -> None:
        """The verb answers the same everywhere."""
        expected = answer(model)
        for party in self.parties:
            found = party.ask(plan(party), self.world.now, form)
            if isinstance(found, Raised) and isinstance(expected, Raised) and expected.job_id == "several":
                found = replace(found, job_id="several")
            assert found == expected, f"{party.name}\n  store: {found}\n  model: {expected}"

    def _new_id(self) -> str:
        """Ids of which the later one is not always the greater one."""
        self.numbers += 1
        return f"{self.numbers * 7919 % 10_007:08x}-0000-7000-8000-{self.numbers:012x}"

    def _ids(self, numbers: Sequence[int], wanted: Collection[Status]) -> list[str]:
        """Jobs that mostly stand where they are wanted; sometimes any, also such as are gone."""
        fitting = [job.id for job in self.world.jobs.values() if job.told(self.world.now) in wanted]
        pools = [fitting if fitting and number % 4 else self.expected.created for number in numbers]
        return [_pick(pool, number) for pool, number in zip(pools, numbers, strict=True) if pool]

    def _claimed(self, number: int) -> Claimed:
        """A claim that mostly still holds, and sometimes is an old one of a job that is held by another."""
        live = {job.id: job.fence for job in self.world.jobs.values() if job.status in LIVE}
        holding = [each for each in self.claims if live.get(each.job_id) == each.fence]
        outlived = [each for each in self.claims if live.get(each.job_id, 0) > each.fence]
        return _pick((holding if number % 4 else outlived) or self.claims, number // 4)

    def _held(self, number: int) -> Held:
        claimed = self._claimed(number)
        return Held(claimed.job_id, claimed.fence)


def _pick(items: Sequence[T], number: int) -> T:
    return items[-1 - number % len(items)]


def _sorted(reclaimed: Any) -> dict[str, list[str]]:
    names = ("workers", "lost", "released", "cancelled", "failed")
    return {name: sorted(getattr(reclaimed, name)) for name in names}
