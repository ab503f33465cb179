"""What penstock asks of a store and of a queue. A new one can be written from this file alone.

A store has ports by reader: `JobsPort` for workers and creators, `ControlPort` for operators,
`FeedPort` for those who follow events, `AdminPort` for the rest; `SchedulesPort`, for the scheduler, `AccessPort`, for
those who let others in, and `WebhooksPort`, for those who send webhooks, stand in files of their own. A verb answers
with a `Plan`; `Store.run` (in the caller's thread) or `Store.arun` (in an event loop) carries it out in one
transaction and gives the result. Rules for all of them:

- **Time.** `now` (microseconds since 1970) stands for the store's own clock in tests; None means the clock
  itself. Durations, not instants, cross the seam wherever that is possible.
- **Fence.** Every write of an attempt names (job, fence, worker) and is done only while the job is running or
  cancelling under that fence and is held by that worker. Otherwise nothing is written and the caller gets
  `LeaseLost`, or the list of those refused from verbs that take many.
- **Once.** Applying a transition twice is harmless; settling a recorded attempt is success for the worker that ran it.
- **One transaction.** A verb's change, its events and its counts are committed together or not at all.
- **Errors.** `NotFound`, `Conflict` and their kin as in `penstock.domain.errors`; the database's own errors come
  as `StoreError` and its kin, after what may be retried was retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from penstock.domain.admin import Setting
from penstock.domain.definition import Definition, DefinitionRow, Pause
from penstock.domain.event import Event, News
from penstock.domain.job import (
    Attempt,
    Claimed,
    Count,
    Created,
    Draft,
    Held,
    Job,
    JobFilter,
    LogLine,
    Page,
    Phase,
    Place,
    Review,
    StoredLog,
)
from penstock.domain.outcome import Settlement
from penstock.domain.plan import Plan
from penstock.domain.ports.access import AccessPort as AccessPort
from penstock.domain.ports.access import AuditPort
from penstock.domain.ports.figures import FiguresPort
from penstock.domain.ports.keys import KeysPort
from penstock.domain.ports.retention import RetentionPort
from penstock.domain.ports.schedules import SchedulesPort as SchedulesPort
from penstock.domain.ports.undeclared import UndeclaredPort
from penstock.domain.ports.webhooks import WebhooksPort as WebhooksPort
from penstock.domain.states import Status
from penstock.domain.why import Reason
from penstock.domain.worker import Duty, HeartbeatAnswer, HookCall, Reclaimed, SettleReport, WorkerInfo, WorkerRow

T = TypeVar("T")
Progress = tuple[Held, float, str | None, str | None]
"""What an attempt reports: who it is, percent, message, phase."""


class JobsPort(KeysPort, Protocol):
    """What creators and workers do."""

    def create(self, drafts: Sequence[Draft]) -> Plan[list[Created]]:
        """Create jobs, all or none, each with a `job.enqueued` event; the answers come in the order given.

        Due later: scheduled; due now: queued. A known idempotency key answers with the job that has it and
        `created=False`; with other parameters it raises `IdempotencyConflict`. A draft whose `unique` is held by an
        active job of the definition answers with that job and `created=False`. A draft whose id exists answers as
        created: the answer to an earlier try was lost. Unknown definition: `NotFound`; disabled: `Conflict`.
        """
        ...

    def promote(self, limit: int = 1000) -> Plan[list[str]]:
        """Move due jobs to the queue, the earliest first; their ids. A job that has its rate's token keeps the slot of
        its concurrency key; others are blocked until the key has room. Concurrency keys that were touched by
        transactions of callers, or while another transaction held them, are admitted."""
        ...

    def next_due(self) -> Plan[int | None]:
        """Microseconds until the next scheduled job is due; 0 or less when one is, or when a concurrency key was
        touched; None when there is nothing to promote."""
        ...

    def claim(
        self,
        worker: str,
        lanes: Sequence[int],
        limit: int,
        *,
        limited: Sequence[int] = (),
        start: bool = True,
        behind: Mapping[int, Place] = {},
    ) -> Plan[list[Claimed]]:
        """Up to `limit` queued jobs of `lanes` become the worker's: fence + 1, attempt + 1, in rank order.

        Eligible is a job that is queued and not blocked, whose definition is neither paused nor at its limit,
        while the system is not paused. Definitions with a concurrency or rate limit are claimed only when their
        lanes stand in `limited` too. `start` records the attempts as started at once, except those of jobs with a
        loss behind them: they run alone, and `start()` records it when their turn has come. A worker whose lease is
        not live gets `LeaseLost`. Never more than `limit`; fewer does not mean that there are none left.
        Of a lane that `behind` names only jobs behind that place are looked at.
        """
        ...

    def claim_job(self, worker: str, job_id: str, lanes: Sequence[int], *, start: bool = True) -> Plan[list[Claimed]]:
        """This job becomes the worker's, if it is eligible as with `claim` and of one of these lanes; else nothing.

        Jobs that rank before it are passed over. Limits hold for it as for others."""
        ...

    def start(self, held: Sequence[Held]) -> Plan[list[Held]]:
        """Record that claimed attempts begin; those that no longer own their job are given back."""
        ...

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Plan[SettleReport]:
        """End attempts of a worker as decided: job, attempt, review, event and count each; a cancelling job is
        cancelled."""
        ...

    def save_progress(self, reports: Sequence[Progress]) -> Plan[list[Held]]:
        """Record how far attempts have come, clamped to 0–100; those refused are given back."""
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
        """Record a phase as running, completed, failed or cancelled. A completed one keeps its result: `Conflict`.

        `at` is the instant at which that happened; None: now."""
        ...

    def phases(self, job_id: str) -> Plan[list[Phase]]:
        """The phases of a job that have begun, in their order."""
        ...

    def phases_of(self, job_ids: Sequence[str]) -> Plan[dict[str, list[Phase]]]:
        """The same of several jobs; empty where there are none."""
        ...

    def save_logs(self, held: Held, lines: Sequence[LogLine]) -> Plan[None]:
        """Keep lines that an attempt wrote."""
        ...

    def emit(self, held: Held, kind: str, data: str | None) -> Plan[None]:
        """Keep an event of the handler's own."""
        ...

    def emit_many(self, held: Held, told: Sequence[tuple[str, str | None]]) -> Plan[None]:
        """Keep several, in their order."""
        ...

    def register_worker(self, worker: WorkerInfo, lease: int) -> Plan[None]:
        """A worker with a new id begins its lease; again with the same id it changes nothing."""
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
        """Extend a live lease and learn which jobs to cancel. A lease that has ended stays ended: `LeaseLost`.

        What is given of `lanes`, `slots`, `duties` and `figures` replaces what was known of the worker."""
        ...

    def claimable(self, lanes: Sequence[int], created_by: int) -> Plan[bool]:
        """Whether a job of these lanes stands ready (not paused, not blocked) that was created by then, or whose parent
        was: what somebody who began then has left to do."""
        ...

    def release_unheld(self, worker: str, held: Sequence[Held]) -> Plan[list[str]]:
        """Put back jobs that name the worker but that it does not hold: the answer to a claim was lost."""
        ...

    def forsaken(self, grace: int) -> Plan[bool]:
        """Whether there is anything to reclaim."""
        ...

    def reclaim(
        self, grace: int, random: float, limit: int = 10, *, still: Callable[[], bool] = ...
    ) -> Plan[Reclaimed]:
        """End workers whose lease ended more than `grace` ago, and free their jobs in the same transaction.

        A started attempt is lost, one that never started is released free, a cancelling job is cancelled. Live
        jobs whose worker has ended or is unknown are freed the same way.

        `still` is asked once the store has named such workers: where its answer came so late that the caller may not
        take others for dead, nothing is done.
        """
        ...

    def end_worker(self, worker: str) -> Plan[None]:
        """A worker that holds nothing any more has stopped."""
        ...

    def take_hooks(self, lanes: Sequence[int], limit: int = 100) -> Plan[list[HookCall]]:
        """Take up to `limit` hooks of `lanes` to be called, the oldest first; nobody gets them again.

        What a hook can be called for (`job.succeeded`, `job.failed`, `job.retrying`, `job.cancelled`, `job.stale`,
        `job.deleted`) is kept in the transaction of the change, for definitions that have hooks.
        """
        ...


class ControlPort(UndeclaredPort, Protocol):
    """What operators do to jobs and definitions. Each change writes its event, and its audit row if `by` is given."""

    def cancel(self, job_ids: Sequence[str], *, by: str | None = None) -> Plan[dict[str, Status]]:
        """Cancel: waiting jobs and reviews end now, running ones become cancelling. The status each has now;
        ids that do not exist are left out, an ended job keeps its status."""
        ...

    def reschedule(
        self, job_id: str, *, due: int | None = None, delay: int = 0, priority: int | None = None, by: str | None = None
    ) -> Plan[Status]:
        """Give a scheduled or queued job another time, and another priority with it. Any other: `Conflict`."""
        ...

    def reprioritise(self, job_ids: Sequence[str], priority: int, *, by: str | None = None) -> Plan[list[str]]:
        """Change the priority of waiting jobs, keeping their place in time; the ids that were changed."""
        ...

    def retry(
        self, job_ids: Sequence[str], *, from_position: int | None = None, by: str | None = None
    ) -> Plan[dict[str, Status]]:
        """Failed, cancelled and stale jobs are queued again: new generation, full budget of attempts and losses.

        Finished phases are kept; `from_position` forgets those from that position on (0: all). The status each
        has now; others keep theirs. When an active job holds the same unique key: `Conflict` naming it.
        """
        ...

    def approve(
        self, job_id: str, *, by: str, note: str | None = None, result: str | None = None, finished: bool
    ) -> Plan[Status]:
        """Say yes to a review. `finished`: no phase is left, the job has succeeded with what the handler gave or
        with `result`; else it is queued again. Not in review: `Conflict`."""
        ...

    def reject(self, job_id: str, *, by: str, note: str | None = None) -> Plan[Status]:
        """Say no to a review: the job has failed, with the note as its error."""
        ...

    def delete(self, job_ids: Sequence[str], *, by: str | None = None) -> Plan[list[str]]:
        """Remove ended jobs and everything that belongs to them; a `job.deleted` event stays. Active ones are left."""
        ...

    def select(self, which: JobFilter, limit: int, after: str | None = None) -> Plan[list[str]]:
        """Ids of the jobs that a filter speaks of, in order of id, for changes in bulk; searches are refused."""
        ...

    def pause(self, key: str, pause: Pause | None, *, by: str) -> Plan[None]:
        """Pause a definition (or `*`: the whole system), or resume it with None. Unknown: `NotFound`."""
        ...

    def enable(self, key: str, enabled: bool, *, by: str) -> Plan[None]:
        """Allow or refuse the creation of jobs of a definition; one that is allowed is retired no longer."""
        ...

    def override(self, key: str, overrides: Mapping[str, object], *, by: str) -> Plan[None]:
        """Set what an operator wants instead of what the code says: the limits `concurrency`, `key_concurrency`,
        `rate_count`, `rate_period` (microseconds), `rate_per_key`; `priority` and `max_attempts` of jobs that are
        created later and were given none; `backoff` (as JSON) and `timeout` (microseconds, 0: none) of attempts that
        begin later. An empty mapping returns to the code's own."""
        ...


class FeedPort(Protocol):
    """What those do who follow events. The cursor is opaque; it never skips what is committed late."""

    def tip(self) -> Plan[str]:
        """The cursor of this moment: what is committed later comes after it."""
        ...

    def origin(self) -> Plan[str]:
        """The cursor before the oldest event that is kept."""
        ...

    def read(self, cursor: str, limit: int = 500) -> Plan[News]:
        """Events after the cursor, each once. When some were deleted already: `FeedGone`."""
        ...

    def of_job(self, job_id: str, after: int = 0, limit: int = 500) -> Plan[list[Event]]:
        """The events of one job, in order."""
        ...

    def prune(self, age: int, limit: int = 1000) -> Plan[int]:
        """Delete events older than `age` whose job or attempt is gone; how many, at most `limit`. 0 says that none is
        left."""
        ...


class AdminPort(FiguresPort, AuditPort, RetentionPort, Protocol):
    """Definitions, reading, counting, settings, retention."""

    def register(self, definitions: Sequence[Definition]) -> Plan[dict[tuple[str, int], int]]:
        """Make definitions known; versions stand side by side; the lane of each (key, version).

        Limits are per key: the newest version's, where no operator has said otherwise."""
        ...

    def definitions(self) -> Plan[list[DefinitionRow]]:
        """Every definition, those that were removed included; one that cannot be read has an `error`, and `register`
        repairs it."""
        ...

    def definition(self, key: str, version: int | None = None) -> Plan[DefinitionRow]:
        """One definition; without a version the highest that a live worker serves, else the highest. One that cannot
        be read: `InvalidDefinition`; one that was removed, unless this version is asked for: `Conflict`."""
        ...

    def get(self, job_ids: Sequence[str]) -> Plan[list[Job]]:
        """Jobs by id, in the order given; those that do not exist are left out."""
        ...

    def page(
        self, which: JobFilter, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None
    ) -> Plan[Page]:
        """One page of jobs. `sort`: createdAt, finishedAt or priority, `-` in front for descending.

        A filter by error or params looks through the jobs that its other conditions leave, in order of creation and
        only so many of them; `Page.searched` says how many, and its cursor goes on after them.
        """
        ...

    def count(self, which: JobFilter, cap: int = 10_000) -> Plan[Count]: ...

    def counts(self) -> Plan[dict[tuple[str, int], dict[Status, int]]]:
        """How many jobs of each (definition, version) stand in each stored status: folded counts + deltas."""
        ...

    def fold(self) -> Plan[int]:
        """Fold the deltas into the counts; how many."""
        ...

    def attempts(self, job_id: str) -> Plan[list[Attempt]]: ...

    def logs(
        self, job_id: str, *, after: int = 0, limit: int = 500, level: str | None = None, phase: str | None = None,
        fence: int | None = None,
    ) -> Plan[list[StoredLog]]: ...  # fmt: skip

    def reviews(self, job_id: str) -> Plan[list[Review]]: ...

    def workers(self) -> Plan[list[WorkerRow]]: ...

    def clock(self) -> Plan[int]:
        """What time it is to the store, in microseconds since 1970."""
        ...

    def leader(self) -> Plan[str | None]:
        """The live worker that has been there longest. It may do timed work that all are allowed to do; others need
        not. Two that both think they lead do no harm."""
        ...

    def why(self, job_id: str) -> Plan[list[Reason]]:
        """All that keeps a job from running, or else what it does now. Unknown: `NotFound`."""
        ...

    def unserved(self) -> Plan[list[tuple[str, int, int]]]:
        """Definitions (key, version) that no live worker has loaded, each with how many of its jobs wait; those for
        which none waits are left out."""
        ...

    def system_pause(self) -> Plan[Pause | None]:
        """The pause of the whole system, while it holds."""
        ...

    def settings(self) -> Plan[dict[str, Setting]]: ...

    def put_setting(
        self, name: str, value: str, *, by: str, revision: int | None = None,
        told: tuple[Mapping[str, object], Mapping[str, object]] | None = None,
    ) -> Plan[Setting]:  # fmt: skip
        """Keep a setting. With a `revision` it must be the stored one (0: none yet): `RevisionConflict`. The audit has
        the revision and what is `told` of it before and after, never the value: it may be secret."""
        ...


class Doorbell(Protocol):
    """Wakes those who wait for news of a store. A ring may get lost; nobody may rely on it."""

    def ring(self) -> None:
        """Wake every listener, here and in other processes. Never blocks for long, never raises, from any thread."""
        ...

    async def wait(self, timeout: float) -> bool:
        """Wait for a ring, or until the time is over: True when it rang, or may have rung unheard."""
        ...

    def hears(self) -> bool:
        """Whether it listens just now."""
        ...

    def close(self) -> None:
        """Stop listening and ringing; from any thread."""
        ...

    async def aclose(self) -> None:
        """The same in an event loop; when it returns, no socket, file or connection is left."""
        ...


class Store(Protocol):
    """The single source of truth."""

    dialect: str
    known_schema: int
    """The newest version of the schema that this code knows."""

    @property
    def place(self) -> str: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    async def aclose(self) -> None: ...

    def run(self, plan: Plan[T], *, now: int | None = None) -> T:
        """Carry out a plan in one transaction, in the caller's thread. Works in threads and after a fork."""
        ...

    async def arun(self, plan: Plan[T], *, now: int | None = None) -> T:
        """The same in an event loop, without blocking it."""
        ...

    def run_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T:
        """The same on the caller's connection, inside its open transaction: the caller commits or rolls back, and the
        database's errors pass to it as they are. Listeners are told at its commit. Unfit connection: `InvalidInput`."""
        ...

    async def arun_on(self, connection: Any, plan: Plan[T], *, now: int | None = None) -> T: ...

    def reserve(self, seconds: float) -> Store:
        """The same store over connections of its own, for what must not wait for others: no statement and no wait
        takes longer than `seconds`, then it is `StoreUnavailable`. To be closed by the caller, which closes only it."""
        ...

    def extend_lease(self, worker: str, lease: int, *, now: int | None = None) -> bool:
        """Extend the lease of a worker by `lease` microseconds from now on although the store takes no heartbeat: a
        caller's transaction locks it. Only for a lease that has not ended. False where the store cannot do that."""
        ...

    def forget_extension(self, worker: str) -> None:
        """A heartbeat was written again, so an extension is not needed any more."""
        ...

    def doorbell(self) -> Doorbell:
        """A new bell of this store; it belongs to the caller."""
        ...


class Message(Protocol):
    """One message of a queue: at most the id of a job, and nothing else."""

    @property
    def job_id(self) -> str | None: ...


class Queue(Protocol):
    """Carries job ids to workers and nothing else. Messages are hints: the store decides, and with every message
    lost all jobs still run, only later. Garbage, duplicates and unknown ids do no harm."""

    def publish(self, job_ids: Sequence[str]) -> None:
        """Tell workers that these jobs are committed. Never blocks, never raises, from any thread."""
        ...

    async def receive(self, timeout: float) -> Sequence[Message]:
        """Wait until there is something to look for, or the time is over (empty). Messages that come together
        are given together."""
        ...

    def hears(self) -> bool:
        """Whether a message that is sent now would come in; where not, workers look often."""
        ...

    async def acknowledge(self, messages: Sequence[Message]) -> None:
        """These need not come again: their claim is committed, or was refused."""
        ...

    async def aclose(self) -> None: ...
