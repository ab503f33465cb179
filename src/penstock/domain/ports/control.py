"""The port of operators: what they change about jobs and definitions. Rules for all ports: `ports.store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from penstock.domain.definition import Pause
from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Plan
from penstock.domain.states import Status


class DefinitionControlPort(Protocol):
    """Changes to definitions, by operators and after the code of a definition was removed."""

    def pause(self, key: str, pause: Pause | None, *, by: str) -> Plan[None]:
        """Pause a definition (or `*`: the whole system), or resume it with None. Unknown: `NotFound`."""
        ...

    def enable(self, key: str, enabled: bool, *, by: str) -> Plan[None]:
        """Allow or refuse the creation of jobs of a definition. Enabling a retired definition brings it back."""
        ...

    def override(self, key: str, overrides: Mapping[str, object], *, by: str) -> Plan[None]:
        """Replace values of the code by an operator's: unknown names or values out of range are `InvalidInput`.

        The limits `concurrency`, `key_concurrency`, `rate_count`, `rate_period` (microseconds), `rate_per_key` apply at
        once; `priority` and `max_attempts` to jobs created later without their own; `backoff` (as JSON) and `timeout`
        (microseconds, 0: none) to attempts that begin later. An empty mapping restores the values of the code."""
        ...

    def retire_definition(self, key: str, *, by: str) -> Plan[None]:
        """Refuse the creation of jobs of a definition, and disable the schedules that code has declared for it.

        Waiting jobs stay as they are; ended ones cannot be retried. `register` brings the definition back. A live
        worker that has it loaded or an enabled schedule of an operator: `Conflict` naming them. Unknown: `NotFound`."""
        ...

    def remove_definition(self, key: str, *, version: int | None = None, by: str) -> Plan[None]:
        """Remove a definition, or one version of it, from lists, and delete the schedules that code declared for it.

        Ended jobs stay readable until retention deletes them, with their secret parameters masked; idempotency keys
        live as long as before. With its last version, the changes of operators are deleted too. `register` brings it
        back. An unfinished job, a live worker that has it loaded or an enabled schedule of an operator: `Conflict`
        naming them. If a transaction that began earlier creates a job of it, `tidy` lists it again."""
        ...


class ControlPort(DefinitionControlPort, Protocol):
    """Changes to jobs. Each change writes its event, and an audit entry when `by` is given."""

    def cancel(self, job_ids: Sequence[str], *, by: str | None = None) -> Plan[dict[str, Status]]:
        """Cancel jobs: waiting ones and reviews end now, running ones become cancelling.

        Return the status that each has now. Ids that do not exist are left out; an ended job keeps its status."""
        ...

    def reschedule(
        self, job_id: str, *, due: int | None = None, delay: int = 0, priority: int | None = None, by: str | None = None
    ) -> Plan[Status]:
        """Change the due time, and optionally the priority, of a scheduled or queued job. Any other: `Conflict`."""
        ...

    def reprioritise(self, job_ids: Sequence[str], priority: int, *, by: str | None = None) -> Plan[list[str]]:
        """Change the priority of waiting jobs and keep their due time; return the ids of those changed."""
        ...

    def retry(
        self, job_ids: Sequence[str], *, from_position: int | None = None, by: str | None = None
    ) -> Plan[dict[str, Status]]:
        """Queue failed, cancelled and stale jobs again: new generation, full budget of attempts and losses.

        Finished phases are kept; `from_position` deletes those from that position on (0: all). Return the status that
        each has now; jobs in other states keep theirs. An active job with the same unique key: `Conflict` naming it."""
        ...

    def approve(
        self, job_id: str, *, by: str, note: str | None = None, result: str | None = None, finished: bool
    ) -> Plan[Status]:
        """Approve a review. Not in review: `Conflict`.

        `finished`: no phase is left, and the job succeeds with the handler's result or with `result`; else it is
        queued again."""
        ...

    def reject(self, job_id: str, *, by: str, note: str | None = None) -> Plan[Status]:
        """Reject a review: the job fails, with the note as its error. Not in review: `Conflict`."""
        ...

    def delete(self, job_ids: Sequence[str], *, by: str | None = None) -> Plan[list[str]]:
        """Delete ended jobs and everything that belongs to them; return their ids. Active jobs are left out.

        A `job.deleted` event stays."""
        ...

    def select(self, which: JobFilter, limit: int, after: str | None = None) -> Plan[list[str]]:
        """Return ids of the jobs that match a filter, in order of id, for bulk changes. A search: `InvalidInput`."""
        ...
