"""penstock: durable background jobs for Python.

The names are imported when they are first asked for, so that the command line begins without all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.bulk import Bulk
    from penstock.client.client import Client
    from penstock.core.access import NewToken, Role, Token
    from penstock.core.actor import Actor
    from penstock.core.context import Context, Decision
    from penstock.core.definition import RateLimit
    from penstock.core.errors import (
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
    from penstock.core.event import Event
    from penstock.core.job import Job, JobFilter, Page
    from penstock.core.json_value import JsonObject, JsonValue
    from penstock.core.retry import Backoff
    from penstock.core.transitions import Status
    from penstock.core.verdicts import Cancelled, Fail, NeedsReview, Retry, Snooze
    from penstock.core.why import Reason
    from penstock.following import AsyncEvents, Events
    from penstock.handles import DefinitionHandle, JobHandle
    from penstock.orders import Order

__all__ = [
    "Actor",
    "AsyncEvents",
    "Backoff",
    "Bulk",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Decision",
    "DefinitionHandle",
    "Event",
    "Events",
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
    "bulk": "Bulk",
    "client.client": "Client",
    "core.access": "NewToken Role Token",
    "core.actor": "Actor",
    "core.context": "Context Decision",
    "core.definition": "RateLimit",
    "core.errors": "Conflict FeedGone Forbidden IdempotencyConflict InvalidDefinition InvalidInput InvalidPayload "
    "InvalidSchedule InvalidSignature JobFailed LeaseLost MalformedPayload NotFound PenstockError RevisionConflict "
    "SchemaError SchemaNewer StoreError StoreFull StoreUnavailable Unauthenticated WaitTimeout",
    "core.event": "Event",
    "core.job": "Job JobFilter Page",
    "core.json_value": "JsonObject JsonValue",
    "core.retry": "Backoff",
    "core.transitions": "Status",
    "core.verdicts": "Cancelled Fail NeedsReview Retry Snooze",
    "core.why": "Reason",
    "following": "AsyncEvents Events",
    "handles": "DefinitionHandle JobHandle",
    "orders": "Order",
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
