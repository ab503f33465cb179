"""Stores that are given the same history, and their comparison with the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.domain.attempt import Phase
from penstock.domain.errors import LeaseLost, PenstockError
from penstock.domain.job import Claimed, Draft, Job
from penstock.domain.outcome import MAX_LOSSES, Cause, Settlement
from penstock.domain.plan import Plan, Statement, Steps, writes
from penstock.domain.states import ACTIVE, LIVE, Status, Trigger
from penstock.storage.commands import admin, feed, jobs, schedules
from tests.storage.model import ModelJob, Told, World, stands

CAUSES = {
    Trigger.SUCCEED: Cause.RETURNED,
    Trigger.FAIL: Cause.RAISED,
    Trigger.SNOOZE: Cause.SNOOZED,
    Trigger.ASK_REVIEW: Cause.REVIEW,
    Trigger.RELEASE: Cause.RELEASED,
    Trigger.LOSE: Cause.LOST,
}


@dataclass(frozen=True)
class Raised:
    """An error in place of an answer."""

    kind: type[PenstockError]
    job_id: str | None


class ComparedStore:
    """One store that takes part, and what it calls the lanes of the model."""

    def __init__(self, name: str, store: Any, end: Callable[[], None]) -> None:
        self.name = name
        self.store = store
        self.end = end
        self.lanes: dict[int, int] = {}
        self.cursor = ""
        self.jobs: dict[str, Job] = {}
        """What was read last, to be compared with what is read next."""
        self.running: Counter[str] = Counter()
        self.admitted: Counter[tuple[str, str]] = Counter()

    def run(self, plan: Plan[Any], now: int) -> Any:
        return self.store.run(plan, now=now)

    def ask(self, plan: Plan[Any], now: int, form: Callable[[Any], Any] = lambda found: found) -> Any:
        """What a verb answers or raises, in a form that can be compared."""
        return answer(lambda: form(self.run(plan, now)))

    def begin(self, now: int, ageing: int) -> None:
        self.run(_keep_ageing(ageing), now)
        self.cursor = self.run(feed.tip(), now)

    def lane(self, lanes: Sequence[int]) -> list[int]:
        return [self.lanes[lane] for lane in lanes]

    def endings(self, done: Sequence[Settlement]) -> list[Settlement]:
        return [each._replace(lane=self.lanes[each.lane]) if each.lane else each for each in done]

    def claimed(self, found: Sequence[Claimed]) -> list[Claimed]:
        """What was claimed, in the lanes of the model."""
        ours = {theirs: lane for lane, theirs in self.lanes.items()}
        return [each._replace(lane=ours[each.lane]) for each in found]

    def draft(self, draft: Draft) -> Draft:
        return replace(draft, lane=self.lanes[draft.lane])

    def news(self, now: int) -> list[tuple[Told, Any]]:
        """The events since the last call, each with what it tells."""
        found, self.cursor = self.read(self.cursor, now, limit=5)
        return found

    def calls(self, now: int) -> list[tuple[str, str, int]]:
        """The hooks to be called since the last call of this."""
        found = self.run(jobs.take_hooks(list(self.lanes.values()), 10_000), now)
        return sorted((each.job_id, each.kind, each.fence) for each in found)

    def read(self, cursor: str, now: int, limit: int) -> tuple[list[tuple[Told, Any]], str]:
        found: list[tuple[Told, Any]] = []
        more = True
        while more:
            news = self.run(feed.read(cursor, limit), now)
            cursor, more = news.cursor, news.more
            for each in news.events:
                told = Told(each.job_id or each.subject, each.type, each.fence, each.at)
                found.append((told, None if each.data_text is None else json.loads(each.data_text)))
        return found, cursor


@dataclass
class Expectation:
    """What the model says a store should show, and the comparison with what it shows."""

    world: World
    created: list[str] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Jobs that were changed without an event."""

    def compare(self, parties: Sequence[ComparedStore], *, everything: bool) -> None:
        world = self.world
        news, world.news = world.news, []
        calls, world.calls = world.calls, []
        touched = {*self.created} if everything else {*self.touched, *(each.subject for each in news)}
        touched &= set(world.jobs)
        self.touched.clear()
        told: list[dict[str, list[Any]]] = []
        for party in parties:
            found = party.news(world.now)
            _same(_by_subject(each for each, _ in found), _by_subject(news), f"{party.name}: events")
            told.append(_by_subject(found))
            _same(party.calls(world.now), sorted(calls), f"{party.name}: hooks")
            self._compare_jobs(party, touched, everything=everything)
            if everything:
                self._compare_records(party)
        assert all(each == told[0] for each in told), f"the stores tell different stories: {told}"

    def _compare_jobs(self, party: ComparedStore, touched: set[str], *, everything: bool) -> None:
        world, now = self.world, self.world.now
        read = party.run(admin.get(self.created), now)
        _same(read, [world.read(world.jobs[each]) for each in self.created if each in world.jobs], party.name)
        for job_id in sorted(touched):
            job = world.jobs[job_id]
            attempts = [replace(job.attempts[each], phases=_tries(job, each)) for each in sorted(job.attempts)]
            _same(party.run(admin.attempts(job_id), now), attempts, f"{party.name}: attempts")
            if job.phases or everything:
                phases = sorted(job.phases.values(), key=lambda each: (each.position, each.name))
                _same(party.run(jobs.phases(job_id), now), phases, f"{party.name}: phases")
            if job.reviews or everything:
                reviews = sorted(job.reviews.values(), key=lambda each: each.fence)
                _same(party.run(admin.reviews(job_id), now), reviews, f"{party.name}: reviews")
        _same(counted(party.run(admin.counts(), now)), recount(world), f"{party.name}: counts")
        keep_promises(party, read, world)

    def _compare_records(self, party: ComparedStore) -> None:
        """What is too much to look at after every step."""
        world, now = self.world, self.world.now
        whole, _ = party.read(party.run(feed.origin(), now), now, limit=50)
        _same(_by_subject(each for each, _ in whole), _by_subject(world.events), f"{party.name}: all events")
        for job_id in self.created[-10:]:
            told = [(each.type, each.fence) for each in party.run(feed.of_job(job_id), now)]
            expected = [(each.kind, each.fence) for each in world.events if each.subject == job_id]
            _same(told, expected, f"{party.name}: events of {job_id}")
        for job_id in {*self.created} - set(world.jobs):
            left = [party.run(verb(job_id), now) for verb in (admin.attempts, jobs.phases, admin.reviews)]
            assert left == [[], [], []], f"{party.name}: {job_id} is gone and left {left}"
        _same(_operators(party, now), _operators_of(world), f"{party.name}: definitions")
        _same(party.run(schedules.all(), now), sorted_rows(world), f"{party.name}: schedules")
        for key, ticks in world.ticks.items():
            newest = [ticks[instant] for instant in sorted(ticks, reverse=True)]
            _same(party.run(schedules.ticks(key, len(newest) + 1), now), newest, f"{party.name}: ticks")


def answer(call: Callable[[], Any]) -> Any:
    """What a call answers or raises, as something that can be compared."""
    try:
        return call()
    except PenstockError as error:
        return Raised(type(error), None if isinstance(error, LeaseLost) else getattr(error, "job_id", None))


def recount(world: World) -> dict[tuple[str, int], dict[Status, int]]:
    """I19: how many jobs there are of each kind in each stored status."""
    counts: dict[tuple[str, int], Counter[Status]] = {}
    for job in world.jobs.values():
        counts.setdefault(world.lanes[job.draft.lane], Counter())[job.status] += 1
    return {pair: dict(each) for pair, each in counts.items()}


def counted(counts: dict[tuple[str, int], dict[Status, int]]) -> dict[tuple[str, int], dict[Status, int]]:
    """The same without the zeros."""
    some = {pair: {status: n for status, n in each.items() if n} for pair, each in counts.items()}
    return {pair: each for pair, each in some.items() if each}


def sorted_rows(world: World) -> list[Any]:
    return [world.schedules[key] for key in sorted(world.schedules)]


def keep_promises(party: ComparedStore, read: Sequence[Job], world: World) -> None:
    """Invariants that need no model of a verb (reliability.md, C.2)."""
    unique: Counter[tuple[str, str]] = Counter()
    running: Counter[str] = Counter()
    admitted: Counter[tuple[str, str]] = Counter()
    for job in read:
        before = party.jobs.get(job.id, job)
        assert job.fence >= before.fence, f"I3: the fence of {job.id} fell"
        assert (job.worker_id is not None) == (job.status in LIVE), f"I3: {job.status} and {job.worker_id}"
        if before.outcome is not None and before.generation == job.generation:
            assert job.outcome is before.outcome, f"I6: {job.id} was {before.outcome} and is {job.outcome}"
        approved = sum(each.decision == "approved" for each in world.jobs[job.id].reviews.values())
        assert 0 <= job.attempts <= min(job.fence, job.max_attempts + approved), "I7: no attempt too many"
        assert job.lost <= MAX_LOSSES, "I7: losses have a limit"
        running[job.definition_key] += job.status in LIVE
        if job.concurrency_key is not None:
            admitted[job.definition_key, job.concurrency_key] += world.jobs[job.id].admitted
        if job.unique is not None:
            unique[job.definition_key, job.unique] += job.status in ACTIVE
    assert max(unique.values(), default=0) <= 1, f"I11: {unique}"
    assert len(read) == len(world.jobs), "I19: no job is lost"
    for key, definition in world.definitions.items():
        limit = definition.limit("concurrency") or len(read)
        assert running[key] <= max(limit, party.running[key]), f"I10: {running[key]} of {key} run, {limit} may"
    for name, count in admitted.items():
        limit = world.definitions[name[0]].limit("key_concurrency") or len(read)
        assert count <= max(limit, party.admitted[name]), f"I10: {count} of {name} are admitted, {limit} may"
    party.jobs, party.running, party.admitted = {job.id: job for job in read}, running, admitted


def _operators(party: ComparedStore, now: int) -> dict[tuple[str, int], Any]:
    rows = party.run(admin.definitions(), now)
    return {
        (row.definition.key, row.definition.version): (row.definition, row.enabled, row.pause, row.overrides)
        for row in rows
    }


def _operators_of(world: World) -> dict[tuple[str, int], Any]:
    return {
        (key, version): (
            definition, each.enabled, each.pause if stands(each.pause, world.now) else None, each.overrides,
        )
        for key, each in world.definitions.items()
        for version, definition in each.versions.items()
    }  # fmt: skip


def _tries(job: ModelJob, fence: int) -> tuple[Phase, ...]:
    mine = [each for each in job.tries.values() if each.fence == fence]
    return tuple(sorted(mine, key=lambda each: (each.position, each.name)))


def _by_subject(told: Any) -> dict[str, list[Any]]:
    """Events in the order that means something: one job's, one worker's, one schedule's."""
    found: dict[str, list[Any]] = {}
    for each in told:
        event: Told = each if isinstance(each, Told) else each[0]
        found.setdefault(event.subject, []).append(each)
    return found


def _same(got: Any, expected: Any, what: str) -> None:
    if got == expected:
        return
    if isinstance(got, list) and len(got) == len(expected):
        got, expected = next((a, b) for a, b in zip(got, expected, strict=True) if a != b)
    if isinstance(got, Job):
        names = [name for name in Job.__dataclass_fields__ if getattr(got, name) != getattr(expected, name)]
        what = f"{what}: job {got.id}"
        got, expected = ({name: getattr(each, name) for name in names} for each in (got, expected))
    raise AssertionError(f"{what}\n  store: {got}\n  model: {expected}")


@writes
def _keep_ageing(interval: int) -> Steps[None]:
    yield Statement("save_ageing", {"interval": str(interval), "by": "me"})
