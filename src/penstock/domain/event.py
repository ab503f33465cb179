"""Events: durable rows about changes, written in the transaction of the change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.domain import payload
from penstock.domain.states import Status, Trigger

if TYPE_CHECKING:
    from penstock.domain.json_value import JsonObject

ENQUEUED = "job.enqueued"
STARTED = "job.started"
PROGRESS = "job.progress"
PHASE_COMPLETED = "job.phase.completed"
SUCCEEDED = "job.succeeded"
FAILED = "job.failed"
RETRYING = "job.retrying"
SNOOZED = "job.snoozed"
REVIEW_NEEDED = "job.review_needed"
APPROVED = "job.approved"
REJECTED = "job.rejected"
CANCELLING = "job.cancelling"
CANCELLED = "job.cancelled"
LOST = "job.lost"
RELEASED = "job.released"
RESCHEDULED = "job.rescheduled"
STALE = "job.stale"
DELETED = "job.deleted"
PRUNED = "job.pruned"
WEBHOOK_DELIVERED = "job.webhook.delivered"
WEBHOOK_FAILED = "job.webhook.failed"
SCHEDULE_SKIPPED = "schedule.skipped"
SCHEDULE_MISSED = "schedule.missed"
WORKER_STARTED = "worker.started"
WORKER_STOPPED = "worker.stopped"
WORKER_LOST = "worker.lost"
ALERT_RAISED = "alert.raised"
ALERT_CLEARED = "alert.cleared"

TYPES = tuple(
    value for name, value in sorted(globals().items()) if name.isupper() and isinstance(value, str) and "." in value
)

_BY_ENDING = {
    (Trigger.SUCCEED, Status.SUCCEEDED): SUCCEEDED,
    (Trigger.ASK_REVIEW, Status.REVIEW_NEEDED): REVIEW_NEEDED,
    (Trigger.FAIL, Status.SCHEDULED): RETRYING,
    (Trigger.FAIL, Status.FAILED): FAILED,
    (Trigger.SNOOZE, Status.SCHEDULED): SNOOZED,
    (Trigger.RELEASE, Status.QUEUED): RELEASED,
    (Trigger.LOSE, Status.SCHEDULED): LOST,
    (Trigger.LOSE, Status.FAILED): FAILED,
}


ENDINGS = frozenset({*_BY_ENDING.values(), CANCELLED})
"""Events after which an attempt, or the job, has ended."""


def of_ending(trigger: Trigger, status: Status) -> str:
    """Return the event type of an attempt that ended by `trigger` and left its job in `status`."""
    return _BY_ENDING[trigger, status]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a job, a schedule, a worker or an alert."""

    seq: int
    """Rises within one job; between jobs it says nothing about which was committed first."""
    type: str
    at: datetime
    job_id: str | None
    subject: str | None
    """The schedule, worker or alert, for an event that is not about a job."""
    fence: int | None
    data_text: str | None
    """Its data, as the stored JSON text."""
    attempt: int | None = None
    """The number of the attempt that has this fence; None: there is no fence, or the attempt is no longer kept."""
    duration: float | None = None
    """Seconds that the attempt took; only where the attempt or the job ended."""
    source: str | None = None
    """The file that the job's handler is in, such as the job file."""
    schedule_id: str | None = None
    """The schedule that made the job."""
    schedule_expression: str | None = None
    """When that schedule runs now, such as `0 3 * * *`; None also when it was removed."""

    @property
    def data(self) -> JsonObject:
        """The data of the event; may be empty. A new object on every access."""
        return payload.object_of(self.data_text)


@dataclass(frozen=True, slots=True)
class News:
    """One page of the feed: unseen events, and the cursor for the next page."""

    events: list[Event]
    cursor: str
    more: bool
    """More events exist: read again without waiting."""
