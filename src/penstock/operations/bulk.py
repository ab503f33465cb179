"""Changes of many jobs at once: what is to be done to which, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.domain.definition import check_priority
from penstock.domain.errors import Hint, InvalidInput
from penstock.domain.job_list import JobFilter
from penstock.domain.plan import Plan
from penstock.domain.states import Status, Trigger, sources
from penstock.storage.commands import control

BATCH = 500
"""How many jobs one transaction changes."""
MOST = 100_000
"""How many jobs one call looks at, if it is not told."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """What came of a change in bulk: how many jobs it spoke of, changed, and left as they were."""

    matched: int
    changed: int
    skipped: int
    """Their status did not allow it, or another job held their unique key."""

    def plus(self, matched: int, changed: int) -> Bulk:
        return Bulk(self.matched + matched, self.changed + changed, self.skipped + matched - changed)


@dataclass(frozen=True, slots=True)
class _Action:
    """One thing that can be done to many jobs."""

    fits: frozenset[Status]
    plan: Callable[..., Plan[Any]]
    becomes: frozenset[Status] = frozenset()


_ACTIONS = {
    "cancel": _Action(
        sources(Trigger.CANCEL) - {Status.CANCELLING},
        control.cancel,
        frozenset({Status.CANCELLED, Status.CANCELLING}),
    ),
    "retry": _Action(sources(Trigger.RETRY), control.retry, frozenset({Status.QUEUED})),
    "delete": _Action(sources(Trigger.DELETE), control.delete),
    "reprioritise": _Action(sources(Trigger.RESCHEDULE), control.reprioritise),
}


class BulkChange:
    """A change in bulk as it was asked for, checked."""

    def __init__(
        self,
        action: str,
        limit: int,
        everything: bool,
        priority: int | None,
        by: str | None,
        which: Mapping[str, Any],
    ) -> None:
        if action not in _ACTIONS:
            raise InvalidInput(f"{action!r:.80} cannot be done in bulk.", hint=f"These can: {', '.join(_ACTIONS)}.")
        if given.integer(limit, "limit") < 1:
            raise InvalidInput(f"limit must be at least 1, not {limit}.")
        if (priority is not None) != (action == "reprioritise"):
            raise InvalidInput("reprioritise needs a priority, and nothing else takes one.")
        self.action = action
        self.which: JobFilter = given.job_filter(which)
        if self.which == JobFilter() and not everything:
            raise InvalidInput(
                f"{action} in bulk without a filter would change every job.",
                hint=Hint(
                    "Say everything=True to mean that.",
                    cli="Say --all to mean that.",
                    http='Send `"everything": true` to mean that.',
                ),
            )
        self._limit = limit
        self._arguments: dict[str, Any] = {"by": given.actor(by)}
        if priority is not None:
            check_priority(priority, action)
            self._arguments["priority"] = priority

    def room(self, done: Bulk) -> int:
        """How many jobs the next batch may have."""
        return min(BATCH, self._limit - done.matched)

    def fitting(self, job_ids: Sequence[str]) -> JobFilter:
        """Those of these jobs whose status allows the change."""
        return JobFilter(job_id=tuple(job_ids), status=tuple(sorted(_ACTIONS[self.action].fits)))

    def plan(self, job_ids: Sequence[str]) -> Plan[Any]:
        return _ACTIONS[self.action].plan(job_ids, **self._arguments)

    def changed(self, answer: dict[str, Status] | list[str]) -> list[str]:
        """The jobs that the store says it has changed."""
        if isinstance(answer, list):
            return answer
        return [job_id for job_id, status in answer.items() if status in _ACTIONS[self.action].becomes]
