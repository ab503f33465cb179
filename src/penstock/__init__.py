"""penstock: durable background jobs for Python."""

from penstock.app import Penstock
from penstock.core.context import Context
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
from penstock.core.job import Job, JobFilter, Page
from penstock.core.retry import Backoff
from penstock.core.transitions import Status
from penstock.handles import DefinitionHandle, JobHandle, Order

__all__ = [
    "Backoff",
    "Conflict",
    "Context",
    "DefinitionHandle",
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
    "NotFound",
    "Order",
    "Page",
    "Penstock",
    "PenstockError",
    "RateLimit",
    "RevisionConflict",
    "SchemaError",
    "Status",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "WaitTimeout",
]
