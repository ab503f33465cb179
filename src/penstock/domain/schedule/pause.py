"""What a pause does to the ticks that fall into it: they are passed over, all of them in one."""

from __future__ import annotations

from dataclasses import replace

from penstock.domain.instant import to_datetime
from penstock.domain.schedule import due_ticks
from penstock.domain.schedule.due_ticks import Turn
from penstock.domain.schedule.schedule import Missed, ScheduleRow


def passed_over(row: ScheduleRow, until: int) -> Turn | None:
    """One turn that leaves out all that is due up to an instant; None when there is nothing."""
    newest_alone = replace(row.schedule, missed=Missed.LATEST, missed_window=None)
    turns = due_ticks.plan(replace(row, schedule=newest_alone), until, grace=-1)
    return Turn(turns[0].tick, make=False) if turns else None


def plan(row: ScheduleRow, now: int) -> list[Turn]:
    """What is due of a schedule that runs; what fell into a pause that ended by itself is passed over first."""
    turn = None if row.pause is None or row.pause.until is None else passed_over(row, min(now, row.pause.until))
    if turn is None:
        return due_ticks.plan(row, now)
    later = replace(
        row,
        schedule=replace(row.schedule, next_run_at=turn.tick.next_run_at),
        last_scheduled_at=to_datetime(turn.tick.instant),
    )
    return [turn, *due_ticks.plan(later, now)]
