"""How long a process of a fleet rests that has nothing to do."""

from __future__ import annotations

import random

from penstock.domain.worker import HeartbeatAnswer

_TIMES = 4.0
_LONGEST = 60.0
_LONGEST_UNASKED = 10.0
_BEHIND = (0.1, 0.3)


class Pace:
    """Stretches the rests of many, so that a large fleet asks the store little more often than one worker would.

    The worker that has been there longest does timed work as often as one that is alone; the others look all the same,
    but seldom. Everybody looks at once when the doorbell rings, and when something that it knows of is due.
    """

    def __init__(self) -> None:
        self.workers: int = 1
        """How many workers live, as this one last heard."""
        self.leads: bool = True
        """Whether none of them has been there longer."""

    def update(self, answer: HeartbeatAnswer) -> bool:
        """What a worker has learned of the fleet; True when it leads from now on."""
        took_over = answer.leads and not self.leads
        self.workers, self.leads = answer.workers, answer.leads
        return took_over

    def rest(self, seconds: float) -> float:
        """How long to rest between looks at what anybody may do, where one that is alone would rest so long."""
        return seconds if self.leads else self._stretched(seconds, _LONGEST)

    def rest_between_claims(self, seconds: float, *, notified: bool) -> float:
        """The same between looks for work of one's own, which is stretched only while the doorbell is heard."""
        return self._stretched(seconds, _LONGEST_UNASKED) if notified else seconds

    def behind(self) -> float:
        """How long after the moment at which something is due to look for it: the one that leads shall be first."""
        return 0.0 if self.leads else random.uniform(*_BEHIND)

    def _stretched(self, seconds: float, longest: float) -> float:
        if self.workers <= 1:
            return seconds
        # Not in step with the others.
        return max(seconds, min(longest, _TIMES * seconds * self.workers)) * random.uniform(0.9, 1.1)


ALONE = Pace()
"""The pace of a process that knows of no others."""
