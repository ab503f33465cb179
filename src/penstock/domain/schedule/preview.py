"""A preview of a schedule: its next ticks, and its expression in English."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.domain.errors import InvalidInput
from penstock.domain.instant import DAY, HOUR, LATEST, MINUTE, SECOND, to_datetime
from penstock.domain.schedule.recurrence import length, recurrence
from penstock.domain.schedule.schedule import Schedule
from penstock.domain.schedule.zones import zone

MOST_FIRES = 100


@dataclass(frozen=True, slots=True)
class Fire:
    """One tick to come."""

    instant: int
    local: str
    """On the wall clock of the schedule's zone, with the offset from UTC."""
    utc: str
    relative: str
    """From now: `in 3 h 5 min`."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The next ticks, and the schedule in English."""

    sentence: str
    fires: tuple[Fire, ...]


def preview(schedule: Schedule, now: int, number: int = 5) -> Preview:
    """The next ticks after `now`, up to 100; fewer when the schedule ends before."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_FIRES:
        raise InvalidInput(f"A preview shows 1 to {MOST_FIRES} ticks, not {number!r}.")
    times = recurrence(schedule.kind, schedule.expression, schedule.timezone)
    fires: list[Fire] = []
    instant = times.next(now)
    while instant is not None and instant <= LATEST and len(fires) < number:
        fires.append(_fire(instant, schedule.timezone, now))
        instant = times.next(instant)
    return Preview(times.sentence(), tuple(fires))


def relative(distance: int) -> str:
    """How far away that is, in its two largest units: `in 3 h 5 min`."""
    for size, unit in ((DAY, HOUR), (HOUR, MINUTE)):
        if distance >= size:
            return f"in {length(distance - distance % unit)}"
    return f"in {length(distance)}" if distance >= SECOND else "in less than 1 s"


def _fire(instant: int, timezone: str, now: int) -> Fire:
    moment = to_datetime(instant)
    return Fire(
        instant=instant,
        local=moment.astimezone(zone(timezone)).isoformat(sep=" ", timespec="seconds"),
        utc=moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z"),
        relative=relative(instant - now),
    )
