"""The outbox of hook calls, written in the transaction of the change.

Only definitions with hooks have the cost: their lanes are marked, and the statements that change jobs return it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.domain import event as kinds
from penstock.domain.instant import to_datetime
from penstock.domain.plan import Statement, Steps, writes_once
from penstock.domain.worker import HookCall

KINDS = frozenset(
    {kinds.SUCCEEDED, kinds.FAILED, kinds.RETRYING, kinds.CANCELLED, kinds.STALE, kinds.DELETED},
)
"""The events that a hook can be called for."""

Call = tuple[int, str, int, str, str | None]
"""Lane, job, fence, kind and data."""


@writes_once
def take_hooks(lanes: Sequence[int], limit: int = 100) -> Steps[list[HookCall]]:
    if not lanes or limit < 1:
        return []
    found = yield Statement("take_hooks", {"lanes": list(lanes), "limit": limit}, alone=True)
    return [
        HookCall(job_id, lane, fence, kind, data, to_datetime(at))
        for _, job_id, lane, fence, kind, data, at in sorted(found)
    ]


def save(calls: Iterable[Call]) -> Steps[None]:
    """Save the calls of kinds that have hooks."""
    wanted = [call for call in calls if call[3] in KINDS]
    if wanted:
        names = ("lane", "job_id", "fence", "kind", "data")
        yield Statement("save_hooks", columns=dict(zip(names, zip(*wanted, strict=True), strict=True)))
