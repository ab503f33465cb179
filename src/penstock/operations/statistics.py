"""What an application can count: figures about its jobs, and the errors that they end with."""

from __future__ import annotations

from datetime import datetime

from penstock.definitions import enqueue_options as given
from penstock.domain.errors import InvalidInput
from penstock.domain.stats import ErrorPage, Stats, Totals
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import admin


class Figures(Conversation):
    """Figures over all definitions; what they cost does not grow with the number of jobs that are kept."""

    def stats(self, *, since: datetime | None = None) -> Stats:
        """How many jobs stand where, and what happened since a time: an hour ago by default, 90 days at most."""
        return self._do(self._stats(since))

    async def astats(self, *, since: datetime | None = None) -> Stats:
        return await self._ado(self._stats(since))

    def totals(self) -> Totals:
        """What happened since the store began, in counts and histograms, for those who measure."""
        return self._do(self._totals())

    async def atotals(self) -> Totals:
        return await self._ado(self._totals())

    def errors(self, *, since: datetime | None = None, limit: int = 50, cursor: str | None = None) -> ErrorPage:
        """Failures since a time (a day ago by default), those that look alike together, the newest first."""
        return self._do(self._errors(since, limit, cursor))

    async def aerrors(self, *, since: datetime | None = None, limit: int = 50, cursor: str | None = None) -> ErrorPage:
        return await self._ado(self._errors(since, limit, cursor))

    def _totals(self) -> Talk[Totals]:
        found: Totals = yield admin.totals()
        return found

    def _stats(self, since: datetime | None) -> Talk[Stats]:
        found: Stats = yield admin.stats(given.instant(since, "since"))
        return found

    def _errors(self, since: datetime | None, limit: int, cursor: str | None) -> Talk[ErrorPage]:
        if not isinstance(cursor, str | None):
            raise InvalidInput(f"A cursor is a text, not {cursor!r:.80}.")
        begin = given.instant(since, "since")
        page: ErrorPage = yield admin.errors(begin, limit=given.integer(limit, "limit"), cursor=cursor)
        return page
