"""What a schedule can say, as flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from penstock.cli.formatting import moment, seconds
from penstock.domain.errors import InvalidInput

_WHEN = Group("When", sort_key=40)
_HOW = Group("How", sort_key=50)


@Parameter(name="*")
@dataclass(frozen=True)
class When:
    """When a schedule ticks."""

    cron: Annotated[str | None, Parameter(group=_WHEN, help="A cron expression: '0 3 * * *', @daily.")] = None
    every: Annotated[str | None, Parameter(group=_WHEN, help="An interval: 90s, 1h30m, 7d.")] = None
    at: Annotated[str | None, Parameter(group=_WHEN, help="Once: a time, or a length of time from now.")] = None
    timezone: Annotated[str | None, Parameter(group=_WHEN, help="On whose wall clock; UTC by default.")] = None

    def asked(self) -> dict[str, Any]:
        """As the API takes it; what was not said is left out."""
        given = [
            (kind, text) for kind, text in (("cron", self.cron), ("interval", self.every), ("once", self.at)) if text
        ]
        if len(given) > 1:
            raise InvalidInput("Give one of --cron, --every and --at.")
        told: dict[str, Any] = {} if self.timezone is None else {"timezone": self.timezone}
        for kind, text in given:
            told |= {"kind": kind, "expression": moment(text, past=False) if kind == "once" else text}
        return told


@Parameter(name="*")
@dataclass(frozen=True)
class Policies:
    """What becomes of ticks that are missed or overlap, and other details."""

    definition_version: Annotated[
        int | None, Parameter(group=_HOW, help="Of the definition; the highest known if not said.")
    ] = None
    priority: Annotated[int | None, Parameter(group=_HOW, help="Of its jobs, 0 to 20.")] = None
    concurrency_key: Annotated[str | None, Parameter(group=_HOW, help="Of its jobs.")] = None
    missed: Annotated[str | None, Parameter(group=_HOW, help="What becomes of missed ticks: skip, latest, all.")] = None
    missed_max: Annotated[int | None, Parameter(group=_HOW, help="How many missed ticks are made up for at most.")] = (
        None
    )
    missed_window: Annotated[str | None, Parameter(group=_HOW, help="How old a missed tick may be, such as 6h.")] = None
    overlap: Annotated[
        str | None, Parameter(group=_HOW, help="While an earlier job has not ended: allow, skip, queue_one.")
    ] = None
    jitter: Annotated[str | None, Parameter(group=_HOW, help="Spread ticks over this length of time.")] = None
    enabled: Annotated[bool | None, Parameter(group=_HOW, help="Whether it ticks at all.")] = None

    def asked(self) -> dict[str, Any]:
        """As the API takes it; what was not said is left out."""
        told: dict[str, Any] = {
            "definitionVersion": self.definition_version,
            "priority": self.priority,
            "concurrencyKey": self.concurrency_key,
            "missed": self.missed,
            "missedMax": self.missed_max,
            "missedWindow": None if self.missed_window is None else seconds(self.missed_window),
            "overlap": self.overlap,
            "jitter": None if self.jitter is None else seconds(self.jitter),
            "enabled": self.enabled,
        }
        return {name: value for name, value in told.items() if value is not None}


NO_TIME = When()
NOTHING = Policies()
