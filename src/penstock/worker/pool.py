"""The slots of one kind of isolation: what waits for one, what has one, and who must be alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import takewhile

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.job import FRONT, Claimed, Held
from penstock.worker.claimed_job import ClaimedJob

_LAST_CHANCE = 2
"""After so many losses one more would end the job: it runs with nobody beside it, so that guilt is certain."""

_PATIENCE = 30.0
"""So long a job waits to be alone before it runs beside what does not end."""

_MOST_AT_ONCE = 500

_ASK_LIMITED = 0.2
"""Seconds after which limited definitions that had no job to give are asked again."""

_FIRST_RANK = FRONT.rank


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
        self.waiting: deque[ClaimedJob] = deque()
        self.running: set[ClaimedJob] = set()
        self.closed = False
        """Whether nothing more is to be claimed for it."""
        self.limited: Set[int] = frozenset()
        """The lanes whose definitions have a limit; their jobs are not claimed ahead."""
        self._ask_limited_at = 0.0
        self._overtook = _FIRST_RANK
        self._waits_since: dict[Held, float] = {}
        self._waited_for: set[ClaimedJob] = set()
        """Those that run and that a job has waited for in vain: no other one waits for them again."""

    @property
    def free(self) -> int:
        """Slots that nobody has or waits for."""
        return self.slots - len(self.running) - len(self.waiting)

    @property
    def idle(self) -> int:
        """Slots in which nothing runs."""
        return self.slots - len(self.running)

    @property
    def keeps_slot(self) -> bool:
        """Whether the last free slot is kept until limited definitions were asked for a job.

        Jobs that were claimed ahead would take every slot, and no slot would ever be free for the others. A limited job
        may overtake those once; it does not until they have started which the last one has overtaken.
        """
        if not (self.ahead and self.limited and self.waiting) or self._clock() < self._ask_limited_at:
            return False
        first = self.waiting[0].claimed
        return first.lane not in self.limited and (first.lost > 0 or first.rank >= self._overtook)

    def note_limited(self, claimed: Sequence[Claimed]) -> None:
        """Limited definitions were asked for jobs, or cannot be asked now; what came."""
        ranks = [each.rank for each in claimed if each.lane in self.limited]
        self._overtook = max(ranks, default=_FIRST_RANK)
        self._ask_limited_at = self._clock() + (0.0 if ranks else _ASK_LIMITED)

    def add(self, job: ClaimedJob) -> None:
        """Let a claimed job wait for a slot; one with a limit before those that were claimed ahead."""
        if self.ahead and job.claimed.lane in self.limited:
            before = takewhile(lambda each: each.claimed.lane in self.limited, self.waiting)
            self.waiting.insert(sum(1 for _ in before), job)
        else:
            self.waiting.append(job)

    @property
    def busy(self) -> bool:
        """More than half of the slots are taken."""
        return 2 * len(self.running) > self.slots

    @property
    def room(self) -> int:
        """How many jobs may be claimed at once; while these begin, the next ones are on their way.

        None while a job has its last chance, or waits for it: whoever came now would wait for its end, held by us."""
        if self.closed or self.is_left_alone or self.waits_for_solitude:
            return 0
        return min(max(self.free + self.ahead, int(self.idle > 0 and self.keeps_slot)), _MOST_AT_ONCE)

    @property
    def is_left_alone(self) -> bool:
        """Whether somebody runs beside whom nobody may start."""
        return self._losses and any(map(_has_last_chance, self.running))

    @property
    def waits_for_solitude(self) -> bool:
        """Whether a job waits until nothing else runs; the others would wait behind it."""
        return self._losses and any(map(_has_last_chance, self.waiting))

    @property
    def startable(self) -> int:
        """How many of those that wait have a slot, where none has a loss behind it."""
        return min(len(self.waiting), self._fillable)

    def next(self) -> ClaimedJob | None:
        """The first of them; the caller puts it into `running`."""
        # Not by `_fillable`: many small inline jobs would notice that.
        idle = self.slots - len(self.running)
        return self.waiting.popleft() if self.waiting and (idle > 1 or (idle == 1 and not self.keeps_slot)) else None

    def take(self) -> Iterator[ClaimedJob]:
        """What may start now, in its order; the caller puts each into `running`."""
        if not self.waiting or self.is_left_alone:
            return
        while self.waiting and not self.waiting[0].claimed.lost and self._fillable > 0:
            yield self.waiting.popleft()
        for job in list(self.waiting):
            if self._fillable < 1:
                return
            last_chance = _has_last_chance(job)
            if self._may_start(job):
                self.waiting.remove(job)
                self._waits_since.pop(job.held, None)
                yield job
            if last_chance:
                return

    def give_up_others(self) -> list[ClaimedJob]:
        """Whatever else waits while a job waits to be alone waits no longer."""
        if not self.waits_for_solitude:
            return []
        kept = next((each for each in self.waiting if _has_last_chance(each)), None)
        gone = [each for each in self.waiting if each is not kept]
        for each in gone:
            self._waits_since.pop(each.held, None)
        self.waiting = deque(each for each in self.waiting if each is kept)
        return gone

    def give_up(self, held: Held | None = None) -> list[ClaimedJob]:
        """Whatever waits, or that one, waits no longer."""
        gone = [each for each in self.waiting if held is None or each.held == held]
        for each in gone:
            self._waits_since.pop(each.held, None)
        if gone:
            self.waiting = deque(each for each in self.waiting if each not in gone) if held else deque()
        return gone

    @property
    def _fillable(self) -> int:
        """How many slots what waits may take."""
        idle = self.idle
        return idle - 1 if idle == 1 and self.keeps_slot else idle

    def _may_start(self, job: ClaimedJob) -> bool:
        lost = job.claimed.lost
        if lost == 0 or not self.running:
            return True
        self._waited_for &= self.running
        in_the_way = self.running if lost >= _LAST_CHANCE else {each for each in self.running if each.claimed.lost}
        if in_the_way <= self._waited_for:
            return True
        since = self._waits_since.setdefault(job.held, self._clock())
        if self._clock() - since <= _PATIENCE:
            return False
        self._waited_for |= in_the_way
        return True


class Pools:
    """The slots of both kinds of isolation."""

    def __init__(self, settings: WorkerSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.process: Pool = Pool(settings.slots, settings.ahead, clock=clock)
        self.inline: Pool = Pool(settings.inline_slots, settings.ahead, losses=False, clock=clock)
        self.all: tuple[Pool, Pool] = (self.process, self.inline)

    def resize(self, settings: WorkerSettings) -> None:
        self.process.slots, self.inline.slots = settings.slots, settings.inline_slots

    def close(self, closed: bool) -> None:
        """Let nothing more be claimed, or let it be claimed again."""
        self.process.closed = self.inline.closed = closed

    def waiting(self) -> list[ClaimedJob]:
        return [job for pool in self.all for job in pool.waiting]


def _has_last_chance(job: ClaimedJob) -> bool:
    return job.claimed.lost >= _LAST_CHANCE
