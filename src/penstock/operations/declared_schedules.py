"""Saves the schedules that code declares, and removes those that it does not declare any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from penstock.domain.errors import InvalidInput, NotFound, RevisionConflict
from penstock.domain.schedule.schedule import Kind, Schedule, ScheduleRow
from penstock.operations.declarations import OF_CODE
from penstock.operations.schedules import maybe_schedule, with_next
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin, schedules


@dataclass(slots=True)
class Applied:
    """The outcome for the schedules that code declares: the keys written and removed, and warnings of those left."""

    saved: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def apply_schedules(
    session: ApplicationSession, wanted: Sequence[Schedule], origin: str, unread: Collection[str] = ()
) -> Talk[Applied]:
    """Save the schedules that the code of an origin declares, and remove those that it does not declare any more.

    Those whose key fits a pattern in `unread` are not removed: what unreadable code declares is unknown.
    """
    now: int = yield admin.clock()
    known: list[ScheduleRow] = yield schedules.all()
    stored = {row.schedule.key: row for row in known}
    applied = Applied()
    for each in wanted:
        mine = replace(each, owner=OF_CODE, origin=origin)
        yield from _apply(mine, stored.pop(each.key, None), now, applied)
    for row in stored.values():
        if _is_of(row, origin) and not any(fnmatchcase(row.schedule.key, each) for each in unread):
            yield from _remove_undeclared(row.schedule.key, origin, applied)
    if applied.saved or applied.removed:
        session.connections.ring()
    return applied


def _apply(mine: Schedule, row: ScheduleRow | None, now: int, applied: Applied) -> Talk[None]:
    """Write what code declares, unless it is stored already or belongs to another owner."""
    while row is None or _is_of(row, mine.origin) or _is_unreadable(row):
        try:
            wanted = with_next(mine, row, now)
            if row is None or row.schedule != _ended(wanted):
                yield schedules.save(wanted, by=OF_CODE, revision=0 if row is None else row.revision)
                applied.saved.append(mine.key)
        except RevisionConflict:
            row = yield from maybe_schedule(mine.key)
        except InvalidInput as error:
            applied.warnings.append(f"Schedule {mine.key!r} was left as it is: {error}")
            return
        else:
            return
    whose = "an operator's" if row.schedule.owner != OF_CODE else f"declared by {row.schedule.origin or 'other code'}"
    applied.warnings.append(
        f"Schedule {mine.key!r} is {whose}: what {mine.origin} declares does not count. "
        f"To change that, delete it: app.schedules.delete({mine.key!r})."
    )


def _remove_undeclared(key: str, origin: str, applied: Applied) -> Talk[None]:
    row = yield from maybe_schedule(key)
    if row is None or not _is_of(row, origin):
        return
    try:
        yield schedules.remove(key, by=OF_CODE)
    except NotFound:
        return
    applied.removed.append(key)


def _ended(schedule: Schedule) -> Schedule:
    """As the store keeps it: disabled when its one tick is over."""
    return replace(schedule, enabled=schedule.enabled and not (schedule.kind is Kind.ONCE and not schedule.next_run_at))


def _is_of(row: ScheduleRow, origin: str) -> bool:
    return row.schedule.owner == OF_CODE and row.schedule.origin == origin


def _is_unreadable(row: ScheduleRow) -> bool:
    """Whether code declared it and nobody can say which: whoever declares it again repairs it."""
    return row.schedule.owner == OF_CODE and row.error is not None
