"""The port of readers and maintenance: definitions, lists, counts, settings, retention. Rules: `ports.store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.domain.access import AuditEntry
from penstock.domain.alerts import Alert, AlertNews, StoredAlert
from penstock.domain.attempt import Attempt, Review, StoredLog
from penstock.domain.definition import Definition, DefinitionRow, Pause
from penstock.domain.instant import MINUTE
from penstock.domain.job import Job
from penstock.domain.job_list import Count, JobFilter, Page
from penstock.domain.maintenance import ArchivedJob, BrokenRule, RetentionBatch
from penstock.domain.plan import Plan
from penstock.domain.states import Status
from penstock.domain.stats import Durations, ErrorPage, Running, Stats, Totals
from penstock.domain.why import Reason
from penstock.domain.worker import WorkerRow
from penstock.domain.worker_config import Setting


class FiguresPort(Protocol):
    """Counts, durations, failures and alerts. The cost does not grow with the number of jobs that are kept."""

    def errors(self, since: int | None = None, *, limit: int = 50, cursor: str | None = None) -> Plan[ErrorPage]:
        """Return failures since an instant (None: 24 hours ago) grouped by fingerprint, the newest first.

        Only the newest few thousand failures are examined; the page says when there were more. A cursor keeps the time
        span of its list."""
        ...

    def stats(self, since: int | None = None) -> Plan[Stats]:
        """Return the number of jobs in each state now, and what happened since an instant (None: an hour ago).

        More than 90 days: `InvalidInput`. Beyond 24 hours the figures are by hour, not by minute."""
        ...

    def totals(self) -> Plan[Totals]:
        """Return counters since the store was created, ready jobs and outbox sizes, for metrics."""
        ...

    def save_alerts(self, holding: Sequence[Alert]) -> Plan[AlertNews]:
        """Save the alerts that are active now: raise new ones and clear the others, each once and with an event.

        Several processes may report the same alerts."""
        ...

    def list_alerts(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> Plan[list[StoredAlert]]:
        """Return raised alerts, the newest first; with `cleared`, only cleared ones or only active ones.

        `before` is the `seq` of the last alert of a page, for the next page."""
        ...

    def usual_durations(self) -> Plan[dict[str, Durations]]:
        """Return the durations of each definition's successful attempts since the store was created."""
        ...

    def longest_running(self, limit: int = 100) -> Plan[list[Running]]:
        """Return the jobs that have been running longest."""
        ...


class RetentionPort(Protocol):
    """Deletes what is no longer needed, and checks the rules between rows."""

    def apply_defaults(self) -> Plan[int]:
        """Apply the retention periods of the worker configuration to definitions that declare none (7 days).

        They hold for jobs that end from now on. Return how many definitions changed."""
        ...

    def retire(self, limit: int = 1000, *, delete: bool = True) -> Plan[RetentionBatch]:
        """Run one batch of retention: announce expired ended jobs as stale, and delete those announced before.

        Without `delete` they are only announced."""
        ...

    def take_for_archive(self, limit: int = 50, hold: int = MINUTE) -> Plan[list[ArchivedJob]]:
        """Return all records of the jobs that retention would delete next, for an archive.

        For `hold` microseconds no other caller gets them; after it they are given out again if they still exist."""
        ...

    def delete_archived(self, marks: Mapping[str, int]) -> Plan[list[str]]:
        """Delete jobs that `take_for_archive` returned, by id and `mark`; return their ids. Changed jobs are kept."""
        ...

    def prune_attempts(self, limit: int = 20, after: str = "") -> Plan[str | None]:
        """Delete all but the last 100 ended attempts, with their log lines, of up to `limit` jobs after `after`.

        Return the last job, to continue after it; None when there are no more. The running attempt, phases and reviews
        are kept. A `job.pruned` event names the attempts; their own events live as long as that one."""
        ...

    def tidy(self, age: int, limit: int = 1000) -> Plan[int]:
        """Delete expired or unused rows; return how many.

        Idempotency keys, concurrency keys, buckets, ended workers, old ticks, untaken hooks, ended sessions, tokens
        that were revoked or expired long ago, and old deliveries."""
        ...

    def check_integrity(self, limit: int = 10) -> Plan[list[BrokenRule]]:
        """Return the rules between rows that are broken, each with up to `limit` rows; it reads every row."""
        ...


class SettingsPort(Protocol):
    """Stored settings, and the audit of what operators changed."""

    def system_pause(self) -> Plan[Pause | None]:
        """Return the active pause of the whole system."""
        ...

    def settings(self) -> Plan[dict[str, Setting]]:
        """Return all stored settings by name."""
        ...

    def put_setting(
        self, name: str, value: str, *, by: str, revision: int | None = None,
        told: tuple[Mapping[str, object], Mapping[str, object]] | None = None,
    ) -> Plan[Setting]:  # fmt: skip
        """Save a setting. A `revision` that is not the stored one (0: none yet): `RevisionConflict`.

        The audit gets the revision and `told`, the values to show before and after; never the value, which may be
        secret."""
        ...

    def audit(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> Plan[list[AuditEntry]]:
        """Return the changes of operators, the newest first, filtered by actor, action and target where given.

        `before` is the `seq` of the last entry of a page, for the next page."""
        ...


class AdminPort(FiguresPort, RetentionPort, SettingsPort, Protocol):
    """Definitions, jobs as they are read, counts and workers."""

    def register(self, definitions: Sequence[Definition]) -> Plan[dict[tuple[str, int], int]]:
        """Save definitions and return the lane of each (key, version); several versions may exist.

        Limits are per key: those of the newest version, unless an operator has overridden them."""
        ...

    def definitions(self) -> Plan[list[DefinitionRow]]:
        """Return every definition, removed ones included. An unreadable one has an `error`; `register` repairs it."""
        ...

    def definition(self, key: str, version: int | None = None) -> Plan[DefinitionRow]:
        """Return one definition; without a version the highest that a live worker serves, else the highest.

        Unknown: `NotFound`; unreadable: `InvalidDefinition`; removed, unless this version is asked for: `Conflict`."""
        ...

    def get(self, job_ids: Sequence[str]) -> Plan[list[Job]]:
        """Return jobs by id, in the order given; those that do not exist are left out."""
        ...

    def page(
        self, which: JobFilter, *, limit: int = 50, sort: str = "-createdAt", cursor: str | None = None
    ) -> Plan[Page]:
        """Return one page of jobs, sorted by createdAt, finishedAt or priority; `-` in front for descending.

        A search by error or params examines the jobs that match the other conditions, in order of creation and only a
        limited number of them; `Page.searched` says how many, and the cursor continues after them."""
        ...

    def count(self, which: JobFilter, cap: int = 10_000) -> Plan[Count]:
        """Return the number of jobs that match, up to `cap`."""
        ...

    def counts(self) -> Plan[dict[tuple[str, int], dict[Status, int]]]:
        """Return the number of jobs of each (definition, version) in each stored status: folded counts + deltas."""
        ...

    def fold(self) -> Plan[int]:
        """Fold the deltas into the counts; return how many."""
        ...

    def attempts(self, job_id: str) -> Plan[list[Attempt]]:
        """Return the ended attempts of a job that are kept, in their order."""
        ...

    def logs(
        self, job_id: str, *, after: int = 0, limit: int = 500, level: str | None = None, phase: str | None = None,
        fence: int | None = None,
    ) -> Plan[list[StoredLog]]:  # fmt: skip
        """Return log lines of a job after a sequence number; `level` is the lowest one included."""
        ...

    def reviews(self, job_id: str) -> Plan[list[Review]]:
        """Return the reviews of a job, in their order."""
        ...

    def workers(self) -> Plan[list[WorkerRow]]:
        """Return every worker that is kept, ended ones included."""
        ...

    def clock(self) -> Plan[int]:
        """Return the store's time in microseconds since 1970."""
        ...

    def leader(self) -> Plan[str | None]:
        """Return the live worker that started first.

        The leader does timed work that every worker may do. Two workers that both believe they lead do no harm."""
        ...

    def why(self, job_id: str) -> Plan[list[Reason]]:
        """Return every reason why a job does not run, or what it does now. Unknown: `NotFound`."""
        ...

    def unserved(self) -> Plan[list[tuple[str, int, int]]]:
        """Return definitions (key, version) that no live worker has loaded, each with its number of waiting jobs.

        Those without waiting jobs are left out."""
        ...
