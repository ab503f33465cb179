"""Timed work that keeps the store small: counts are folded, ended jobs retire, old rows are removed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.background.archive import Archive
from penstock.domain.errors import StoreUnavailable
from penstock.domain.instant import DAY
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.feed import FeedPort
from penstock.domain.ports.store import Store
from penstock.runtime.pace import ALONE, Pace
from penstock.runtime.service import log
from penstock.runtime.tasks import finish_despite_cancel

T = TypeVar("T")

_EVERY = 10.0
_NOT_LEADING = 300.0
"""A worker that does not lead does it too, but seldom: the leader may be unable to."""

_CLEAN_EVERY = 60.0
_BATCH = 1000
_FOLDED = 10_000
_ARCHIVED_AT_ONCE = 50
_PATIENCE = 5.0
"""Seconds that a stop waits for a batch that is being archived."""

_AGE = 7 * DAY
_FEED_AGE = 14 * DAY


class Housekeeper:
    """Does a batch of each at a time; the worker that has been there longest does it for all."""

    def __init__(
        self,
        store: Store,
        admin: AdminPort,
        feed: FeedPort,
        me: Callable[[], str],
        archive: Archive | None = None,
        pace: Pace = ALONE,
    ) -> None:
        """With an `archive`, no job is deleted before its line is on the disk."""
        self._store = store
        self._admin = admin
        self._feed = feed
        self._me = me
        self._archive = archive
        self._pace = pace
        self.errors: Counter[str] = Counter()
        """How often each part has failed."""
        self.problem: Exception | None = None
        """The error of the last round, if one of its parts failed."""
        self._done_at = float("-inf")
        self._cleaned_at = float("-inf")
        self._forgot_after = ""

    async def tick(self) -> float:
        leads = await self._store.arun(self._admin.leader()) == self._me()
        if not leads and time.monotonic() - self._done_at < _NOT_LEADING:
            return self._pace.rest(_EVERY)
        more = await self.once()
        self._done_at = time.monotonic()
        if self.problem is not None:
            raise self.problem
        return 0.05 if more else _EVERY

    async def once(self) -> bool:
        """One batch of each part; True when there is more to do. When a part fails, the others go on."""
        self.problem = None
        folded = await self._part("fold", self._store.arun(self._admin.fold()))
        await self._part("defaults", self._store.arun(self._admin.apply_defaults()))
        deleted, more = await self._part("retire", self._retire()) or (0, False)
        if deleted:
            log.info("%d job(s) past their time were deleted", deleted)
        more |= (folded or 0) >= _FOLDED
        if time.monotonic() - self._cleaned_at < _CLEAN_EVERY:
            return more
        tidied = await self._part("tidy", self._store.arun(self._admin.tidy(_AGE, _BATCH)))
        forgot = await self._part("forget attempts", self._forget_attempts())
        pruned = await self._part("prune", self._store.arun(self._feed.prune(_FEED_AGE, _BATCH)))
        # A batch of events may end early because of events that bundles name.
        left = (tidied or 0) >= _BATCH or bool(forgot) or bool(pruned)
        if not left and None not in (tidied, forgot, pruned):
            self._cleaned_at = time.monotonic()
        return more or left

    async def _forget_attempts(self) -> bool:
        """Whether there may be more."""
        after = await self._store.arun(self._admin.prune_attempts(after=self._forgot_after))
        self._forgot_after = after or ""
        return after is not None

    async def _retire(self) -> tuple[int, bool]:
        """How many jobs were deleted, and whether there may be more."""
        swept = await self._store.arun(self._admin.retire(_BATCH, delete=self._archive is None))
        if self._archive is None:
            return len(swept.deleted), len(swept.deleted) + len(swept.stale) >= _BATCH
        # Other processes do not get the taken batch for a minute: a stop here would delay it for so long.
        gone = await finish_despite_cancel(self._archive_some(self._archive), _PATIENCE)
        return gone, gone >= _ARCHIVED_AT_ONCE or len(swept.stale) >= _BATCH

    async def _archive_some(self, archive: Archive) -> int:
        remains = await self._store.arun(self._admin.take_for_archive(_ARCHIVED_AT_ONCE))
        if not remains:
            return 0
        await asyncio.to_thread(archive.keep, remains)
        gone = await self._store.arun(self._admin.delete_archived({each.job.id: each.mark for each in remains}))
        return len(gone)

    async def _part(self, name: str, work: Awaitable[T]) -> T | None:
        """The result of a part; None when it failed, which is counted and logged."""
        try:
            return await work
        except StoreUnavailable:
            self.errors[name] += 1
            raise
        except Exception as error:
            self.errors[name] += 1
            error.add_note(f"It happened in the part {name!r} of housekeeping.")
            if self.problem is None:
                self.problem = error
            else:
                log.error("housekeeping: %s failed as well", name, exc_info=error)
            return None
