"""The states of a job and the transitions between them, in one table.

The diagram in the docs is generated from `TABLE`, the SQL of both stores is tested against it pair by pair, and CHECK
constraints of the schema refuse impossible rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Status(StrEnum):
    """The state of a job; `stale` is derived, the others are stored."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    REVIEW_NEEDED = "review_needed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STALE = "stale"

    @property
    def code(self) -> int:
        """The small integer that the stores keep."""
        return CODES[self]

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


CODES: Mapping[Status, int] = {
    Status.SCHEDULED: 0,
    Status.QUEUED: 1,
    Status.RUNNING: 2,
    Status.CANCELLING: 3,
    Status.REVIEW_NEEDED: 4,
    Status.SUCCEEDED: 5,
    Status.FAILED: 6,
    Status.CANCELLED: 7,
    Status.STALE: 8,
}
"""The stored code of each state. Stored rows keep it: a new state takes a new number, and the order has no meaning."""
RESERVED: Mapping[str, int] = {"waiting": 9}
"""Planned active states. The schema accepts their codes, as SQLite cannot alter a CHECK; nothing writes them yet."""
BY_CODE: Mapping[int, Status] = {code: status for status, code in CODES.items()}

LIVE = frozenset({Status.RUNNING, Status.CANCELLING})
PENDING = frozenset({Status.SCHEDULED, Status.QUEUED})
QUEUED_OR_LIVE = LIVE | {Status.QUEUED}
ENDED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})
TERMINAL = ENDED | {Status.STALE}
ACTIVE = frozenset(Status) - TERMINAL
STORED = frozenset(Status) - {Status.STALE}
CLAIMED = LIVE | {Status.REVIEW_NEEDED, Status.SUCCEEDED}
"""States that a job reaches only after a claim."""
ATTENTION = frozenset({Status.REVIEW_NEEDED, Status.FAILED, Status.CANCELLED})
"""States that lists are filtered by most often."""

SETS: Mapping[str, tuple[int, ...]] = {
    name: tuple(sorted({*(status.code for status in states), *more}))
    for name, states, more in (
        ("pending", PENDING, ()),
        ("live", LIVE, ()),
        ("queued_or_live", QUEUED_OR_LIVE, ()),
        ("claimed", CLAIMED, ()),
        ("attention", ATTENTION, ()),
        ("ended", ENDED, ()),
        ("active", ACTIVE, RESERVED.values()),
        ("stored", STORED, RESERVED.values()),
    )
}
"""Named sets of states for SQL, as stored codes; reserved ones included."""


class Trigger(StrEnum):
    """What changes a job's state."""

    CREATE = "create"
    DUE = "due"
    RESCHEDULE = "reschedule"
    CLAIM = "claim"
    SUCCEED = "succeed"
    ASK_REVIEW = "ask_review"
    APPROVE = "approve"
    REJECT = "reject"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    LOSE = "lose"
    CANCEL = "cancel"
    RETRY = "retry"
    RETIRE = "retire"
    DELETE = "delete"


ENDINGS = frozenset({Trigger.SUCCEED, Trigger.ASK_REVIEW, Trigger.FAIL, Trigger.SNOOZE, Trigger.RELEASE, Trigger.LOSE})
"""Triggers that end an attempt. From `cancelling` each of them leads to `cancelled`."""

_S = Status
_T = Trigger
_ENDS = (_S.SUCCEEDED, _S.FAILED, _S.CANCELLED)

# (from, trigger) -> allowed targets. None: before creation or after deletion.
TABLE: Mapping[tuple[Status | None, Trigger], frozenset[Status | None]] = {
    (None, _T.CREATE): frozenset({_S.SCHEDULED, _S.QUEUED}),
    (_S.SCHEDULED, _T.DUE): frozenset({_S.QUEUED}),
    (_S.SCHEDULED, _T.RESCHEDULE): frozenset({_S.SCHEDULED, _S.QUEUED}),
    (_S.QUEUED, _T.RESCHEDULE): frozenset({_S.SCHEDULED, _S.QUEUED}),
    (_S.QUEUED, _T.CLAIM): frozenset({_S.RUNNING}),
    (_S.RUNNING, _T.SUCCEED): frozenset({_S.SUCCEEDED}),
    (_S.RUNNING, _T.ASK_REVIEW): frozenset({_S.REVIEW_NEEDED}),
    (_S.RUNNING, _T.FAIL): frozenset({_S.SCHEDULED, _S.FAILED}),
    (_S.RUNNING, _T.SNOOZE): frozenset({_S.SCHEDULED}),
    (_S.RUNNING, _T.RELEASE): frozenset({_S.QUEUED}),
    (_S.RUNNING, _T.LOSE): frozenset({_S.SCHEDULED, _S.FAILED}),
    **{(_S.CANCELLING, trigger): frozenset({_S.CANCELLED}) for trigger in sorted(ENDINGS)},
    (_S.REVIEW_NEEDED, _T.APPROVE): frozenset({_S.QUEUED, _S.SUCCEEDED}),
    (_S.REVIEW_NEEDED, _T.REJECT): frozenset({_S.FAILED}),
    (_S.SCHEDULED, _T.CANCEL): frozenset({_S.CANCELLED}),
    (_S.QUEUED, _T.CANCEL): frozenset({_S.CANCELLED}),
    (_S.REVIEW_NEEDED, _T.CANCEL): frozenset({_S.CANCELLED}),
    (_S.RUNNING, _T.CANCEL): frozenset({_S.CANCELLING}),
    (_S.CANCELLING, _T.CANCEL): frozenset({_S.CANCELLING}),
    **{(status, _T.RETRY): frozenset({_S.QUEUED}) for status in (_S.FAILED, _S.CANCELLED, _S.STALE)},
    **{(status, _T.RETIRE): frozenset({_S.STALE}) for status in _ENDS},
    **{(status, _T.DELETE): frozenset({None}) for status in (*_ENDS, _S.STALE)},
}


def allowed(status: Status | None, trigger: Trigger) -> frozenset[Status | None]:
    """Return the allowed targets of `trigger` for a job in `status`; empty when it is not allowed."""
    return TABLE.get((status, trigger), frozenset())


def sources(trigger: Trigger) -> frozenset[Status]:
    """Return the states in which `trigger` is allowed."""
    return frozenset(status for (status, name) in TABLE if name is trigger and status is not None)


def mermaid() -> str:
    """Return the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for (status, trigger), targets in TABLE.items():
        for target in sorted(targets, key=lambda each: each or ""):
            lines.append(f"    {status or '[*]'} --> {target or '[*]'}: {trigger}")
    return "\n".join(lines)
