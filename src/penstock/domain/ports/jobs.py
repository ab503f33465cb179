"""The port of workers and creators: create, promote, claim, settle and rescue jobs. Rules: `ports.store`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from penstock.domain.attempt import LogLine, Phase
from penstock.domain.job import Claimed, Created, Draft, Held, QueuePosition
from penstock.domain.outcome import Settlement
from penstock.domain.plan import Plan
from penstock.domain.worker import Duty, HeartbeatAnswer, HookCall, Reclaimed, SettleReport, WorkerInfo

Progress = tuple[Held, float, str | None, str | None]
"""A progress report of an attempt: the attempt, percent, message, phase."""


class KeysPort(Protocol):
    """Sweeps over concurrency keys that have blocked jobs."""

    def repair_limits(self, limit: int = 1000, after: str = "") -> Plan[str | None]:
        """Admit blocked jobs whose concurrency key has room; check up to `limit` keys after `after`.

        Return the last key checked, to continue after it; None when there are no more keys. After the clock was set
        back, also move rate buckets, and the jobs that they delayed, back with it."""
        ...

    def has_unserved_admitted(self) -> Plan[bool]:
        """Return whether `block_unserved` may have work."""
        ...

    def block_unserved(self, limit: int = 1000, after: str = "") -> Plan[str | None]:
        """Free slots of concurrency keys that jobs without a worker take.

        Eligible are admitted jobs that are queued in a lane that no live worker serves, while a live worker serves
        another version of the definition. Of each key, block as many of them as jobs of served lanes are blocked, and
        admit those. Until a live worker serves the lane, keys admit its jobs after all others; then the next call
        restores their rank. Nothing changes while live workers serve no version. `limit`, `after` and the answer are
        as with `repair_limits`."""
        ...


class JobsPort(KeysPort, Protocol):
    """The commands of creators and workers."""

    def create(self, drafts: Sequence[Draft]) -> Plan[list[Created]]:
        """Create jobs, all or none, each with a `job.enqueued` event; answer in the order given.

        A job that is due later is scheduled, one that is due now is queued. A known idempotency key answers with its
        job and `created=False`; with other parameters: `IdempotencyConflict`. A `unique` key that an active job of the
        definition has answers with that job and `created=False`. An id that exists answers as created, because the
        answer to an earlier call was lost. Unknown definition: `NotFound`; disabled: `Conflict`."""
        ...

    def promote(self, limit: int = 1000) -> Plan[list[str]]:
        """Move due jobs to the queue, the earliest first; return their ids.

        A job that has paid for its rate keeps the slot of its concurrency key; others are blocked until the key has
        room. Also admit jobs of concurrency keys that a caller's transaction changed, or that were locked before."""
        ...

    def next_due(self) -> Plan[int | None]:
        """Return the microseconds until the next scheduled job is due; None when there is nothing to promote.

        0 or less: a job is due, or a concurrency key was changed."""
        ...

    def claim(
        self,
        worker: str,
        lanes: Sequence[int],
        limit: int,
        *,
        limited: Sequence[int] = (),
        start: bool = True,
        after: Mapping[int, QueuePosition] = {},
    ) -> Plan[list[Claimed]]:
        """Give a worker up to `limit` queued jobs of `lanes`, in rank order: fence + 1, attempt + 1.

        Eligible is a job that is queued and not blocked, whose definition is neither paused nor at its limit, while
        the system is not paused. Definitions with a concurrency or rate limit are claimed only when their lanes are in
        `limited` too. In a lane that `after` names, only jobs after that place are eligible.

        `start` records the attempts as started, except those of jobs that were lost before: these run alone, and
        `start()` records them. A worker whose lease has ended: `LeaseLost`. Never more than `limit`; fewer does not
        mean that no more are left."""
        ...

    def claim_job(self, worker: str, job_id: str, lanes: Sequence[int], *, start: bool = True) -> Plan[list[Claimed]]:
        """Give a worker this job, if it is eligible as with `claim` and in one of these lanes; else nothing.

        Jobs that rank before it are skipped. Limits apply to it as to others."""
        ...

    def start(self, held: Sequence[Held]) -> Plan[list[Held]]:
        """Record that claimed attempts begin; return those that no longer own their job."""
        ...

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Plan[SettleReport]:
        """End attempts of a worker as decided: write job, attempt, review, event and count of each.

        A cancelling job becomes cancelled, whatever was decided. An attempt that this worker has settled before is
        reported as repeated; one whose fence or worker does not match is refused, and nothing is written for it."""
        ...

    def save_progress(self, reports: Sequence[Progress]) -> Plan[list[Held]]:
        """Record the progress of attempts, clamped to 0-100; return the attempts that were refused."""
        ...

    def save_phase(
        self,
        held: Held,
        name: str,
        position: int,
        status: str,
        *,
        progress: float = 0.0,
        message: str | None = None,
        result: str | None = None,
        error: str | None = None,
        at: int | None = None,
    ) -> Plan[None]:
        """Record a phase as running, completed, failed or cancelled, at the instant `at` (None: now).

        A completed phase keeps its result: another one is a `Conflict`. Lost fence: `LeaseLost`."""
        ...

    def phases(self, job_id: str) -> Plan[list[Phase]]:
        """Return the phases of a job that have begun, in their order."""
        ...

    def phases_of(self, job_ids: Sequence[str]) -> Plan[dict[str, list[Phase]]]:
        """Return the same for several jobs; an empty list for a job without phases."""
        ...

    def save_logs(self, held: Held, lines: Sequence[LogLine]) -> Plan[None]:
        """Save log lines of an attempt. Lost fence: `LeaseLost`."""
        ...

    def emit(self, held: Held, kind: str, data: str | None) -> Plan[None]:
        """Save an event that the handler emits. Lost fence: `LeaseLost`."""
        ...

    def emit_many(self, held: Held, told: Sequence[tuple[str, str | None]]) -> Plan[None]:
        """Save several events, in their order: the kind and the data of each."""
        ...

    def register_worker(self, worker: WorkerInfo, lease: int) -> Plan[None]:
        """Begin the lease of a new worker; a second call with the same id changes nothing."""
        ...

    def heartbeat(
        self,
        worker: str,
        lease: int,
        *,
        lanes: Sequence[int] | None = None,
        slots: int | None = None,
        duties: Sequence[Duty] | None = None,
        figures: Mapping[str, float] | None = None,
    ) -> Plan[HeartbeatAnswer]:
        """Extend a live lease and return which jobs to cancel. A lease that has ended stays ended: `LeaseLost`.

        Values given for `lanes`, `slots`, `duties` and `figures` replace the stored ones."""
        ...

    def claimable(self, lanes: Sequence[int], created_by: int) -> Plan[bool]:
        """Return whether a ready job (not paused, not blocked) of these lanes was created by that instant.

        A job whose parent was created by then counts too: a caller uses this to drain the work that it found."""
        ...

    def release_unheld(self, worker: str, held: Sequence[Held]) -> Plan[list[str]]:
        """Requeue jobs that name the worker but that it does not hold, because the answer to a claim was lost."""
        ...

    def has_expired_workers(self, grace: int) -> Plan[bool]:
        """Return whether `reclaim` may have work."""
        ...

    def reclaim(
        self, grace: int, random: float, limit: int = 10, *, still: Callable[[], bool] = ...
    ) -> Plan[Reclaimed]:
        """End workers whose lease ended more than `grace` ago, and free their jobs in the same transaction.

        A started attempt is lost, one that never started is released without a charge, a cancelling job becomes
        cancelled. Live jobs whose worker has ended or is unknown are freed the same way.

        `still` is called once the store has named such workers; when it returns False, nothing is written. Callers use
        it to refuse an answer that came too late to trust."""
        ...

    def end_worker(self, worker: str) -> Plan[None]:
        """Record that a worker has stopped. One that still holds jobs: `Conflict`."""
        ...

    def take_hooks(self, lanes: Sequence[int], limit: int = 100) -> Plan[list[HookCall]]:
        """Take up to `limit` hook calls of `lanes`, the oldest first; each is given to one caller only.

        For definitions with hooks, a call is saved in the transaction of the change: `job.succeeded`, `job.failed`,
        `job.retrying`, `job.cancelled`, `job.stale`, `job.deleted`."""
        ...
