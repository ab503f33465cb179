"""Timed work that keeps the store small: counts are folded, ended jobs retire, what nobody needs is removed."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.core.instant import DAY
from penstock.core.ports import AdminPort, FeedPort, Store
from penstock.engine.service import log

_EVERY = 10.0
_NOT_LEADING = 300.0
"""A worker that does not lead does it all the same, but seldom: the leader may be unable to."""

_CLEAN_EVERY = 60.0
_BATCH = 1000
_AGE = 7 * DAY
_FEED_AGE = 14 * DAY


class Housekeeper:
    """Does a batch of each at a time; the worker that has been there longest does it for all."""

    def __init__(self, store: Store, admin: AdminPort, feed: FeedPort, me: Callable[[], str]) -> None:
        self._store = store
        self._admin = admin
        self._feed = feed
        self._me = me
        self._done_at = float("-inf")
        self._cleaned_at = float("-inf")

    async def tick(self) -> float:
        leads = await self._store.arun(self._admin.leader()) == self._me()
        if not leads and time.monotonic() - self._done_at < _NOT_LEADING:
            return _EVERY
        more = await self.once()
        self._done_at = time.monotonic()
        return 0.05 if more else _EVERY

    async def once(self) -> bool:
        """One batch of everything; True when there is more to do."""
        await self._store.arun(self._admin.fold())
        swept = await self._store.arun(self._admin.retire(_BATCH))
        if swept.deleted:
            log.info("%d job(s) past their time were deleted", len(swept.deleted))
        more = len(swept.deleted) >= _BATCH
        if time.monotonic() - self._cleaned_at >= _CLEAN_EVERY:
            removed = await self._store.arun(self._admin.tidy(_AGE, _BATCH))
            removed = max(removed, await self._store.arun(self._feed.prune(_FEED_AGE, _BATCH)))
            if removed < _BATCH:
                self._cleaned_at = time.monotonic()
            more = more or removed >= _BATCH
        return more
