"""Due ticks of a schedule: which to make, which to pass over, and which comes next.

`now` is always an argument, from the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

from penstock.domain import payload
from penstock.domain.definition import check_key, check_priority
from penstock.domain.errors import InvalidInput, InvalidSchedule
from penstock.domain.instant import SECOND, from_datetime, to_datetime
from penstock.domain.schedule.recurrence import Recurrence, length, recurrence
from penstock.domain.schedule.schedule import Missed, Schedule, ScheduleRow, Tick

GRACE = 30 * SECOND
"""A tick that is handled within this time is on time; a later one was missed, and the `missed` policy decides."""
MOST_MADE_UP = 10_000
"""The most that `missed_max` may be."""

_OWNERS = ("code", "operator")


@dataclass(frozen=True, slots=True)
class PlannedTick:
    """A tick that is to be made into a job, or passed over."""

    tick: Tick
    make: bool


def next_tick_after(schedule: Schedule, after: int) -> int | None:
    """Return the first tick strictly after an instant; None: there is none."""
    return _recurrence(schedule).next(after)


def with_next_tick(schedule: Schedule, stored: ScheduleRow | None, now: int) -> Schedule:
    """Return the schedule to be saved, with its next tick.

    A due tick that was not made yet stays, so that a restart loses none. After a change of the recurrence, or when the
    schedule was disabled, the next tick is computed from now.
    """
    times = _recurrence(schedule)
    if stored is None:
        return replace(schedule, next_run_at=times.next(now))
    waiting = stored.schedule.next_run_at
    if waiting is not None and waiting <= now and stored.schedule.enabled and _recurrence(stored.schedule) == times:
        return replace(schedule, next_run_at=waiting)
    return replace(schedule, next_run_at=times.next(max(now, _mark(stored))))


def plan_unpaused(row: ScheduleRow, now: int, grace: int = GRACE) -> list[PlannedTick]:
    """Return the due ticks of a schedule without a pause, in order, each to be made or passed over.

    The work does not grow with the number of ticks that are passed over: they are counted, not visited.
    """
    schedule, times = row.schedule, _recurrence(row.schedule)
    first = schedule.next_run_at
    if first is not None and first <= _mark(row):
        first = times.next(_mark(row))
    if first is None or first > now:
        return []
    newest = times.latest(now, first) or first
    if now - first <= grace:
        chosen = _newest(times, first, newest, grace // SECOND + 1, first)
    elif schedule.missed is Missed.ALL:
        chosen = _newest(times, first, newest, schedule.missed_max, _oldest(schedule, now))
    elif schedule.missed is Missed.LATEST:
        chosen = _newest(times, first, newest, 1, _oldest(schedule, now))
    else:
        chosen = _newest(times, first, newest, 1, now - grace)
    made = chosen or [newest]
    passed_over = _before(times, first, made[0])
    follow = [*made[1:], times.next(newest)]
    return [
        PlannedTick(
            Tick(schedule.key, row.revision, instant, after, passed_over if number == 0 else 0),
            make=bool(chosen),
        )
        for number, (instant, after) in enumerate(zip(made, follow, strict=True))
    ]


def due_at(schedule: Schedule, instant: int) -> int:
    """Return when the job of a tick is due: its instant plus the jitter, which every process computes the same."""
    if not schedule.jitter:
        return instant
    drawn = blake2b(f"{schedule.key}\0{instant}".encode(), digest_size=8).digest()
    return instant + (int.from_bytes(drawn, "big") * schedule.jitter >> 64)


def check(schedule: Schedule) -> None:
    """Refuse a schedule that cannot work, with an `InvalidSchedule` that names it."""
    try:
        # Not with the record itself: one that a store has must still be read, to be removed.
        if schedule.key in (".", ".."):
            raise InvalidSchedule("no URL can name it.", hint="Give it another key than . or ..")
        check_key(schedule.definition_key)
        if schedule.priority is not None:
            check_priority(schedule.priority, "The job")
        if not isinstance(payload.decode(schedule.params_text), dict):
            raise InvalidSchedule("params must be a JSON object.", hint="Write {} for none.")
        gap = _recurrence(schedule).shortest_gap()
        _check_numbers(schedule, gap)
    except InvalidInput as error:
        raise InvalidSchedule(f"Schedule {schedule.key!r}: {error.message}", hint=error.hint) from error


def _check_numbers(schedule: Schedule, gap: int | None) -> None:
    if schedule.definition_version is not None and not 1 <= schedule.definition_version <= 2**31 - 1:
        raise InvalidSchedule(f"version must be a positive integer, not {schedule.definition_version!r}.")
    if not 1 <= schedule.missed_max <= MOST_MADE_UP:
        raise InvalidSchedule(f"missed_max must be 1 to {MOST_MADE_UP}, not {schedule.missed_max!r}.")
    if schedule.missed_window is not None and schedule.missed_window < SECOND:
        raise InvalidSchedule(
            "missed_window must be at least one second.", hint="Leave it out to make up for ticks of any age."
        )
    if gap is not None and schedule.jitter >= gap:
        raise InvalidSchedule(
            f"jitter must be less than the {length(gap)} between two ticks.", hint="Else a job could overtake the next."
        )
    if schedule.owner not in _OWNERS:
        raise InvalidSchedule(f"owner is 'code' or 'operator', not {schedule.owner!r}.")


def _recurrence(schedule: Schedule) -> Recurrence:
    return recurrence(schedule.kind, schedule.expression, schedule.timezone)


def _mark(row: ScheduleRow) -> int:
    return -1 if row.last_scheduled_at is None else from_datetime(row.last_scheduled_at, "The mark")


def _oldest(schedule: Schedule, now: int) -> int:
    """The oldest instant that may still be made up for."""
    return 0 if schedule.missed_window is None else now - schedule.missed_window


def _newest(times: Recurrence, first: int, newest: int, most: int, oldest: int) -> list[int]:
    """Up to `most` instants that end with `newest`, none before `oldest` or `first`, ascending."""
    chosen: list[int] = []
    instant: int | None = newest
    while instant is not None and instant >= oldest and len(chosen) < most:
        chosen.append(instant)
        # `first` is due whatever the expression says by now: a zone's rules may have changed since it was computed.
        instant = None if instant == first else times.latest(instant - 1, first) or first
    return chosen[::-1]


def _before(times: Recurrence, first: int, instant: int) -> int:
    """How many due instants there are before one of them."""
    return 0 if instant == first else 1 + times.count(first, instant - 1)


def passed_over(row: ScheduleRow, until: int) -> PlannedTick | None:
    """Return one tick that passes over everything due up to an instant; None when nothing is due."""
    newest_alone = replace(row.schedule, missed=Missed.LATEST, missed_window=None)
    turns = plan_unpaused(replace(row, schedule=newest_alone), until, grace=-1)
    return PlannedTick(turns[0].tick, make=False) if turns else None


def plan(row: ScheduleRow, now: int) -> list[PlannedTick]:
    """Return the due ticks of a schedule; ticks within an expired pause are passed over first."""
    turn = None if row.pause is None or row.pause.until is None else passed_over(row, min(now, row.pause.until))
    if turn is None:
        return plan_unpaused(row, now)
    later = replace(
        row,
        schedule=replace(row.schedule, next_run_at=turn.tick.next_run_at),
        last_scheduled_at=to_datetime(turn.tick.instant),
    )
    return [turn, *plan_unpaused(later, now)]
