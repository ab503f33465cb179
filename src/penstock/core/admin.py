"""Settings, audit and retention as they can be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Setting:
    """One stored setting."""

    name: str
    value: str
    revision: int
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that an operator made."""

    seq: int
    at: datetime
    actor: str
    action: str
    target: str
    before: str | None
    after: str | None
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one batch of retention did."""

    stale: list[str]
    deleted: list[str]
