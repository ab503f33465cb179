"""Random histories of commands on stores and model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from penstock.domain.definition import Definition, Pause, RateLimit
from penstock.domain.instant import DAY, HOUR, SECOND, from_datetime
from penstock.domain.retry import Backoff, Fixed
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, Tick
from penstock.domain.states import ACTIVE, ENDINGS, LIVE, PENDING, TERMINAL, Status, Trigger
from penstock.storage.commands import admin, control, feed, jobs, schedules
from tests.storage.history import History, pick
from tests.storage.kit import LEASE
from tests.storage.liveness import Terms
from tests.storage.model import AGEING, STRICT_PRIORITY

KEYS = ("mail", "report")
AHEAD = (0, 0, 1, 4)
TURNS = Definition("turns")
RATES = (RateLimit(1, 10), RateLimit(2, 10), RateLimit(1, 10, per_key=True), RateLimit(2, 10, per_key=True))
some = st.integers(0, 11)
few = st.lists(some, min_size=1, max_size=3, unique=True)
maybe = st.sampled_from((None, "a", "a", "b"))
waits = st.sampled_from((0, HOUR, DAY, 8 * DAY))
delays = st.sampled_from((0, 0, 0, SECOND, HOUR))
phases = st.tuples(st.integers(0, 2), st.sampled_from(("running", "completed", "completed", "failed")))
endings = st.lists(st.tuples(some, st.sampled_from(sorted(ENDINGS))), min_size=1, max_size=4)
turns = st.builds(
    Definition,
    st.just("turns"),
    concurrency=st.integers(0, 2),
    key_concurrency=st.integers(0, 2),
    rate_limit=st.sampled_from((None, RateLimit(1, 2), RateLimit(1, 2, per_key=True))),
)
schedule_keys = st.sampled_from(("daily", "daily", "later"))


class StoreMachine(History):
    """What may happen: every verb, and some chains of verbs that chance alone would hardly bring about."""

    @initialize(
        ageing=st.sampled_from((AGEING, STRICT_PRIORITY, 30 * SECOND)),
        slots=st.integers(2, 4),
        ahead=st.sampled_from(AHEAD),
        inline=st.sampled_from(((), ("call",), (KEYS[1], "crowd"))),
        crashes=st.sampled_from((0, 0, 1, 2)),
        resumes=st.booleans(),
        everywhere=st.sampled_from((*[False] * 9, True)),
        turns=turns,
    )
    def begin(
        self,
        ageing: int = AGEING,
        crashes: int = 0,
        resumes: bool = False,
        everywhere: bool = True,
        turns: Definition = TURNS,
        **terms: Any,
    ) -> None:
        self.open(ageing)
        self.terms, self.turns, self.crashes = Terms(**terms), turns, crashes
        self.resumes, self.everywhere = resumes, everywhere
        self.register(Definition(KEYS[0], backoff=Fixed(10), hooks=("on_fail", "on_end")))
        for version in (1, 2):
            self.register(Definition(KEYS[1], version, backoff=Fixed(10), concurrency=2, key_concurrency=1))
        self.new_worker(LEASE)
        self.make([self.draft(lane) for lane in range(6)])
        self.take_anything(2)

    # What code and operators say about definitions

    @rule(
        key=st.sampled_from((*KEYS, "rare")),
        version=st.integers(1, 3),
        concurrency=st.sampled_from((0, 0, 1, 2)),
        key_concurrency=st.sampled_from((0, 1, 2)),
        stale_after=st.sampled_from((HOUR, DAY, 7 * DAY)),
        delete_after=st.sampled_from((0, HOUR, 7 * DAY)),
        backoff=st.sampled_from((Fixed(10), Backoff(base=5, jitter=0.2))),
        rate_limit=st.sampled_from((None, None, None, *RATES)),
        hooks=st.sampled_from(((), ("on_end",), ("on_fail", "on_end"))),
    )
    def define(self, key: str, **options: Any) -> None:
        self.register(Definition(key=key, **options))

    @rule(
        key=st.sampled_from((*KEYS, *KEYS, "*", "unknown")),
        order=st.sampled_from(("pause", "resume", "resume", "enable", "enable", "disable")),
        until=st.none() | st.sampled_from((SECOND, HOUR)),
    )
    def order(self, key: str, order: str, until: int | None) -> None:
        if order in ("pause", "resume"):
            pause = Pause("maintenance", "me", self.world.now, until and self.world.now + until)
            wanted = pause if order == "pause" else None
            self.same(lambda: self.control.pause(key, wanted), lambda _: control.pause(key, wanted, by="me"))
        else:
            allowed = order == "enable"
            self.same(lambda: self.control.enable(key, allowed), lambda _: control.enable(key, allowed, by="me"))

    @rule(
        key=st.sampled_from((*KEYS, "unknown")),
        overrides=st.dictionaries(st.sampled_from(("concurrency", "key_concurrency")), st.integers(0, 2)),
    )
    def override(self, key: str, overrides: dict[str, int]) -> None:
        self.same(lambda: self.control.override(key, overrides), lambda _: control.override(key, overrides, by="me"))

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
        drafts = [self.draft(lane, tags=tuple(tags), due=at, **facts, **options) for lane in lanes]
        self.make([*drafts[:-1], replace(drafts[-1], params_digest=digest)])

    @rule(lanes=st.lists(some, min_size=1, max_size=5), delay=delays, concurrency_key=maybe)
    def create_plain(self, lanes: list[int], **options: Any) -> None:
        self.make([self.draft(lane, **options) for lane in lanes])

    @rule(number=some)
    def create_again(self, number: int) -> None:
        if self.drafts:
            self.make([pick(self.drafts, number)])

    @rule(wait=st.sampled_from((0, SECOND, 10 * SECOND, HOUR)), limit=st.sampled_from((1, 5, 5)))
    def promote(self, wait: int, limit: int) -> None:
        self.world.now += wait
        self.same(self.jobs.next_due, lambda _: jobs.next_due())
        self.same(lambda: self.jobs.promote(limit), lambda _: jobs.promote(limit), set)

    # Workers and their attempts

    @rule(what=st.sampled_from(("new", "short", "heartbeat", "heartbeat", "end")), number=some)
    def worker(self, what: str, number: int) -> None:
        worker = pick(list(self.world.workers), number)
        if what == "heartbeat":
            self.same(
                lambda: self.jobs.heartbeat(worker, LEASE),
                lambda _: jobs.heartbeat(worker, LEASE),
                lambda pulse: set(pulse.cancels),
            )
        elif what == "end":
            self.same(lambda: self.jobs.end_worker(worker), lambda _: jobs.end_worker(worker))
        else:
            self.new_worker(LEASE if what == "new" else SECOND)

    @rule(
        number=st.integers(0, 2),
        skipped=st.lists(some, max_size=1),
        limit=st.integers(1, 5),
        limited=st.sampled_from((True, True, True, False)),
        start=st.booleans(),
    )
    def claim(self, number: int, skipped: list[int], limit: int, limited: bool, start: bool) -> None:
        worker = pick(list(self.world.workers), number)
        lanes = [lane for lane in self.world.lanes if lane % 12 not in skipped]
        self.take(worker, lanes, limit, lanes if limited else [], start)

    @rule(endings=endings, retryable=st.booleans(), delay=st.none() | st.sampled_from((0, HOUR)))
    def work(self, endings: list[tuple[int, Trigger]], retryable: bool, delay: int | None) -> None:
        """A worker takes what it can get and does it."""
        claimed = self.take_anything(len(endings))
        triggers = [trigger for _, trigger in endings]
        done = [self.ending(*each, retryable, delay) for each in zip(claimed, triggers, strict=False)]
        self.end(done)

    @rule(
        key=st.sampled_from(("a", "a", None)),
        number=st.integers(2, 4),
        rate=st.sampled_from((None, *RATES)),
        key_concurrency=st.integers(0, 2),
        priority=st.sampled_from((10, 10, 20)),
        claims=st.lists(
            st.tuples(st.sampled_from((-2 * SECOND, 0, 5 * SECOND, 10 * SECOND)), st.integers(1, 4), st.booleans()),
            min_size=1,
            max_size=4,
        ),
    )
    def rush(
        self,
        key: str | None,
        number: int,
        rate: RateLimit | None,
        key_concurrency: int,
        priority: int,
        claims: list[tuple[int, int, bool]],
    ) -> None:
        """Jobs of one key come together, and workers take them as their rate and their key allow."""
        self.register(Definition("call", rate_limit=rate, key_concurrency=key_concurrency))
        lane = next(lane for lane, (name, _) in self.world.lanes.items() if name == "call")
        self.make([self.draft_of(lane, concurrency_key=key, priority=priority) for _ in range(number)])
        for wait, limit, swept in claims:
            self.promote(wait, 5)
            if swept:
                self.same(self.jobs.repair_limits, lambda _: jobs.repair_limits())
            self.end([self.ending(each, Trigger.SUCCEED, True, None) for each in self.take_anything(limit)])

    @rule(numbers=few, other=st.booleans())
    def start(self, numbers: list[int], other: bool) -> None:
        held = [self.held(number) for number in numbers]
        if other:
            held.append(self.by_another(held[0]))
        self.same(lambda: self.jobs.start(held), lambda _: jobs.start(held))

    @rule(
        endings=endings,
        retryable=st.booleans(),
        delay=st.none() | st.sampled_from((0, HOUR)),
        by_newest=st.sampled_from((False, False, True)),
    )
    def settle(self, endings: list[tuple[int, Trigger]], retryable: bool, delay: int | None, by_newest: bool) -> None:
        """The workers hand in endings of theirs, or the newest one those of all."""
        done = [self.ending(self.claimed(number), trigger, retryable, delay) for number, trigger in endings]
        if by_newest:
            self.end_for(next(reversed(self.world.workers)), done)
        else:
            self.end(done)

    @rule(
        numbers=few, percent=st.sampled_from((-1.0, 0.0, 33.5, 250.0)), message=maybe, phase=maybe, other=st.booleans()
    )
    def progress(self, numbers: list[int], percent: float, message: str | None, phase: str | None, other: bool) -> None:
        reports = [(self.held(number), percent, message, phase) for number in numbers]
        if other:
            reports.append((self.by_another(reports[0][0]), 1.0, "stale", None))
        self.same(lambda: self.jobs.save_progress(reports), lambda _: jobs.save_progress(reports))

    @rule(number=some, saved=st.lists(phases, min_size=1, max_size=4), message=maybe, ended=st.booleans())
    def run_phases(self, number: int, saved: list[tuple[int, str]], message: str | None, ended: bool) -> None:
        held = self.held(number)
        for position, status in saved:
            self.save_phase(held, position, status, message)
        self.same(lambda: self.jobs.emit(held, "mail.sent"), lambda _: jobs.emit(held, "mail.sent", '{"to": 1}'))
        if ended:
            self.settle([(number, Trigger.FAIL)], False, None, False)

    @rule(number=st.integers(0, 2), kept=st.lists(some, max_size=3, unique=True))
    def release_unheld(self, number: int, kept: list[int]) -> None:
        worker = pick(list(self.world.workers), number)
        mine = [job.held for job in self.world.jobs.values() if job.worker == worker]
        held = [pick(mine, each) for each in kept] if mine else []
        self.same(lambda: self.jobs.release_unheld(worker, held), lambda _: jobs.release_unheld(worker, held), set)

    @rule(
        lost=st.integers(0, 3),
        started=st.booleans(),
        wait=st.sampled_from((0, LEASE + SECOND // 2)),
        chance=st.sampled_from((0.0, 0.5)),
    )
    def reclaim(self, lost: int, started: bool, wait: int, chance: float) -> None:
        """A worker claims and is gone, so many times."""
        for _ in range(lost):
            claimed = self.take_anything(3, start=started)
            if started:
                self.begin_all(claimed)
            self.world.now += LEASE + 2 * SECOND
            self.rescue(chance)
            self.promote(HOUR, 5)
        self.world.now += wait
        self.rescue(chance)

    @rule(trigger=st.sampled_from(sorted(ENDINGS)), first=st.sampled_from(("start", "progress", "settle")))
    def wake_up_late(self, trigger: Trigger, first: str) -> None:
        """A worker sleeps past its lease, another one gets its jobs, and then it goes on as if nothing had happened."""
        old = self.take_anything(3)
        self.world.now += LEASE + 2 * SECOND
        self.rescue(0.5)
        self.promote(HOUR, 5)
        self.take_anything(5)
        held = [self.name(each) for each in old]
        done = [self.ending(each, trigger, True, None) for each in old]
        if first == "start":
            self.begin_all(old)
        elif first == "progress":
            reports = [(each, 1.0, "late", None) for each in held]
            self.same(lambda: self.jobs.save_progress(reports), lambda _: jobs.save_progress(reports))
        self.end(done)

    # Operators and jobs

    @rule(numbers=few, by=maybe)
    def cancel(self, numbers: list[int], by: str | None) -> None:
        self.cancel_all(self.ids(numbers, ACTIVE), by)

    @rule(endings=endings)
    def cancel_what_runs(self, endings: list[tuple[int, Trigger]]) -> None:
        self.cancel_all([job.id for job in self.world.jobs.values() if job.status in LIVE])
        self.settle(endings, True, None, False)

    @rule(numbers=few, from_position=st.none() | st.integers(0, 2))
    def retry(self, numbers: list[int], from_position: int | None) -> None:
        self.retry_all(self.ids(numbers, TERMINAL), from_position)

    @rule(numbers=few, wait=waits, retired=st.booleans(), from_position=st.none() | st.integers(0, 2))
    def live_again(self, numbers: list[int], wait: int, retired: bool, from_position: int | None) -> None:
        """Jobs end, perhaps grow stale, are retried, end again, and grow stale again."""
        ids = self.ids(numbers, TERMINAL)
        self.world.now += wait
        if retired:
            self.retire(1000)
        self.retry_all(ids, from_position)
        self.end([self.ending(each, Trigger.FAIL, False, None) for each in self.take_anything(5)])
        self.world.now += wait
        self.retire(1000)

    @rule(key=st.sampled_from(("a", "b")), first=st.booleans(), ended=st.booleans())
    def rival(self, key: str, first: bool, ended: bool) -> None:
        """Two jobs want the same unique key, one after the other, and then the first one again."""
        one, other = self.draft(0, unique=key), self.draft(0, unique=key, idempotency_key=key)
        for draft in (one, other):
            self.make([draft])
            if first:
                self.cancel_all([draft.id])
                first = ended
        self.retry_all([one.id, other.id])

    @rule(number=some, delay=delays, absolute=st.booleans())
    def reschedule(self, number: int, delay: int, absolute: bool) -> None:
        due = self.world.now + delay - SECOND if absolute else None
        (job_id,) = self.ids([number], PENDING)
        self.same(
            lambda: self.control.reschedule(job_id, due, delay),
            lambda _: control.reschedule(job_id, due=due, delay=delay),
        )

    @rule(numbers=few, priority=st.sampled_from((0, 10, 20)))
    def reprioritise(self, numbers: list[int], priority: int) -> None:
        ids = self.ids(numbers, PENDING)
        self.same(lambda: self.control.reprioritise(ids, priority), lambda _: control.reprioritise(ids, priority))

    @rule(
        number=some,
        note=maybe,
        result=st.none() | st.just('"edited"'),
        verdict=st.sampled_from(("finished", "go on", "no")),
    )
    def review(self, number: int, note: str | None, result: str | None, verdict: str) -> None:
        (job_id,) = self.ids([number], {Status.REVIEW_NEEDED})
        if verdict == "no":
            self.same(
                lambda: self.control.reject(job_id, "me", note), lambda _: control.reject(job_id, by="me", note=note)
            )
        else:
            facts: Any = {"by": "me", "note": note, "result": result, "finished": verdict == "finished"}
            self.same(lambda: self.control.approve(job_id, **facts), lambda _: control.approve(job_id, **facts))

    @rule(numbers=few)
    def delete(self, numbers: list[int]) -> None:
        ids = self.ids(numbers, TERMINAL)
        self.same(lambda: self.control.delete(ids), lambda _: control.delete(ids))

    # Duties

    @rule(waits=st.lists(waits, min_size=1, max_size=3), limit=st.sampled_from((2, 1000)))
    def retain(self, waits: list[int], limit: int) -> None:
        for wait in waits:
            self.world.now += wait
            self.retire(limit)

    @rule(duty=st.sampled_from(("fold", "tidy", "prune", "repair")), age=st.sampled_from((0, HOUR, DAY)))
    def sweep(self, duty: str, age: int) -> None:
        if duty == "prune":
            self.same(lambda: self.admin.prune(age), lambda _: feed.prune(age))
        elif duty == "repair":
            self.same(self.jobs.repair_limits, lambda _: jobs.repair_limits())
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
        row = self.world.schedules.get(key)
        mark = from_datetime(row.last_scheduled_at, "mark") if row and row.last_scheduled_at else self.world.now
        at = None if next_run is None else mark + next_run
        schedule = Schedule(key, KEYS[0], kind, "3600", enabled=enabled, next_run_at=at)
        self.same(
            lambda: self.schedules.save(schedule, revision),
            lambda _: schedules.save(schedule, by="me", revision=revision),
        )

    @rule(
        key=schedule_keys,
        order=st.sampled_from(("pause", "resume", "remove")),
        until=st.none() | st.just(HOUR),
        wait=st.sampled_from((0, HOUR)),
    )
    def hold_up(self, key: str, order: str, until: int | None, wait: int) -> None:
        if order == "remove":
            self.same(lambda: self.schedules.remove(key), lambda _: schedules.remove(key, by="me"))
        else:
            pause = Pause("holiday", "me", self.world.now, until and self.world.now + until)
            wanted = pause if order == "pause" else None
            self.same(lambda: self.schedules.pause(key, wanted), lambda _: schedules.pause(key, wanted, by="me"))
        self.world.now += wait
        self.look_what_is_due()

    @rule(
        key=schedule_keys,
        instants=st.lists(st.sampled_from((0, 1, -HOUR, HOUR)), min_size=1, max_size=3),
        following=st.none() | st.just(HOUR),
        overlap=st.sampled_from(sorted(Overlap)),
        stale=st.sampled_from((0, 0, 0, 1)),
        lane=st.sampled_from((None, 0, 1, 2, 3)),
        claimed=st.booleans(),
    )
    def tick(
        self,
        key: str,
        instants: list[int],
        following: int | None,
        overlap: str,
        stale: int,
        lane: int | None,
        claimed: bool,
    ) -> None:
        if key not in self.world.schedules:
            self.declare(key, Kind.INTERVAL, 0, True, None)
        for each in instants:
            if claimed:
                self.take_anything(5)
            row, at = self.world.schedules.get(key), self.world.now + each
            tick = Tick(key, row.revision - stale if row else 1, at, following and at + following, passed_over=stale)
            self.make_tick(tick, None if lane is None else self.draft(lane), overlap)

    @rule(number=some)
    def tick_again(self, number: int) -> None:
        if self.ticked:
            self.make_tick(*pick(self.ticked, number))

    # Time

    @rule(by=st.sampled_from((0, 1, SECOND, -SECOND, 10 * SECOND, HOUR)))
    def advance(self, by: int) -> None:
        self.world.now += by
