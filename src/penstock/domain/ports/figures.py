"""What penstock asks of a store for figures; a part of the ports, whose rules hold here too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.domain.alerts import Alert, AlertNews, StoredAlert
from penstock.domain.plan import Plan
from penstock.domain.stats import Durations, ErrorPage, Running, Stats, Totals


class FiguresPort(Protocol):
    """Counts, lengths and failures. What it costs does not grow with the number of jobs that are kept."""

    def errors(self, since: int | None = None, *, limit: int = 50, cursor: str | None = None) -> Plan[ErrorPage]:
        """Failures since an instant (None: 24 hours ago), those that look alike together, the newest first.

        Of more than some thousand failures only the newest are looked at, and the page says so. A cursor holds its
        list's own span of time."""
        ...

    def stats(self, since: int | None = None) -> Plan[Stats]:
        """How many jobs stand where now, and what happened since an instant: None is an hour ago, and more than 90 days
        `InvalidInput`. Beyond 24 hours the figures are by hour, not by minute."""
        ...

    def totals(self) -> Plan[Totals]:
        """What happened since the store began, and what stands ready or waits in an outbox, for those who measure."""
        ...

    def keep_alerts(self, holding: Sequence[Alert]) -> Plan[AlertNews]:
        """Write down the alerts that hold now: those that are new are raised, those that hold no more are cleared, each
        once and with an event, however many processes say so."""
        ...

    def kept_alerts(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> Plan[list[StoredAlert]]:
        """Alerts that were raised, the newest first; with `cleared`, only those that were cleared, or only those that
        were not. `before` is the `seq` of the last one of a page, for the next page."""
        ...

    def usual_durations(self) -> Plan[dict[str, Durations]]:
        """How long the attempts of each definition took that have succeeded since the store began."""
        ...

    def longest_running(self, limit: int = 100) -> Plan[list[Running]]:
        """The jobs that have been running longest."""
        ...
