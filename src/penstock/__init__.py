"""penstock: durable background jobs for Python."""

from penstock.app import Penstock
from penstock.bulk import Bulk
from penstock.core.context import Context, Decision
from penstock.core.definition import RateLimit
from penstock.core.errors import (
    Conflict,
    FeedGone,
    IdempotencyConflict,
    InvalidDefinition,
    InvalidInput,
    InvalidPayload,
    InvalidSchedule,
    JobFailed,
    LeaseLost,
    NotFound,
    PenstockError,
    RevisionConflict,
    SchemaError,
    StoreError,
    StoreFull,
    StoreUnavailable,
    WaitTimeout,
)
from penstock.core.event import Event
from penstock.core.job import Job, JobFilter, Page
from penstock.core.retry import Backoff
from penstock.core.transitions import Status
from penstock.core.verdicts import Cancelled, Fail, NeedsReview, Retry, Snooze
from penstock.core.why import Reason
from penstock.following import AsyncEvents, Events
from penstock.handles import DefinitionHandle, JobHandle
from penstock.orders import Order

__all__ = [
    "AsyncEvents",
    "Backoff",
    "Bulk",
    "Cancelled",
    "Conflict",
    "Context",
    "Decision",
    "DefinitionHandle",
    "Event",
    "Events",
    "Fail",
    "FeedGone",
    "IdempotencyConflict",
    "InvalidDefinition",
    "InvalidInput",
    "InvalidPayload",
    "InvalidSchedule",
    "Job",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "LeaseLost",
    "NeedsReview",
    "NotFound",
    "Order",
    "Page",
    "Penstock",
    "PenstockError",
    "RateLimit",
    "Reason",
    "Retry",
    "RevisionConflict",
    "SchemaError",
    "Snooze",
    "Status",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "WaitTimeout",
]
