"""The port of event readers. Rules for all ports: `ports.store`."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.event import Event, News
from penstock.domain.plan import Plan


class FeedPort(Protocol):
    """Reads events in the order of their commits. The cursor is opaque; it never skips a late commit."""

    def tip(self) -> Plan[str]:
        """Return the cursor of this moment: events committed later come after it."""
        ...

    def origin(self) -> Plan[str]:
        """Return the cursor before the oldest event that is kept."""
        ...

    def read(self, cursor: str, limit: int = 500) -> Plan[News]:
        """Return events after the cursor, each once. If some were deleted already: `FeedGone`."""
        ...

    def of_job(self, job_id: str, after: int = 0, limit: int = 500) -> Plan[list[Event]]:
        """Return the events of one job, in order."""
        ...

    def prune(self, age: int, limit: int = 1000) -> Plan[int]:
        """Delete up to `limit` events older than `age` whose job or attempt was deleted; return how many.

        0 means that none is left."""
        ...
