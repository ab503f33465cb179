"""penstock: durable background jobs for Python.

The names are imported when they are first asked for, so that the command line begins without all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.client.client import Client
    from penstock.definitions.handles import DefinitionHandle
    from penstock.domain.access import NewToken, Role, Token
    from penstock.domain.actor import Actor
    from penstock.domain.context import Context, Decision
    from penstock.domain.control_exceptions import Cancelled, Fail, NeedsReview, Retry, Snooze
    from penstock.domain.definition import RateLimit
    from penstock.domain.errors import (
        Conflict,
        FeedGone,
        Forbidden,
        IdempotencyConflict,
        InvalidDefinition,
        InvalidInput,
        InvalidPayload,
        InvalidSchedule,
        InvalidSignature,
        JobFailed,
        LeaseLost,
        MalformedPayload,
        NotFound,
        PenstockError,
        RevisionConflict,
        SchemaError,
        SchemaNewer,
        StoreError,
        StoreFull,
        StoreUnavailable,
        Unauthenticated,
        WaitTimeout,
    )
    from penstock.domain.event import Event
    from penstock.domain.job import Job, JobFilter, Page
    from penstock.domain.json_value import JsonObject, JsonValue
    from penstock.domain.retry import Backoff
    from penstock.domain.states import Status
    from penstock.domain.why import Reason
    from penstock.surface.events import AsyncEventStream, EventStream
    from penstock.surface.job_handle import JobHandle
    from penstock.surface.jobs import Bulk
    from penstock.surface.orders import Order

__all__ = [
    "Actor",
    "AsyncEventStream",
    "Backoff",
    "Bulk",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Decision",
    "DefinitionHandle",
    "Event",
    "EventStream",
    "Fail",
    "FeedGone",
    "Forbidden",
    "IdempotencyConflict",
    "InvalidDefinition",
    "InvalidInput",
    "InvalidPayload",
    "InvalidSchedule",
    "InvalidSignature",
    "Job",
    "JobFailed",
    "JobFilter",
    "JobHandle",
    "JsonObject",
    "JsonValue",
    "LeaseLost",
    "MalformedPayload",
    "NeedsReview",
    "NewToken",
    "NotFound",
    "Order",
    "Page",
    "Penstock",
    "PenstockError",
    "RateLimit",
    "Reason",
    "Retry",
    "RevisionConflict",
    "Role",
    "SchemaError",
    "SchemaNewer",
    "Snooze",
    "Status",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "Token",
    "Unauthenticated",
    "WaitTimeout",
]

_HOMES = {
    "app": "Penstock",
    "client.client": "Client",
    "domain.access": "NewToken Role Token",
    "domain.actor": "Actor",
    "domain.context": "Context Decision",
    "domain.definition": "RateLimit",
    "domain.errors": "Conflict FeedGone Forbidden IdempotencyConflict InvalidDefinition InvalidInput InvalidPayload "
    "InvalidSchedule InvalidSignature JobFailed LeaseLost MalformedPayload NotFound PenstockError RevisionConflict "
    "SchemaError SchemaNewer StoreError StoreFull StoreUnavailable Unauthenticated WaitTimeout",
    "domain.event": "Event",
    "domain.job": "Job JobFilter Page",
    "domain.json_value": "JsonObject JsonValue",
    "domain.retry": "Backoff",
    "domain.states": "Status",
    "domain.control_exceptions": "Cancelled Fail NeedsReview Retry Snooze",
    "domain.why": "Reason",
    "surface.events": "AsyncEventStream EventStream",
    "surface.job_handle": "JobHandle",
    "surface.jobs": "Bulk",
    "surface.orders": "Order",
    "definitions.handles": "DefinitionHandle",
}
"""The public names of each module."""
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
