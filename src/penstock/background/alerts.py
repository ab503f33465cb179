"""Timed work that raises and clears alerts when figures cross their thresholds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from penstock.domain.alerts import CRITICAL, Alert
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.store import Store
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log

_EVERY = 10.0
_SOON = 0.2
_LONGEST_CATCHING_UP = 30.0
"""Seconds for which a service that never ends its first pass delays alerts."""
_NOT_LEADING = 60.0
"""A process that does not lead looks too, but seldom: the leader may be unable to."""


class Alerts:
    """Records which alerts are raised and which are cleared."""

    def __init__(
        self,
        store: Store,
        admin: AdminPort,
        me: Callable[[], str],
        look: Callable[[], Awaitable[Sequence[Alert]]],
        pace: Pace = ALONE,
        caught_up: Callable[[], bool] = lambda: True,
    ) -> None:
        """`look` returns all alerts that hold now; `caught_up`: the other services have had their first pass."""
        self._store = store
        self._admin = admin
        self._me = me
        self._look = look
        self._pace = pace
        self._caught_up = caught_up
        self._looked_at = self._begun_at = time.monotonic()

    async def tick(self) -> float:
        if not self._caught_up() and time.monotonic() - self._begun_at < _LONGEST_CATCHING_UP:
            return _SOON
        leads = await self._store.arun(self._admin.leader()) == self._me()
        if leads or time.monotonic() - self._looked_at >= _NOT_LEADING:
            await self.once()
        return _EVERY if leads else self._pace.rest(_EVERY)

    async def once(self) -> None:
        """Look once, now."""
        self._looked_at = time.monotonic()
        news = await self._store.arun(self._admin.save_alerts(await self._look()))
        for each in news.raised:
            (log.error if each.severity == CRITICAL else log.warning)("alert raised: %s: %s", each.id, each.message)
        for each in news.cleared:
            log.info("alert cleared: %s", each.id)
