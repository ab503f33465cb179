"""What a store should do, in plain Python: the reference that the state machine holds the real stores against.

It is written from the docstrings of `penstock.domain.ports` and the table of states, not from the SQL. The
`World` is what there is; the ports that change it stand beside it, each a class of its own. Every move of a job
passes through `World.move`, which refuses what the table does not allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from penstock.domain import event as kinds
from penstock.domain.attempt import Attempt, Phase, Review
from penstock.domain.definition import Definition, Pause, RateLimit
from penstock.domain.errors import LeaseLost
from penstock.domain.instant import SECOND, from_datetime, maybe_datetime, to_datetime
from penstock.domain.job import Draft, Held, Job
from penstock.domain.schedule.schedule import ScheduleRow
from penstock.domain.states import ACTIVE, LIVE, Status, Trigger, allowed
from penstock.domain.worker import WorkerInfo

AGEING = 600 * SECOND
STRICT_PRIORITY = 10**15
HOOKED = {kinds.SUCCEEDED, kinds.FAILED, kinds.RETRYING, kinds.CANCELLED, kinds.STALE, kinds.DELETED}

Move = tuple[Status | None, Trigger, Status | None]
"""From where, by what, whereto."""


class Told(NamedTuple):
    """An event: whom it is about, what it says."""

    subject: str
    kind: str
    fence: int | None
    at: datetime


@dataclass
class ModelJob:
    """A job; the draft says what never changes."""

    draft: Draft
    status: Status
    priority: int
    due_at: int
    created_at: int
    updated_at: int
    attempt: int = 0
    lost: int = 0
    fence: int = 0
    generation: int = 1
    blocked: bool = False
    rate_paid: bool = False
    """Its rate has put it off, or has a token for it."""
    retired: bool = False
    ageing: int = AGEING
    worker: str | None = None
    queued_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    cancel_at: int | None = None
    stale_at: int | None = None
    retire_at: int | None = None
    progress: tuple[int, float, str | None, str | None] | None = None
    """Fence, percent, message, phase."""
    attempts: dict[int, Attempt] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    tries: dict[tuple[int, str], Phase] = field(default_factory=dict)
    """By fence and name, without results."""
    reviews: dict[int, Review] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.draft.id

    @property
    def limit_key(self) -> tuple[str, str] | None:
        key = self.draft.concurrency_key
        return None if key is None else (self.draft.definition, key)

    @property
    def unique_key(self) -> tuple[str, str] | None:
        return None if self.draft.unique is None else (self.draft.definition, self.draft.unique)

    @property
    def rank(self) -> tuple[int, str]:
        """The place in the queue: one step of priority outweighs any waiting, or so much as the store says."""
        return self.due_at - self.priority * self.ageing, self.id

    @property
    def admitted(self) -> bool:
        """Whether it takes a slot of its concurrency key: a job that its rate has put off keeps its slot."""
        if self.status is Status.SCHEDULED:
            return self.rate_paid
        return not self.blocked and (self.status in LIVE or self.status is Status.QUEUED)

    @property
    def held(self) -> Held:
        return Held(self.id, self.fence, self.worker or "")

    def told(self, now: int) -> Status:
        """What it reads as: an ended job past its time is stale."""
        return Status.STALE if self.stale_at is not None and self.stale_at <= now else self.status


@dataclass
class ModelDefinition:
    """Everything about one definition key: what code registered, what operators said."""

    versions: dict[int, Definition] = field(default_factory=dict)
    enabled: bool = True
    pause: Pause | None = None
    overrides: dict[str, object] = field(default_factory=dict)

    def limit(self, name: str) -> int:
        """An operator's word, or the newest version's."""
        value = self.overrides.get(name, getattr(self.versions[max(self.versions)], name))
        assert isinstance(value, int)
        return value

    @property
    def limits_of_keys(self) -> tuple[int, RateLimit | None]:
        """The limits that decide how many jobs of a concurrency key are admitted."""
        return self.limit("key_concurrency"), self.rate if self.rate and self.rate.per_key else None

    @property
    def rate(self) -> RateLimit | None:
        return self.versions[max(self.versions)].rate_limit


@dataclass
class ModelWorker:
    info: WorkerInfo
    lease_until: int
    ended: str | None = None


class Bucket(NamedTuple):
    """A rate's bucket: of a definition, or of a concurrency key of one. Another rate has another bucket."""

    definition: str
    key: str | None
    size: int
    period: int

    @staticmethod
    def of(definition: str, key: str | None, rate: RateLimit) -> Bucket:
        return Bucket(definition, key, rate.count, round(rate.period * SECOND))


class Level(NamedTuple):
    """When a bucket is full again, and when that was written."""

    full_at: int
    at: int


@dataclass
class World:
    """All there is, and the few things that every verb does to it."""

    now: int
    ageing: int = AGEING
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    definitions: dict[str, ModelDefinition] = field(default_factory=dict)
    lanes: dict[int, tuple[str, int]] = field(default_factory=dict)
    pause: Pause | None = None
    workers: dict[str, ModelWorker] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[str, str | None, int]] = field(default_factory=dict)
    """(definition, idempotency key) → job, digest of the parameters, expiry."""
    schedules: dict[str, ScheduleRow] = field(default_factory=dict)
    ticks: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    buckets: dict[Bucket, Level] = field(default_factory=dict)
    moves: set[Move] = field(default_factory=set)
    born: set[str] = field(default_factory=set)
    """Every job there ever was."""
    events: list[Told] = field(default_factory=list)
    news: list[Told] = field(default_factory=list)
    """Events that nobody has looked at yet."""
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    """Hooks to be called that nobody has taken yet: job, kind, fence."""

    def tell(self, kind: str, subject: str, fence: int | None = None) -> None:
        told = Told(subject, kind, fence, to_datetime(self.now))
        self.events.append(told)
        self.news.append(told)
        job = self.jobs.get(subject)
        if job is not None and kind in HOOKED and self.definition(job).hooks:
            self.calls.append((job.id, kind, job.fence))

    def definition(self, job: ModelJob) -> Definition:
        key, version = self.lanes[job.draft.lane]
        return self.definitions[key].versions[version]

    def note(self, before: Status | None, trigger: Trigger, after: Status | None) -> None:
        """Refuse a move that the table does not allow."""
        assert after in allowed(before, trigger), f"{before} may not become {after} by {trigger}"
        self.moves.add((before, trigger, after))

    def move(self, job: ModelJob, trigger: Trigger, status: Status) -> None:
        """Bring a job to another status, with what that means for its times."""
        before = job.told(self.now)
        self.note(before, trigger, status)
        if status is Status.QUEUED and before is not Status.QUEUED:
            job.queued_at = self.now
        job.status = status
        job.updated_at = self.now
        job.rate_paid = job.rate_paid and trigger is Trigger.DUE
        job.blocked = status is Status.QUEUED and job.limit_key is not None and not job.rate_paid
        if status not in LIVE:
            job.worker = None
        ended = status not in ACTIVE
        job.finished_at = self.now if ended else None
        job.stale_at = job.retire_at = self.now + self.definition(job).stale_after if ended else None
        job.retired = False

    def remove(self, job: ModelJob) -> None:
        self.note(job.told(self.now), Trigger.DELETE, None)
        self.tell(kinds.DELETED, job.id)
        del self.jobs[job.id]

    def admit(self, keys: Iterable[tuple[str, str] | None]) -> None:
        """Let through as many blocked jobs as their concurrency keys have room for, the best ranked first."""
        for key in {key for key in keys if key is not None}:
            mine = [job for job in self.jobs.values() if job.limit_key == key]
            limit = self.definitions[key[0]].limit("key_concurrency")
            taken = sum(job.admitted for job in mine)
            waiting = sorted((job for job in mine if job.blocked), key=lambda job: job.rank)
            room = max(0, limit - taken) if limit else len(waiting)
            rate = self.definitions[key[0]].rate
            if rate is not None and rate.per_key:
                room = min(room, max(0, max(1, self.tokens(Bucket.of(*key, rate))) - self.unstarted(key)))
            for job in waiting[:room]:
                job.blocked = False

    def unstarted(self, key: tuple[str, str]) -> int:
        """How many admitted jobs of a concurrency key have not started."""
        return sum(job.admitted and job.limit_key == key and job.status not in LIVE for job in self.jobs.values())

    def admit_all(self, definition: str) -> None:
        self.admit(job.limit_key for job in self.jobs.values() if job.draft.definition == definition)

    def spend(self, draft: Draft) -> None:
        """Take a token of the rate of a job's definition, or of its key."""
        rate = self.definitions[draft.definition].rate
        if rate is not None and (draft.concurrency_key is not None or not rate.per_key):
            self.take(Bucket.of(draft.definition, draft.concurrency_key if rate.per_key else None, rate))

    def take(self, bucket: Bucket) -> None:
        full_at = max(self.now, self.full_at(bucket))
        self.buckets[bucket] = Level(full_at + bucket.period // bucket.size, self.now)

    def tokens(self, bucket: Bucket) -> int:
        """Whole tokens there are."""
        missing = max(0, self.full_at(bucket) - self.now)
        return (bucket.period - missing) * bucket.size // bucket.period

    def full_at(self, bucket: Bucket) -> int:
        return self.buckets[bucket].full_at if bucket in self.buckets else 0

    def choose_by_key(self, jobs: Iterable[ModelJob], rate: RateLimit, wanted: int) -> list[ModelJob]:
        """The first jobs whose keys have a token; those before them whose keys have none are put off."""
        chosen: list[ModelJob] = []
        looked_at: Counter[Bucket] = Counter()
        for job in jobs:
            if len(chosen) == wanted:
                break
            bucket = Bucket.of(job.draft.definition, job.draft.concurrency_key, rate)
            if bucket.key is None:
                chosen.append(job)
                continue
            interval = bucket.period // bucket.size
            full_at = max(self.now, self.full_at(bucket)) + looked_at[bucket] * interval
            looked_at[bucket] += 1
            job.rate_paid = True
            if (bucket.period - (full_at - self.now)) * bucket.size >= bucket.period:
                chosen.append(job)
            else:
                job.due_at = max(self.now, full_at - bucket.period - -bucket.period // bucket.size)
                job.status, job.updated_at = Status.SCHEDULED, self.now
        return chosen

    def follow_clock(self, buckets: Iterable[Bucket] | None = None) -> None:
        """After the clock was set back, rates and the jobs that they put off follow it.

        Those that a claim reads, or else all that are a second ahead.
        """
        read = list(self.buckets) if buckets is None else [each for each in buckets if each in self.buckets]
        leads: dict[tuple[str, str | None], int] = {}
        for bucket in read:
            level = self.buckets[bucket]
            lead = level.at - self.now
            if lead > (SECOND if buckets is None else 0):
                self.buckets[bucket] = Level(level.full_at - lead, self.now)
                name = bucket.definition, bucket.key
                leads[name] = max(lead, leads.get(name, 0))
        for job in self.jobs.values():
            if job.status is Status.SCHEDULED and job.rate_paid and job.limit_key in leads:
                job.due_at -= leads[job.limit_key]

    def owned(self, held: Held) -> ModelJob | None:
        """The job that an attempt may still write to."""
        job = self.jobs.get(held.job_id)
        return job if job is not None and job.status in LIVE and job.held == held else None

    def hold(self, held: Held) -> ModelJob:
        job = self.owned(held)
        if job is None:
            raise LeaseLost("The attempt no longer owns its job.", job_id=held.job_id, fence=held.fence)
        return job

    def live(self, worker: str) -> ModelWorker:
        found = self.workers.get(worker)
        if found is None or found.ended or found.lease_until <= self.now:
            raise LeaseLost("The lease of the worker has ended.")
        return found

    def read(self, job: ModelJob) -> Job:
        """The job as it can be read."""
        attempt, review = job.attempts.get(job.fence), job.reviews.get(job.fence)
        result = error = error_type = None
        if attempt:
            result, error, error_type = attempt.result_text, attempt.error, attempt.error_type
        if review and review.result_text is not None:
            result = review.result_text
        if job.status is not Status.SUCCEEDED:
            result = None
        if review and review.decision == "rejected":
            error, error_type = review.decided_note or "Rejected.", "Rejected"
        draft, (key, version) = job.draft, self.lanes[job.draft.lane]
        _, percent, message, phase = job.progress or (None, None, None, None)
        if job.status is Status.SUCCEEDED:
            percent = 100.0
        return Job(
            id=job.id, definition_key=key, definition_version=version, status=job.told(self.now),
            outcome=None if job.status in ACTIVE else job.status, params_text=draft.params, result_text=result,
            error=error, error_type=error_type, attempts=job.attempt, max_attempts=draft.max_attempts, lost=job.lost,
            fence=job.fence, generation=job.generation, priority=job.priority, progress=percent,
            progress_message=message, current_phase=phase, reference_type=draft.reference_type,
            reference_id=draft.reference_id, tags=draft.tags, idempotency_key=draft.idempotency_key,
            concurrency_key=draft.concurrency_key, unique=draft.unique, blocked=job.blocked,
            webhook_url=draft.webhook_url, schedule_id=draft.schedule,
            scheduled_for=maybe_datetime(draft.scheduled_for), parent_id=draft.parent, rerun_of=draft.rerun_of,
            actor=draft.actor, created_at=to_datetime(job.created_at), run_at=to_datetime(job.due_at),
            queued_at=maybe_datetime(job.queued_at), started_at=maybe_datetime(job.started_at),
            finished_at=maybe_datetime(job.finished_at), updated_at=to_datetime(job.updated_at),
            stale_at=maybe_datetime(job.stale_at), cancel_requested_at=maybe_datetime(job.cancel_at),
            worker_id=job.worker,
            duration=None
            if attempt is None or job.started_at is None
            else max(0.0, (from_datetime(attempt.finished_at, "ended_at") - job.started_at) / 1e6),
        )  # fmt: skip


def stands(pause: Pause | None, now: int) -> bool:
    return pause is not None and (pause.until is None or pause.until > now)
