"""Claimed jobs that have not begun, on their way back to the store."""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock.domain.job import Held
from penstock.domain.outcome import Cause, Outcome
from penstock.domain.states import Trigger
from penstock.worker.claimed_job import ClaimedJob
from penstock.worker.pool import Pool, Pools
from penstock.worker.settler import Settler


class UnstartedJobs:
    """Returns claimed jobs that wait for a slot, so that another worker can claim them."""

    def __init__(self, pools: Pools, settler: Settler) -> None:
        self._pools = pools
        self._settler = settler

    def return_all(self) -> None:
        for pool in self._pools.all:
            self.return_from(pool)

    def return_one(self, held: Held) -> None:
        for pool in self._pools.all:
            self._return(pool.give_up(held))

    def return_from(self, pool: Pool) -> None:
        """Return all jobs that wait for a slot of this pool."""
        self._return(pool.give_up())

    def make_way(self, pool: Pool) -> None:
        """Return the jobs that would wait for one that has to run alone."""
        self._return(pool.give_up_others())

    def _return(self, jobs: Sequence[ClaimedJob]) -> None:
        for each in jobs:
            settlement = each.settlement(Outcome(Trigger.RELEASE, Cause.RELEASED), random.random())
            self._settler.add((each.worker, settlement, None))
