"""penstock: durable background jobs for Python.

The names are imported when they are first asked for, so that the command line begins without all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.app import Penstock
    from penstock.client.client import Client
    from penstock.definitions.handles import DefinitionHandle, JobHandle
    from penstock.definitions.orders import Order
    from penstock.domain.access import Actor, NewToken, Role, Token
    from penstock.domain.context import Cancelled, Context, Decision, Fail, NeedsReview, Retry, Snooze
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
    from penstock.domain.job import Job
    from penstock.domain.job_list import JobFilter, Page
    from penstock.domain.json_value import JsonObject, JsonValue
    from penstock.domain.retry import Backoff
    from penstock.domain.states import Status
    from penstock.domain.why import Reason
    from penstock.operations.bulk import Bulk
    from penstock.operations.events import AsyncEvents, Events

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
    "operations.bulk": "Bulk",
    "client.client": "Client",
    "domain.access": "Actor NewToken Role Token",
    "domain.context": "Cancelled Context Decision Fail NeedsReview Retry Snooze",
    "domain.definition": "RateLimit",
    "domain.errors": "Conflict FeedGone Forbidden IdempotencyConflict InvalidDefinition InvalidInput InvalidPayload "
    "InvalidSchedule InvalidSignature JobFailed LeaseLost MalformedPayload NotFound PenstockError RevisionConflict "
    "SchemaError SchemaNewer StoreError StoreFull StoreUnavailable Unauthenticated WaitTimeout",
    "domain.event": "Event",
    "domain.job": "Job",
    "domain.job_list": "JobFilter Page",
    "domain.json_value": "JsonObject JsonValue",
    "domain.retry": "Backoff",
    "domain.states": "Status",
    "domain.why": "Reason",
    "operations.events": "AsyncEvents Events",
    "definitions.handles": "DefinitionHandle JobHandle",
    "definitions.orders": "Order",
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
