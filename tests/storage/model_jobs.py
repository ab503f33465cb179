"""The jobs port of the reference model: what creators and workers do to the `World`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from penstock.domain import event as kinds
from penstock.domain.attempt import Attempt, Phase, Review
from penstock.domain.errors import Conflict, IdempotencyConflict
from penstock.domain.instant import maybe_datetime, to_datetime
from penstock.domain.job import Claimed, Created, Draft, Held
from penstock.domain.outcome import AttemptCounters, Cause, Failure, Outcome, Settlement, decide
from penstock.domain.states import ACTIVE, Status, Trigger
from penstock.domain.worker import Reclaimed, SettleReport, WorkerInfo
from tests.storage.model import Bucket, ModelDefinition, ModelJob, ModelWorker, World, stands

RELEASED = Outcome(Trigger.RELEASE, Cause.RELEASED)
LOST = Outcome(
    Trigger.LOSE,
    Cause.LOST,
    failure=Failure(
        "WorkerLost", "The worker that ran this attempt is gone: its lease ended.", fingerprint="worker-lost"
    ),
)


class JobsModel:
    """What creators and workers do."""

    def __init__(self, world: World) -> None:
        self.world = world

    def create(self, drafts: Sequence[Draft]) -> list[Created]:
        self._check(drafts)
        answers = [self._create(draft) for draft in drafts]
        queued = [each.created and each.status is Status.QUEUED for each in answers]
        self.world.admit(self._limit_key(draft) for draft, new in zip(drafts, queued, strict=True) if new)
        return answers

    def promote(self, limit: int) -> set[str]:
        due = [
            job for job in self.world.jobs.values() if job.status is Status.SCHEDULED and job.due_at <= self.world.now
        ]
        moved = sorted(due, key=lambda job: (job.due_at, job.id))[:limit]
        for job in moved:
            self.world.move(job, Trigger.DUE, Status.QUEUED)
        self.world.admit(job.limit_key for job in moved if job.blocked)
        return {job.id for job in moved}

    def next_due(self) -> int | None:
        due = (job.due_at for job in self.world.jobs.values() if job.status is Status.SCHEDULED)
        return min((each - self.world.now for each in due), default=None)

    def repair_limits(self) -> None:
        self.world.follow_clock()
        keys = {job.limit_key for job in self.world.jobs.values() if job.blocked}
        self.world.admit(
            key for key in keys if key and not (self._has_rate_by_key(key[0]) and self.world.unstarted(key))
        )

    def claim(
        self, worker: str, lanes: Sequence[int], limit: int, limited: Sequence[int], *, start: bool
    ) -> list[Claimed]:
        """With no other worker about, a claim takes everything that it may, best first."""
        self.world.live(worker)
        jobs = self._claimable(lanes, limit, limited)
        for job in jobs:
            job.rate_paid = False
            self.world.move(job, Trigger.CLAIM, Status.RUNNING)
            job.fence += 1
            job.attempt += 1
            job.worker = worker
            # One with a loss behind it is started when its turn to run alone has come.
            job.started_at = self.world.now if start and job.lost == 0 else None
            self.world.spend(job.draft)
            if job.started_at is not None:
                self.world.tell(kinds.STARTED, job.id, job.fence)
        self.world.admit({job.limit_key for job in jobs if self._has_rate_by_key(job.draft.definition)})
        return [
            Claimed(
                job.id, job.draft.lane, job.fence, job.attempt, job.draft.max_attempts, job.lost, job.draft.params,
                job.draft.reference_type, job.draft.reference_id, job.draft.traceparent, job.draft.schedule,
                job.draft.scheduled_for, job.rank[0], json.dumps(job.draft.tags) if job.draft.tags else None,
                job.draft.concurrency_key,
            )
            for job in jobs
        ]  # fmt: skip

    def start(self, held: Sequence[Held]) -> list[Held]:
        refused = []
        for each in held:
            job = self.world.owned(each)
            if job is None:
                refused.append(each)
            elif job.started_at is None:
                job.started_at = job.updated_at = self.world.now
                self.world.tell(kinds.STARTED, job.id, job.fence)
        return refused

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> SettleReport:
        report = SettleReport([], [], [])
        touched = []
        for each in settlements:
            held = Held(each.job_id, each.fence, worker)
            job = self.world.owned(held)
            known = self.world.jobs.get(each.job_id)
            if job is not None:
                self._end(job, worker, each)
                touched.append(job)
                report.applied.append(job.id)
            elif known is not None and _ended_so(known.attempts.get(each.fence), worker, each):
                report.repeated.append(each.job_id)
            else:
                report.refused.append(held)
        self.world.admit(job.limit_key for job in touched)
        return report

    def save_progress(self, reports: Sequence[tuple[Held, float, str | None, str | None]]) -> list[Held]:
        refused: dict[Held, None] = {}
        told: dict[Held, None] = {}
        for held, percent, message, phase in reports:
            job = self.world.owned(held)
            if job is None:
                refused[held] = None
                continue
            if job.progress and job.progress[0] == job.fence:
                message = job.progress[2] if message is None else message
                phase = job.progress[3] if phase is None else phase
            job.progress = (job.fence, min(100.0, max(0.0, percent)), message, phase)
            told[held] = None
        for held in told:
            self.world.tell(kinds.PROGRESS, held.job_id, held.fence)
        return list(refused)

    def save_phase(
        self,
        held: Held,
        name: str,
        position: int,
        status: str,
        progress: float,
        message: str | None,
        result: str | None,
    ) -> None:
        job = self.world.hold(held)
        known = job.phases.get(name)
        if known is not None and known.status != "completed" and known.fence != held.fence:
            known = None
        if known is not None and known.status == "completed":
            if (status, result, held.fence) == ("completed", known.result_text, known.fence):
                return  # said before: the answer was lost
            raise Conflict("A completed phase keeps its result.", job_id=job.id)
        now = to_datetime(self.world.now)
        job.phases[name] = Phase(
            job.id, name, position, status, progress,
            message=known.message if known is not None and message is None else message, result_text=result, error=None,
            fence=held.fence, started_at=known.started_at if known is not None else now,
            finished_at=None if status == "running" else now,
        )  # fmt: skip
        job.tries[held.fence, name] = replace(job.phases[name], result_text=None)
        if status == "completed":
            self.world.tell(kinds.PHASE_COMPLETED, job.id, job.fence)

    def emit(self, held: Held, kind: str) -> None:
        job = self.world.hold(held)
        self.world.tell(kind, job.id, job.fence)

    def register_worker(self, info: WorkerInfo, lease: int) -> None:
        if info.id not in self.world.workers:
            self.world.workers[info.id] = ModelWorker(info, self.world.now + lease)
            self.world.tell(kinds.WORKER_STARTED, info.id)

    def heartbeat(self, worker: str, lease: int) -> set[Held]:
        self.world.live(worker).lease_until = self.world.now + lease
        mine = (job for job in self.world.jobs.values() if job.worker == worker)
        return {job.held for job in mine if job.status is Status.CANCELLING}

    def release_unheld(self, worker: str, held: Sequence[Held]) -> set[str]:
        stray = [job for job in self.world.jobs.values() if job.worker == worker and job.held not in held]
        released = [
            Settlement(job.id, job.fence, RELEASED, Status.QUEUED, attempt_back=1, lost=job.lost) for job in stray
        ]
        return set(self.settle(worker, released).applied)

    def has_expired_workers(self, grace: int) -> bool:
        workers = self.world.workers.values()
        gone = {each.info.id for each in workers if each.ended}
        return any(not each.ended and each.lease_until + grace < self.world.now for each in workers) or any(
            job.worker in gone for job in self.world.jobs.values()
        )

    def reclaim(self, grace: int, random: float, limit: int = 10) -> Reclaimed:
        world, answer = self.world, Reclaimed([], [], [], [], [])
        expired = [each for each in world.workers.values() if not each.ended and each.lease_until + grace < world.now]
        for worker in sorted(expired, key=lambda each: (each.lease_until, each.info.id))[:limit]:
            worker.ended = "lost"
            worker.lease_until = min(worker.lease_until, world.now)
            world.tell(kinds.WORKER_LOST, worker.info.id)
            answer.workers.append(worker.info.id)
        gone = {each.info.id for each in world.workers.values() if each.ended}
        for job in [job for job in world.jobs.values() if job.worker in gone]:
            self._free(job, random, answer)
        return answer

    def end_worker(self, worker: str) -> None:
        holding = sorted(job.id for job in self.world.jobs.values() if job.worker == worker)
        if holding:
            raise Conflict("The worker still holds jobs.", job_id=holding[0])
        found = self.world.workers.get(worker)
        if found is not None and not found.ended:
            found.ended = "stopped"
            self.world.tell(kinds.WORKER_STOPPED, worker)

    def _claimable(self, lanes: Sequence[int], limit: int, limited: Sequence[int]) -> list[ModelJob]:
        """What a worker may get, best first: nothing of what is paused, blocked or at its limit.

        Of a definition with a rate by key, those whose keys have no token are put off.
        """
        world = self.world
        found: list[ModelJob] = []
        for key, definition in sorted(world.definitions.items()):
            bounded = definition.limit("concurrency") or definition.rate
            asked = {*lanes}.intersection(limited) if bounded else {*lanes}
            best = [
                job
                for job in world.jobs.values()
                if job.draft.definition == key and job.draft.lane in asked
                if job.status is Status.QUEUED and not job.blocked
            ]
            best.sort(key=lambda job: job.rank)
            rate = definition.rate
            if asked and rate is not None and not rate.per_key and not self._is_paused(definition):
                world.follow_clock([Bucket.of(key, None, rate)])
            room = self._room(key, limit)
            if room and rate is not None and rate.per_key:
                keys = {job.draft.concurrency_key for job in best} - {None}
                world.follow_clock(Bucket.of(key, each, rate) for each in keys)
            found += world.choose_by_key(best, rate, room) if rate is not None and rate.per_key else best[:room]
        return sorted(found, key=lambda job: job.rank)[:limit]

    def _has_rate_by_key(self, definition: str) -> bool:
        rate = self.world.definitions[definition].rate
        return rate is not None and rate.per_key

    def _is_paused(self, definition: ModelDefinition) -> bool:
        return stands(definition.pause, self.world.now) or stands(self.world.pause, self.world.now)

    def _room(self, key: str, limit: int) -> int:
        """How many jobs of a definition may be claimed now."""
        world, definition = self.world, self.world.definitions[key]
        if self._is_paused(definition):
            return 0
        if concurrency := definition.limit("concurrency"):
            running = sum(job.worker is not None and job.draft.definition == key for job in world.jobs.values())
            limit = min(limit, concurrency - running)
        rate = definition.rate
        if rate is not None and not rate.per_key:
            limit = min(limit, world.tokens(Bucket.of(key, None, rate)))
        return max(0, limit)

    def _check(self, drafts: Sequence[Draft]) -> None:
        """Raise what refuses any of the drafts; nothing has been written then."""
        fresh = []
        for draft in drafts:
            job_id, digest = self._known(draft, drafts) or (draft.id, draft.params_digest)
            if digest != draft.params_digest:
                raise IdempotencyConflict("The key was used with other parameters.", job_id=job_id)
            if job_id == draft.id and job_id not in self.world.jobs:
                fresh.append(draft)
        if not all(self.world.definitions[draft.definition].enabled for draft in fresh):
            raise Conflict("The definition is disabled.")

    def _known(self, draft: Draft, batch: Sequence[Draft]) -> tuple[str, str | None] | None:
        """The job that has the draft's idempotency key, or the first of its batch that will, and the digest."""
        if draft.idempotency_key is None:
            return None
        name = draft.definition, draft.idempotency_key
        job_id, digest, expires_at = self.world.keys.get(name, ("", None, 0))
        holder = self.world.jobs.get(job_id)
        if expires_at > self.world.now or (holder is not None and holder.status in ACTIVE):
            return job_id, digest
        first = next(each for each in batch if (each.definition, each.idempotency_key) == name)
        return None if first is draft else (first.id, first.params_digest)

    def _create(self, draft: Draft) -> Created:
        world = self.world
        known = self._known(draft, [draft])
        if known is not None and known[0] != draft.id:
            holder = world.jobs.get(known[0])
            return Created(known[0], holder.told(world.now) if holder else Status.STALE, created=False)
        answer = self._answer(draft)
        if draft.idempotency_key is not None:
            name = draft.definition, draft.idempotency_key
            expires_at = world.now + draft.idempotency_life if known is None else world.keys[name][2]
            world.keys[name] = (answer.job_id, draft.params_digest, expires_at)
        return answer

    def _answer(self, draft: Draft) -> Created:
        """The job that is there, the one that is unique in its stead, or a new one."""
        world = self.world
        if draft.id in world.jobs:
            return Created(draft.id, world.jobs[draft.id].told(world.now), created=True)
        name = draft.definition, draft.unique
        for other in world.jobs.values():
            if draft.unique is not None and other.unique_key == name and other.status in ACTIVE:
                return Created(other.id, other.status, created=False)
        due_at = max(world.now, world.now + draft.delay if draft.due is None else draft.due)
        job = ModelJob(draft, Status.SCHEDULED, draft.priority, due_at, world.now, world.now, ageing=world.ageing)
        if due_at <= world.now:
            job.status, job.queued_at, job.blocked = Status.QUEUED, world.now, job.limit_key is not None
        world.note(None, Trigger.CREATE, job.status)
        world.jobs[job.id] = job
        world.born.add(job.id)
        world.tell(kinds.ENQUEUED, job.id)
        return Created(job.id, job.status, created=True)

    def _end(self, job: ModelJob, worker: str, each: Settlement) -> None:
        world, outcome, number = self.world, each.outcome, job.attempt
        status = Status.CANCELLED if job.status is Status.CANCELLING else each.status
        world.move(job, outcome.trigger, status)
        job.attempt -= each.attempt_back
        job.lost = each.lost
        if status is Status.SCHEDULED:
            job.due_at = world.now + each.delay
        why, usage = outcome.failure, outcome.usage
        job.attempts[job.fence] = Attempt(
            job.id, job.fence, number, worker, status, outcome.cause.value, maybe_datetime(job.started_at),
            to_datetime(world.now), outcome.result, why.type if why else None, why.message if why else None,
            why.traceback if why else None, (why.fingerprint or None) if why else None, usage.exit_code,
            usage.signal, usage.peak_memory, usage.cpu_seconds,
        )  # fmt: skip
        if status is Status.REVIEW_NEEDED:
            asked_at = to_datetime(world.now)
            job.reviews[job.fence] = Review(
                job.id, job.fence, outcome.note, outcome.data, asked_at, None, None, None, None, outcome.result
            )
        told = kinds.CANCELLED if status is Status.CANCELLED else kinds.of_ending(outcome.trigger, each.status)
        world.tell(told, job.id, job.fence)

    def _free(self, job: ModelJob, random: float, answer: Reclaimed) -> None:
        worker, was, started = job.worker or "", job.status, job.started_at is not None
        standing = AttemptCounters(job.attempt, job.draft.max_attempts, job.lost)
        policy = self.world.definition(job).backoff
        decided = decide(job.id, job.fence, LOST if started else RELEASED, standing, policy, random)
        self.settle(worker, [decided])
        if was is Status.CANCELLING:
            answer.cancelled.append(job.id)
        elif decided.status is Status.FAILED:
            answer.failed.append(job.id)
        else:
            (answer.lost if started else answer.released).append(job.id)

    @staticmethod
    def _limit_key(draft: Draft) -> tuple[str, str] | None:
        return None if draft.concurrency_key is None else (draft.definition, draft.concurrency_key)


def _ended_so(attempt: Attempt | None, worker: str, settlement: Settlement) -> bool:
    """Whether this very ending is on record: what was given up as lost has not returned."""
    return attempt is not None and (attempt.worker_id, attempt.cause) == (worker, settlement.outcome.cause)
