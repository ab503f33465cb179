"""Converts the stamps of attempts into the store's time."""

from __future__ import annotations

from collections.abc import Callable

from penstock.domain.job import Held
from penstock.domain.plan import Plan
from penstock.domain.ports.store import Store
from penstock.runtime.stamps import now

_FRESH = 10_000_000
"""Microseconds after which the clocks are compared again, when an attempt asks."""
_KEPT = 60_000_000
"""Microseconds for which a quicker comparison is preferred to a newer one."""


class StoreTime:
    """Measures how far the store's clock is ahead of the stamps of attempts."""

    def __init__(self, store: Store, clock: Callable[[], Plan[int]]) -> None:
        """`clock` makes the plan that reads the store's clock."""
        self._store = store
        self._clock = clock
        self._ahead = 0
        """How far the store's clock is ahead of the stamps."""
        self._uncertainty = 0
        """How long the comparison took: it is wrong by half of that at most."""
        self._compared_at: int | None = None
        self._tried_at = 0
        self._of: dict[Held, int] = {}

    async def ahead(self, held: Held) -> int:
        """The difference to add to the stamps of an attempt."""
        if held not in self._of:
            if self._compared_at is None or now() - self._tried_at > _FRESH:
                await self._compare()
            self._of[held] = self._ahead
        return self._of[held]

    def forget(self, held: Held) -> None:
        """Nothing more is written for this attempt."""
        self._of.pop(held, None)

    async def _compare(self) -> None:
        before = now()
        read = await self._store.arun(self._clock())
        after = now()
        self._tried_at = after
        uncertainty, ahead = after - before, read - (before + after) // 2
        moved = abs(ahead - self._ahead) > (uncertainty + self._uncertainty) // 2
        if self._compared_at is None or moved or uncertainty <= self._uncertainty or after - self._compared_at > _KEPT:
            self._ahead, self._uncertainty, self._compared_at = ahead, uncertainty, after
