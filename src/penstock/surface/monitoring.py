"""`app.monitoring`: figures, errors, alerts, and clocks that were wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from penstock.domain.alerts import Alert, StoredAlert
from penstock.domain.clock_mark import ClockMark
from penstock.domain.states import Status
from penstock.domain.stats import ErrorPage, Stats, Totals
from penstock.surface.session import PYTHON, Operation, Session

Counts = dict[tuple[str, int], dict[Status, int]]


@dataclass(frozen=True, slots=True)
class ReadStats(Operation[Stats]):
    call: ClassVar[str] = "monitoring.stats"
    since: datetime | None


@dataclass(frozen=True, slots=True)
class ReadTotals(Operation[Totals]):
    call: ClassVar[str] = "monitoring.totals"


@dataclass(frozen=True, slots=True)
class ReadCounts(Operation[Counts]):
    call: ClassVar[str] = "monitoring.counts"


@dataclass(frozen=True, slots=True)
class ListErrors(Operation[ErrorPage]):
    call: ClassVar[str] = "monitoring.errors"
    since: datetime | None
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ListAlerts(Operation[list[Alert]]):
    call: ClassVar[str] = "monitoring.alerts"


@dataclass(frozen=True, slots=True)
class ListPastAlerts(Operation[list[StoredAlert]]):
    call: ClassVar[str] = "monitoring.alert_history"
    cleared: bool | None
    limit: int
    before: int | None


@dataclass(frozen=True, slots=True)
class ListClockMarks(Operation[list[ClockMark]]):
    call: ClassVar[str] = "monitoring.clock_marks"


@dataclass(frozen=True, slots=True)
class SetClockMarksBack(Operation[list[ClockMark]]):
    call: ClassVar[str] = "monitoring.set_clock_marks_back"
    by: str


class Monitoring:
    """Figures over all definitions, and alerts; each call has a twin with an `a` in front, for event loops.

    The cost of a figure does not grow with the number of jobs that are kept.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def stats(self, *, since: datetime | None = None) -> Stats:
        """How many jobs have each status, and what happened since a time: an hour ago by default, 90 days at most."""
        return self._session.do(ReadStats(since))

    async def astats(self, *, since: datetime | None = None) -> Stats:
        return await self._session.ado(ReadStats(since))

    def totals(self) -> Totals:
        """What happened since the store began, in counts and histograms, for metrics."""
        return self._session.do(ReadTotals())

    async def atotals(self) -> Totals:
        return await self._session.ado(ReadTotals())

    def counts(self) -> Counts:
        """How many jobs of each (definition, version) have each status."""
        return self._session.do(ReadCounts())

    async def acounts(self) -> Counts:
        return await self._session.ado(ReadCounts())

    def errors(self, *, since: datetime | None = None, limit: int = 50, cursor: str | None = None) -> ErrorPage:
        """Failures since a time (a day ago by default), those that look alike together, the newest first."""
        return self._session.do(ListErrors(since, limit, cursor))

    async def aerrors(self, *, since: datetime | None = None, limit: int = 50, cursor: str | None = None) -> ErrorPage:
        return await self._session.ado(ListErrors(since, limit, cursor))

    def alerts(self) -> list[Alert]:
        """Everything that needs attention now, the critical first, by the thresholds of the worker configuration."""
        return self._session.do(ListAlerts())

    async def aalerts(self) -> list[Alert]:
        return await self._session.ado(ListAlerts())

    def alert_history(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> list[StoredAlert]:
        """Alerts that the duties have raised, the newest first; with `cleared`, only those that were, or were not.

        `before` is the `seq` of the last one of a page, for the next page."""
        return self._session.do(ListPastAlerts(cleared, limit, before))

    async def aalert_history(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> list[StoredAlert]:
        return await self._session.ado(ListPastAlerts(cleared, limit, before))

    def clock_marks(self) -> list[ClockMark]:
        """List instants that were written while the clock was ahead and that schedules, jobs or rates wait for.

        All those of schedules, and up to 1000 of each other kind."""
        return self._session.do(ListClockMarks())

    async def aclock_marks(self) -> list[ClockMark]:
        return await self._session.ado(ListClockMarks())

    def set_clock_marks_back(self, *, by: str = PYTHON) -> list[ClockMark]:
        """Set these instants back, once the clock is right again; those that were found. The audit names them."""
        return self._session.do(SetClockMarksBack(by))

    async def aset_clock_marks_back(self, *, by: str = PYTHON) -> list[ClockMark]:
        return await self._session.ado(SetClockMarksBack(by))
