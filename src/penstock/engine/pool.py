"""The slots of one kind of isolation: what waits for one, what has one, and who must be alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

from penstock.core.job import Held
from penstock.engine.holding import Holding

_LAST_CHANCE = 2
"""After so many losses one more would end the job: it runs with nobody beside it, so that guilt is certain."""

_PATIENCE = 30.0
"""So long a job waits to be alone before it runs beside what does not end."""

_MOST_AT_ONCE = 500


class Pool:
    """A number of slots; jobs with a loss behind them get theirs one at a time."""

    def __init__(
        self, slots: int, ahead: int, *, losses: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`losses`: jobs with a loss behind them may come here; where they never do, nobody looks for them."""
        self.slots = slots
        self.ahead = ahead
        self._losses = losses
        self._clock = clock
        self.lanes: list[int] = []
        self.waiting: deque[Holding] = deque()
        self.running: set[Holding] = set()
        self._waits_since: dict[Held, float] = {}

    @property
    def free(self) -> int:
        """Slots that nobody has or waits for."""
        return self.slots - len(self.running) - len(self.waiting)

    @property
    def busy(self) -> bool:
        """More than half of the slots are taken."""
        return 2 * len(self.running) > self.slots

    @property
    def room(self) -> int:
        """How many jobs may be claimed at once; while these begin, the next ones are on their way.

        None while a job has its last chance, or waits for it: whoever came now would wait for its end, held by us."""
        if self.is_left_alone or (self._losses and any(map(_has_last_chance, self.waiting))):
            return 0
        return min(self.free + self.ahead, _MOST_AT_ONCE)

    @property
    def is_left_alone(self) -> bool:
        """Whether somebody runs beside whom nobody may start."""
        return self._losses and any(map(_has_last_chance, self.running))

    @property
    def startable(self) -> int:
        """How many of those that wait have a slot, where none has a loss behind it."""
        return min(len(self.waiting), self.slots - len(self.running))

    def next(self) -> Holding | None:
        """The first of them; the caller puts it into `running`."""
        return self.waiting.popleft() if self.waiting and len(self.running) < self.slots else None

    def take(self) -> Iterator[Holding]:
        """What may start now, in its order; the caller puts each into `running`."""
        if not self.waiting or self.is_left_alone:
            return
        while self.waiting and not self.waiting[0].claimed.lost and len(self.running) < self.slots:
            yield self.waiting.popleft()
        for holding in list(self.waiting):
            if len(self.running) >= self.slots:
                return
            last_chance = _has_last_chance(holding)
            if self._may_start(holding):
                self.waiting.remove(holding)
                self._waits_since.pop(holding.held, None)
                yield holding
            if last_chance:
                return

    def give_up(self, held: Held | None = None) -> list[Holding]:
        """Whatever waits, or that one, waits no longer."""
        gone = [each for each in self.waiting if held is None or each.held == held]
        if gone:
            self.waiting = deque(each for each in self.waiting if each not in gone) if held else deque()
        return gone

    def _may_start(self, holding: Holding) -> bool:
        lost = holding.claimed.lost
        if lost == 0 or not self.running:
            return True
        if lost < _LAST_CHANCE and not any(each.claimed.lost for each in self.running):
            return True
        since = self._waits_since.setdefault(holding.held, self._clock())
        return self._clock() - since > _PATIENCE


def _has_last_chance(holding: Holding) -> bool:
    return holding.claimed.lost >= _LAST_CHANCE
