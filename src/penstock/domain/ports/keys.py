"""What penstock asks of a store for concurrency keys; a part of the jobs port, whose rules hold here too."""

from __future__ import annotations

from typing import Protocol

from penstock.domain.plan import Plan


class KeysPort(Protocol):
    """Sweeps over the concurrency keys that have blocked jobs."""

    def repair_limits(self, limit: int = 1000, after: str = "") -> Plan[str | None]:
        """Admit blocked jobs whose concurrency key has room: up to `limit` keys after `after` are looked at. The last
        of them, to go on after it; None when there were no more. Rates and the jobs that they put off follow a clock
        that was set back."""
        ...

    def keys_kept(self) -> Plan[bool]:
        """Whether there may be anything to do for `give_way`."""
        ...

    def give_way(self, limit: int = 1000, after: str = "") -> Plan[str | None]:
        """Of each concurrency key, block admitted jobs again that are queued in a lane that no live worker serves while
        one serves another version of the definition, as many as jobs of served lanes are blocked; these are admitted.
        From then on keys admit jobs of that lane after all others, until a live worker serves it: then the next call
        returns them to their rank. Nothing changes while live workers serve no version. `limit`, `after` and the answer
        are as with `repair_limits`."""
        ...
