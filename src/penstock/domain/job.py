"""Jobs: drafts to create, claimed jobs, and jobs as they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, overload

from penstock.domain import payload
from penstock.domain.states import Status

if TYPE_CHECKING:
    from penstock.domain.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Draft:
    """A job to be created: validated, not stored yet."""

    id: str
    lane: int
    definition: str
    params: str
    priority: int
    max_attempts: int
    due: int | None = None
    """The instant it is due; None: `delay` after the store's now."""
    delay: int = 0
    idempotency_key: str | None = None
    idempotency_life: int = 7 * 86_400_000_000
    key_scope: str = ""
    """The scope of its idempotency key: a key of one scope never answers with a job of another."""
    params_digest: str | None = None
    unique: str | None = None
    concurrency_key: str | None = None
    reference_type: str | None = None
    reference_id: str | None = None
    tags: tuple[str, ...] = ()
    webhook_url: str | None = None
    parent: str | None = None
    rerun_of: str | None = None
    schedule: str | None = None
    scheduled_for: int | None = None
    traceparent: str | None = None
    """With its `tracestate` after a space, where there is one: `trace_context` joins and splits them."""
    actor: str | None = None
    priority_given: bool = True
    """Whether the priority was chosen for this job; if not, an operator's override replaces it."""
    attempts_given: bool = True
    """The same for `max_attempts`."""

    @property
    def is_plain(self) -> bool:
        """Whether it needs only its own row: no idempotency, unique or concurrency key, and no tags."""
        return not (self.idempotency_key or self.unique or self.concurrency_key or self.tags)


class UniformDrafts(Sequence[Draft]):
    """Drafts that differ in their ids and parameters only: the first, and the ids and parameters of all."""

    __slots__ = ("first", "ids", "params")

    def __init__(self, first: Draft, ids: Sequence[str], params: Sequence[str]) -> None:
        self.first: Draft = first
        self.ids: Sequence[str] = ids
        self.params: Sequence[str] = params

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Draft: ...

    @overload
    def __getitem__(self, index: slice) -> UniformDrafts: ...

    def __getitem__(self, index: int | slice) -> Draft | UniformDrafts:
        if isinstance(index, slice):
            return UniformDrafts(self.first, self.ids[index], self.params[index])
        return replace(self.first, id=self.ids[index], params=self.params[index])


class Created(NamedTuple):
    """The answer to a creation: the job that is there now, and whether this call made it."""

    job_id: str
    status: Status
    created: bool


class Claimed(NamedTuple):
    """A job that a worker has claimed, with what it needs to run it."""

    job_id: str
    lane: int
    fence: int
    attempt: int
    max_attempts: int
    lost: int
    params: str
    reference_type: str | None
    reference_id: str | None
    traceparent: str | None
    """As the draft has it."""
    schedule: str | None
    scheduled_for: int | None
    rank: int = 0
    tags: str | None = None
    """A JSON array."""
    concurrency_key: str | None = None


class QueuePosition(NamedTuple):
    """The position of a job in its lane: the smaller one is claimed first."""

    rank: int
    job_id: str


FIRST_POSITION = QueuePosition(-(2**63), "00000000-0000-0000-0000-000000000000")
"""The position before every job."""


class Held(NamedTuple):
    """A job held by a worker: every write of an attempt names it.

    The fence alone is not enough: after a failover or a restore that lost claims, the same fence is issued again."""

    job_id: str
    fence: int
    worker: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is read: its rows at one moment."""

    id: str
    definition_key: str
    definition_version: int
    status: Status
    outcome: Status | None
    params_text: str
    """The parameters as the JSON text that is stored."""
    result_text: str | None
    """The result as the JSON text that is stored."""
    error: str | None
    error_type: str | None
    attempts: int
    max_attempts: int
    lost: int
    """Consecutive losses; an attempt that ends without a loss resets them."""
    fence: int
    generation: int
    priority: int
    progress: float | None
    progress_message: str | None
    current_phase: str | None
    reference_type: str | None
    reference_id: str | None
    tags: tuple[str, ...]
    idempotency_key: str | None
    concurrency_key: str | None
    unique: str | None
    blocked: bool
    webhook_url: str | None
    schedule_id: str | None
    scheduled_for: datetime | None
    parent_id: str | None
    rerun_of: str | None
    actor: str | None
    created_at: datetime
    run_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    stale_at: datetime | None
    cancel_requested_at: datetime | None
    worker_id: str | None
    webhook_sent: bool | None = None
    """Whether a webhook about it has reached a receiver; None: there was none to send."""
    duration: float | None = None
    """Seconds that its latest attempt took, without waiting before and after; None: it has not ended, or none began."""

    @property
    def params(self) -> JsonObject:
        """The parameters. A new object each time: changing it changes nothing else."""
        return payload.object_of(self.params_text)

    @property
    def result(self) -> JsonValue:
        """What the handler returned; None before it has succeeded."""
        return payload.value_of(self.result_text)
