"""What penstock asks of a store for retention and care; a part of the ports, whose rules hold here too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.domain.admin import Remains, Sweep, Unsound
from penstock.domain.instant import MINUTE
from penstock.domain.plan import Plan


class RetentionPort(Protocol):
    """The part of the admin port that keeps the store small, and says whether its rows fit together."""

    def apply_defaults(self) -> Plan[int]:
        """Let definitions that say nothing (they have 7 days) keep their ended jobs as long as the stored configuration
        of workers says, for jobs that end from now on; how many changed."""
        ...

    def retire(self, limit: int = 1000, *, delete: bool = True) -> Plan[Sweep]:
        """Retention, one batch: ended jobs past their time are announced as stale, then deleted with all that
        belongs to them. Without `delete` they are only announced."""
        ...

    def take_remains(self, limit: int = 50, hold: int = MINUTE) -> Plan[list[Remains]]:
        """All that there is of the jobs that retention would delete next, for an archive. Nobody else is given them
        within `hold`; after it whoever asks is, if they are still there."""
        ...

    def delete_remains(self, marks: Mapping[str, int]) -> Plan[list[str]]:
        """Delete jobs of which `take_remains` told, by id and `mark`; those changed since are left. Which went."""
        ...

    def forget_attempts(self, limit: int = 20, after: str = "") -> Plan[str | None]:
        """Remove all but the last 100 ended attempts of jobs that run again and again, with the lines that they wrote:
        a batch of up to `limit` jobs after `after`. The last of them, to go on after it; None when there were no more.

        The attempt that runs is left alone, and so are phases and reviews. A `job.pruned` event says which attempts
        went; their own events stay as long as that one."""
        ...

    def tidy(self, age: int, limit: int = 1000) -> Plan[int]:
        """Remove expired idempotency keys, concurrency keys and buckets that nothing uses, ended workers, old ticks and
        hooks that nobody has taken, sessions that have ended, tokens revoked or expired for long, old deliveries."""
        ...

    def soundness(self, limit: int = 10) -> Plan[list[Unsound]]:
        """The rules between rows that do not hold, each with up to `limit` rows that break it; it reads everything."""
        ...
