"""The other ports of the reference model: what operators, schedules and retention do to the `World`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.domain import event as kinds
from penstock.domain.definition import Definition, Pause
from penstock.domain.errors import Conflict, NotFound, RevisionConflict
from penstock.domain.instant import to_datetime
from penstock.domain.job import Draft
from penstock.domain.maintenance import RetentionBatch
from penstock.domain.schedule.schedule import Kind, Overlap, Schedule, ScheduleRow, Tick, TickResult
from penstock.domain.states import ACTIVE, LIVE, Status, Trigger, allowed
from tests.storage.model import ModelDefinition, ModelJob, World, stands
from tests.storage.model_jobs import JobsModel


class ControlModel:
    """What operators do to jobs and definitions."""

    def __init__(self, world: World) -> None:
        self.world = world

    def cancel(self, job_ids: Sequence[str]) -> dict[str, Status]:
        found = self._found(job_ids)
        moved = []
        for job in found:
            for status in allowed(job.told(self.world.now), Trigger.CANCEL):
                self.world.note(job.status, Trigger.CANCEL, status)
                if status is not None and status is not job.status:
                    self._move(job, Trigger.CANCEL, status)
                    moved.append(job)
                    job.cancel_at = self.world.now
                    self._tell(job, kinds.CANCELLING if status is Status.CANCELLING else kinds.CANCELLED)
        self.world.admit(job.limit_key for job in moved)
        return self._told(found)

    def reschedule(self, job_id: str, due: int | None, delay: int) -> Status:
        job = self._one(job_id, Trigger.RESCHEDULE)
        now = self.world.now
        at = max(now, now + delay if due is None else due)
        self._move(job, Trigger.RESCHEDULE, Status.SCHEDULED if at > now else Status.QUEUED)
        job.due_at = at
        self._tell(job, kinds.RESCHEDULED)
        self.world.admit([job.limit_key])
        return job.status

    def reprioritise(self, job_ids: Sequence[str], priority: int) -> list[str]:
        changed = [job for job in self._found(job_ids) if allowed(job.status, Trigger.RESCHEDULE)]
        for job in changed:
            job.priority, job.updated_at = priority, self.world.now
            self._tell(job, kinds.RESCHEDULED)
        return [job.id for job in changed]

    def retry(self, job_ids: Sequence[str], from_position: int | None) -> dict[str, Status]:
        found = self._found(job_ids)
        again = [job for job in found if allowed(job.told(self.world.now), Trigger.RETRY)]
        self._check_unique(again)
        for job in again:
            if from_position is not None:
                job.phases = {name: each for name, each in job.phases.items() if each.position < from_position}
            if all(each.status != "completed" for each in job.phases.values()):
                job.progress = None
            self._move(job, Trigger.RETRY, Status.QUEUED)
            job.due_at = self.world.now
            job.generation += 1
            job.attempt = job.lost = 0
            job.cancel_at = None
            self._tell(job, kinds.ENQUEUED)
        self.world.admit(job.limit_key for job in again)
        return self._told(found)

    def approve(self, job_id: str, *, by: str, note: str | None, result: str | None, finished: bool) -> Status:
        job = self._one(job_id, Trigger.APPROVE)
        self._decide(job, "approved", by, note, result)
        self._move(job, Trigger.APPROVE, Status.SUCCEEDED if finished else Status.QUEUED)
        self._tell(job, kinds.APPROVED)
        if finished:
            self._tell(job, kinds.SUCCEEDED)
        else:
            job.due_at = self.world.now
        self.world.admit([job.limit_key])
        return job.status

    def reject(self, job_id: str, by: str, note: str | None) -> Status:
        job = self._one(job_id, Trigger.REJECT)
        self._decide(job, "rejected", by, note, None)
        self._move(job, Trigger.REJECT, Status.FAILED)
        self._tell(job, kinds.REJECTED)
        self._tell(job, kinds.FAILED)
        return job.status

    def delete(self, job_ids: Sequence[str]) -> list[str]:
        gone = [job for job in self._found(job_ids) if allowed(job.told(self.world.now), Trigger.DELETE)]
        for job in gone:
            self.world.remove(job)
        return [job.id for job in gone]

    def pause(self, key: str, pause: Pause | None) -> None:
        if key == "*":
            self.world.pause = pause
        else:
            self._definition(key).pause = pause

    def enable(self, key: str, enabled: bool) -> None:
        self._definition(key).enabled = enabled

    def override(self, key: str, overrides: Mapping[str, object]) -> None:
        definition = self._definition(key)
        before = definition.limits_of_keys
        definition.overrides = dict(overrides)
        if definition.limits_of_keys != before:
            self.world.admit_all(key)

    def _found(self, job_ids: Sequence[str]) -> list[ModelJob]:
        return [self.world.jobs[each] for each in dict.fromkeys(job_ids) if each in self.world.jobs]

    def _one(self, job_id: str, trigger: Trigger) -> ModelJob:
        job = self.world.jobs.get(job_id)
        if job is None:
            raise NotFound("job", job_id)
        if not allowed(job.told(self.world.now), trigger):
            raise Conflict("The job is not in a state that allows this.", job_id=job_id)
        return job

    def _definition(self, key: str) -> ModelDefinition:
        if key not in self.world.definitions:
            raise NotFound("definition", key)
        return self.world.definitions[key]

    def _move(self, job: ModelJob, trigger: Trigger, status: Status) -> None:
        self.world.move(job, trigger, status)

    def _tell(self, job: ModelJob, kind: str) -> None:
        self.world.tell(kind, job.id, job.fence or None)

    def _told(self, found: Sequence[ModelJob]) -> dict[str, Status]:
        return {job.id: job.told(self.world.now) for job in found}

    def _check_unique(self, again: Sequence[ModelJob]) -> None:
        """Each of these jobs needs its unique key for itself."""
        wanted: dict[tuple[str, str], ModelJob] = {}
        for job in sorted(again, key=lambda each: each.id):
            if job.unique_key is not None:
                if job.unique_key in wanted:
                    raise Conflict("Two of them are unique.", job_id=wanted[job.unique_key].id)
                wanted[job.unique_key] = job
        holders = [job for job in self.world.jobs.values() if job.unique_key in wanted and job.status in ACTIVE]
        if holders:
            raise Conflict("Another one is active.", job_id=holders[0].id if len(holders) == 1 else "several")

    def _decide(self, job: ModelJob, decision: str, by: str, note: str | None, result: str | None) -> None:
        asked = job.reviews[job.fence]
        job.reviews[job.fence] = replace(
            asked, decision=decision, decided_by=by, decided_note=note, decided_at=to_datetime(self.world.now),
            result_text=asked.result_text if result is None else result,
        )  # fmt: skip


class SchedulesModel:
    """What schedules do by themselves, and what operators do to them."""

    def __init__(self, world: World, jobs: JobsModel) -> None:
        self.world = world
        self.jobs = jobs

    def save(self, schedule: Schedule, revision: int | None) -> ScheduleRow:
        rows, now = self.world.schedules, to_datetime(self.world.now)
        stored = rows.get(schedule.key)
        if revision is not None and revision != (stored.revision if stored else 0):
            raise RevisionConflict("Somebody else changed it.")
        if stored is None:
            rows[schedule.key] = ScheduleRow(_ended(schedule), 1, None, None, now, now)
            return rows[schedule.key]
        mark = stored.last_scheduled_at
        if mark is not None and schedule.next_run_at is not None and to_datetime(schedule.next_run_at) <= mark:
            schedule = replace(schedule, next_run_at=stored.schedule.next_run_at)
        if _ended(schedule) != stored.schedule:
            rows[schedule.key] = replace(
                stored, schedule=_ended(schedule), revision=stored.revision + 1, updated_at=now
            )
        return rows[schedule.key]

    def remove(self, key: str) -> None:
        del self.world.schedules[self._get(key).schedule.key]

    def pause(self, key: str, pause: Pause | None) -> None:
        stored = self._get(key)
        now = to_datetime(self.world.now)
        self.world.schedules[key] = replace(stored, pause=pause, revision=stored.revision + 1, updated_at=now)

    def due(self) -> list[str]:
        def instant(row: ScheduleRow) -> int:
            return row.schedule.next_run_at or 0

        ready = [
            row
            for row in self.world.schedules.values()
            if row.schedule.enabled and row.schedule.next_run_at is not None
            if instant(row) <= self.world.now and not stands(row.pause, self.world.now)
        ]
        return [row.schedule.key for row in sorted(ready, key=lambda row: (instant(row), row.schedule.key))]

    def tick(self, tick: Tick, draft: Draft | None, overlap: str) -> TickResult:
        stored = self.world.schedules.get(tick.schedule)
        instant = to_datetime(tick.instant)
        if stored is None or stored.revision != tick.revision or not stored.schedule.enabled:
            return TickResult("taken")
        if stored.last_scheduled_at is not None and instant <= stored.last_scheduled_at:
            return TickResult("taken")
        ticks = self.world.ticks.setdefault(tick.schedule, {})
        answer = TickResult("taken")
        if tick.instant not in ticks:
            answer = self._make(tick, draft, overlap)
            ticks[tick.instant] = {
                "scheduledFor": instant, "verdict": answer.verdict, "passedOver": tick.passed_over,
                "jobId": answer.job_id, "at": to_datetime(self.world.now),
            }  # fmt: skip
        schedule = _ended(replace(stored.schedule, next_run_at=tick.next_run_at))
        self.world.schedules[tick.schedule] = replace(stored, schedule=schedule, last_scheduled_at=instant)
        return answer

    def _make(self, tick: Tick, draft: Draft | None, overlap: str) -> TickResult:
        if draft is None:
            self.world.tell(kinds.SCHEDULE_MISSED, tick.schedule)
            return TickResult("missed")
        if self._overlaps(tick.schedule, overlap):
            self.world.tell(kinds.SCHEDULE_SKIPPED, tick.schedule)
            return TickResult("skipped")
        if tick.passed_over:
            self.world.tell(kinds.SCHEDULE_MISSED, tick.schedule)
        (created,) = self.jobs.create([replace(draft, schedule=tick.schedule, scheduled_for=tick.instant)])
        return TickResult("made", created.job_id)

    def _overlaps(self, key: str, overlap: str) -> bool:
        unfinished = [
            job.status for job in self.world.jobs.values() if job.draft.schedule == key and job.status in ACTIVE
        ]
        if overlap == Overlap.QUEUE_ONE:
            return any(status not in LIVE for status in unfinished)
        return overlap == Overlap.SKIP and bool(unfinished)

    def _get(self, key: str) -> ScheduleRow:
        if key not in self.world.schedules:
            raise NotFound("schedule", key)
        return self.world.schedules[key]


class AdminModel:
    """Definitions and retention."""

    def __init__(self, world: World) -> None:
        self.world = world

    def register(self, definitions: Sequence[Definition]) -> dict[tuple[str, int], int]:
        """The lanes of the model: numbered in the order in which they came."""
        lanes = {pair: lane for lane, pair in self.world.lanes.items()}
        for each in definitions:
            known = self.world.definitions.setdefault(each.key, ModelDefinition())
            before = known.limits_of_keys if known.versions else None
            known.versions[each.version] = each
            lanes.setdefault((each.key, each.version), len(lanes) + 1)
            if known.limits_of_keys != before:
                self.world.admit_all(each.key)
        self.world.lanes = {lane: pair for pair, lane in lanes.items()}
        return {(each.key, each.version): lanes[each.key, each.version] for each in definitions}

    def retire(self, limit: int) -> RetentionBatch:
        """Each call brings a job one step further: stale first, then gone."""
        due = [job for job in self.world.jobs.values() if job.retire_at is not None and job.retire_at <= self.world.now]
        held = sorted(due, key=lambda job: (job.retire_at, job.id))[:limit]
        stale, deleted = ([job for job in held if job.retired is known] for known in (False, True))
        for job in stale:
            self.world.note(job.status, Trigger.RETIRE, Status.STALE)
            job.retired, job.updated_at = True, self.world.now
            job.retire_at = (job.stale_at or 0) + self.world.definition(job).delete_after
            self.world.tell(kinds.STALE, job.id)
        for job in deleted:
            self.world.remove(job)
        return RetentionBatch(sorted(job.id for job in stale), sorted(job.id for job in deleted))

    def tidy(self, age: int) -> None:
        """Expired idempotency keys and full buckets go, and old ticks but the newest of each schedule."""
        world = self.world
        for name, (job_id, _, expires_at) in [*world.keys.items()]:
            job = world.jobs.get(job_id)
            if expires_at <= world.now and (job is None or job.status not in ACTIVE):
                del world.keys[name]
        world.buckets = {name: level for name, level in world.buckets.items() if level.full_at > world.now}
        for ticks in world.ticks.values():
            for instant, tick in [*ticks.items()]:
                if tick["at"] < to_datetime(world.now - age) and instant < max(ticks):
                    del ticks[instant]

    def prune(self, age: int) -> int:
        """Old events go when they are about no job, or all of a job's when it was deleted long enough ago."""
        world, horizon = self.world, to_datetime(self.world.now - age)
        gone = world.born - set(world.jobs)
        gone &= {each.subject for each in world.events if each.kind == kinds.DELETED and each.at < horizon}
        gone -= {each.subject for each in world.events if each.at >= horizon}
        kept = [
            each
            for each in world.events
            if each.subject not in gone and (each.subject in world.born or each.at >= horizon)
        ]
        removed = len(world.events) - len(kept)
        world.events = kept
        return removed


def _ended(schedule: Schedule) -> Schedule:
    """A schedule that ticks once is disabled when there is nothing to come."""
    over = schedule.kind is Kind.ONCE and schedule.next_run_at is None
    return replace(schedule, enabled=False) if over else schedule
