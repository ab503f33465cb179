"""The slots of one kind of isolation: which jobs wait for one, have one, or must run alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import takewhile

from penstock.config.worker_settings import WorkerSettings
from penstock.domain.job import FIRST_POSITION, Claimed, Held
from penstock.worker.claimed_job import ClaimedJob

_LAST_CHANCE = 2
"""Losses after which one more ends the job: it runs alone, so that another crash is certainly its own."""

_PATIENCE = 30.0
"""Seconds that a job waits to be alone, before it runs next to jobs that do not end."""

_MOST_AT_ONCE = 500

_ASK_LIMITED = 0.2
"""Seconds after which limited definitions that had no job to give are asked again."""

_FIRST_RANK = FIRST_POSITION.rank


class Pool:
    """A number of slots; jobs that were lost before get theirs one at a time."""

    def __init__(
        self, slots: int, ahead: int, *, losses: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`losses`: the pool also runs jobs that were lost before; a pool that never does need not look for them."""
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
        """Running jobs that another one has waited for in vain: no job waits for them again."""

    @property
    def free(self) -> int:
        """Slots that no job has or waits for."""
        return self.slots - len(self.running) - len(self.waiting)

    @property
    def idle(self) -> int:
        """Slots in which nothing runs."""
        return self.slots - len(self.running)

    @property
    def keeps_slot(self) -> bool:
        """Whether the last free slot is kept until limited definitions were asked for a job.

        Jobs that were claimed ahead would take every slot, and limited jobs would never get one. A limited job may
        overtake them once; the next one may not, until the jobs that were overtaken have started.
        """
        if not (self.ahead and self.limited and self.waiting) or self._clock() < self._ask_limited_at:
            return False
        first = self.waiting[0].claimed
        return first.lane not in self.limited and (first.lost > 0 or first.rank >= self._overtook)

    def note_limited(self, claimed: Sequence[Claimed]) -> None:
        """Note the jobs that limited definitions have given; none where they were not asked."""
        ranks = [each.rank for each in claimed if each.lane in self.limited]
        self._overtook = max(ranks, default=_FIRST_RANK)
        self._ask_limited_at = self._clock() + (0.0 if ranks else _ASK_LIMITED)

    def add(self, job: ClaimedJob) -> None:
        """Let a claimed job wait for a slot; a job with a limit comes before those that were claimed ahead."""
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
        """How many jobs may be claimed together; while these begin, the next ones are claimed.

        None while a job has its last chance, or waits for it: other jobs would wait here for its end."""
        if self.closed or self.is_left_alone or self.waits_for_solitude:
            return 0
        return min(max(self.free + self.ahead, int(self.idle > 0 and self.keeps_slot)), _MOST_AT_ONCE)

    @property
    def is_left_alone(self) -> bool:
        """Whether a job runs that must stay alone."""
        return self._losses and any(map(_has_last_chance, self.running))

    @property
    def waits_for_solitude(self) -> bool:
        """Whether a job waits until nothing else runs; other jobs would have to wait for it."""
        return self._losses and any(map(_has_last_chance, self.waiting))

    @property
    def startable(self) -> int:
        """How many waiting jobs have a slot, in a pool whose jobs were never lost."""
        return min(len(self.waiting), self._fillable)

    def next(self) -> ClaimedJob | None:
        """The next job that has a slot; the caller puts it into `running`."""
        # Not by `_fillable`: its cost shows with many small inline jobs.
        idle = self.slots - len(self.running)
        return self.waiting.popleft() if self.waiting and (idle > 1 or (idle == 1 and not self.keeps_slot)) else None

    def take(self) -> Iterator[ClaimedJob]:
        """The jobs that may start now, in order; the caller puts each into `running`."""
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
        """Take out the jobs that would wait for one that has to run alone."""
        if not self.waits_for_solitude:
            return []
        kept = next((each for each in self.waiting if _has_last_chance(each)), None)
        gone = [each for each in self.waiting if each is not kept]
        for each in gone:
            self._waits_since.pop(each.held, None)
        self.waiting = deque(each for each in self.waiting if each is kept)
        return gone

    def give_up(self, held: Held | None = None) -> list[ClaimedJob]:
        """Take out all waiting jobs, or this one."""
        gone = [each for each in self.waiting if held is None or each.held == held]
        for each in gone:
            self._waits_since.pop(each.held, None)
        if gone:
            self.waiting = deque(each for each in self.waiting if each not in gone) if held else deque()
        return gone

    @property
    def _fillable(self) -> int:
        """How many slots the waiting jobs may take."""
        idle = self.idle
        return idle - 1 if idle == 1 and self.keeps_slot else idle

    def _may_start(self, job: ClaimedJob) -> bool:
        lost = job.claimed.lost
        if lost == 0 or not self.running:
            return True
        self._waited_for &= self.running
        awaited = self.running if lost >= _LAST_CHANCE else {each for each in self.running if each.claimed.lost}
        if awaited <= self._waited_for:
            return True
        since = self._waits_since.setdefault(job.held, self._clock())
        if self._clock() - since <= _PATIENCE:
            return False
        self._waited_for |= awaited
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
