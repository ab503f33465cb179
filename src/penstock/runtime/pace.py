"""How long a process of a fleet rests when it has nothing to do."""

from __future__ import annotations

import random

from penstock.domain.worker import HeartbeatAnswer

_TIMES = 4.0
_LONGEST = 60.0
_LONGEST_BETWEEN_CLAIMS = 10.0
_DELAY = (0.1, 0.3)


class Pace:
    """Stretches the rests of workers, so that a large fleet asks the store little more often than one worker would.

    The worker that has been there longest does timed work as often as one that is alone; the others look all the same,
    but seldom. Every worker looks when the doorbell rings, and when something is due that it knows of.
    """

    def __init__(self) -> None:
        self.workers: int = 1
        """How many workers live, by the last heartbeat."""
        self.leads: bool = True
        """Whether none of them has been there longer."""

    def update(self, answer: HeartbeatAnswer) -> bool:
        """Take over the facts of the fleet; True when this worker leads from now on."""
        took_over = answer.leads and not self.leads
        self.workers, self.leads = answer.workers, answer.leads
        return took_over

    def rest(self, seconds: float) -> float:
        """How long to rest between looks at shared work, where a worker that is alone would rest for `seconds`."""
        return seconds if self.leads else self._stretched(seconds, _LONGEST)

    def rest_between_claims(self, seconds: float, *, notified: bool) -> float:
        """How long to rest between claims; stretched only where the doorbell announces new jobs."""
        return self._stretched(seconds, _LONGEST_BETWEEN_CLAIMS) if notified else seconds

    def delay_after_due(self) -> float:
        """How long after its due time to look for something: the worker that leads should be first."""
        return 0.0 if self.leads else random.uniform(*_DELAY)

    def _stretched(self, seconds: float, longest: float) -> float:
        if self.workers <= 1:
            return seconds
        # Random, so that workers do not look in step.
        return max(seconds, min(longest, _TIMES * seconds * self.workers)) * random.uniform(0.9, 1.1)


ALONE = Pace()
"""The pace of a process that knows no others."""
