"""How long a process of a fleet rests that has nothing to do."""

from __future__ import annotations

import random

_LONGEST = 30.0


class Pace:
    """Stretches the rests of many, so that all together ask the store about as often as one of them would.

    Each of them looks at once when the doorbell rings, and when something that it knows of is due.
    """

    def __init__(self) -> None:
        self.workers = 1
        """How many workers live, as this one last heard."""

    def rest(self, seconds: float) -> float:
        """How long to rest where one that is alone would rest so long; not in step with the others."""
        if self.workers <= 1:
            return seconds
        return max(seconds, min(_LONGEST, seconds * self.workers)) * random.uniform(0.9, 1.1)


ALONE = Pace()
"""The pace of a process that knows of no others."""
