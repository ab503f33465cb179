"""Carries out operations on schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.definitions.schedule_options import changed, naming, schedule_from
from penstock.domain import payload
from penstock.domain.definition import Pause
from penstock.domain.errors import InvalidInput, InvalidSchedule, NotFound, RevisionConflict
from penstock.domain.hints import Hint
from penstock.domain.instant import to_datetime
from penstock.domain.job import Created
from penstock.domain.schedule import due_ticks, pause
from penstock.domain.schedule.preview import Preview, preview
from penstock.domain.schedule.schedule import Kind, Schedule, ScheduleRow
from penstock.operations import creation
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin, schedules
from penstock.surface import enqueue_options as given
from penstock.surface import schedules as surface
from penstock.surface.orders import EnqueueOptions

_MOST_TICKS = 1000


def declare_schedule(session: ApplicationSession, asked: surface.DeclareSchedule) -> Talk[Schedule]:
    yield from ()
    return session.declarations.schedule(asked.key, asked.definition, asked.facts)


def declared_schedules(session: ApplicationSession, _: surface.DeclaredSchedules) -> Talk[list[Schedule]]:
    yield from ()
    return list(session.declarations.schedules.values())


def list_schedules(_: ApplicationSession, __: surface.ListSchedules) -> Talk[list[ScheduleRow]]:
    found: list[ScheduleRow] = yield schedules.all()
    return found


def get_schedule(_: ApplicationSession, asked: surface.GetSchedule) -> Talk[ScheduleRow]:
    found: ScheduleRow = yield schedules.get(asked.key)
    return found


def save_schedule(session: ApplicationSession, asked: surface.SaveSchedule) -> Talk[ScheduleRow]:
    made = yield from _with_order(session, schedule_from(asked.key, asked.definition, asked.facts))
    stored = yield from maybe_schedule(asked.key)
    return (yield from _keep(session, made, stored, asked.revision, asked.by))


def change_schedule(session: ApplicationSession, asked: surface.ChangeSchedule) -> Talk[ScheduleRow]:
    changes, revision = asked.changes, asked.revision
    if not changes:
        raise InvalidInput(
            f"No change of schedule {asked.key!r} was given.",
            hint=Hint(
                "Give facts, as in priority=3.",
                cli="`penstock schedules edit --help` lists what can be changed.",
                http="Send a field, such as `priority`.",
            ),
        )
    while True:
        stored = yield from _readable(asked.key)
        made = replace(changed(stored.schedule, changes), owner="operator", origin="")
        if "at" in changes and "enabled" not in changes and stored.schedule.next_run_at is None:
            made = replace(made, enabled=True)
        if "params" in changes and "concurrency_key" not in changes:
            made = replace(made, concurrency_key=None)
        if {"params", "definition_version", "concurrency_key"} & changes.keys():
            made = yield from _with_order(session, made)
        known = stored.revision if revision is None else revision
        try:
            return (yield from _keep(session, made, stored, known, asked.by))
        except RevisionConflict:
            if revision is not None:
                raise


def delete_schedule(_: ApplicationSession, asked: surface.DeleteSchedule) -> Talk[None]:
    yield schedules.remove(asked.key, by=given.operator(asked.by), revision=asked.revision)


def pause_schedule(session: ApplicationSession, asked: surface.PauseSchedule) -> Talk[None]:
    text = given.short_text(asked.reason, "reason")
    if text is None:
        raise InvalidInput("A pause needs a reason.", hint="Others will ask why nothing runs.")
    end = given.instant(asked.until, "until")
    now: int = yield admin.clock()
    if end is not None and end <= now:
        raise InvalidInput(f"A pause of schedule {asked.key!r} until {to_datetime(end)} is over already.")
    by = given.operator(asked.by)
    yield schedules.pause(asked.key, Pause(text, by, now, end), by=by)
    session.connections.ring()


def resume_schedule(session: ApplicationSession, asked: surface.ResumeSchedule) -> Talk[None]:
    stored: ScheduleRow = yield schedules.get(asked.key)
    if stored.pause is not None and stored.error is None:
        now: int = yield admin.clock()
        end = now if stored.pause.until is None else min(now, stored.pause.until)
        with naming(asked.key):
            turn = pause.passed_over(stored, end)
        if turn is not None:
            yield schedules.tick(turn.tick, None, stored.schedule.overlap)
    yield schedules.pause(asked.key, None, by=given.operator(asked.by))
    session.connections.ring()


def trigger_schedule(session: ApplicationSession, asked: surface.TriggerSchedule) -> Talk[Created]:
    stored = yield from _readable(asked.key)
    return (yield from creation.trigger_schedule(session, asked, stored.schedule))


def read_ticks(_: ApplicationSession, asked: surface.ReadTicks) -> Talk[list[dict[str, Any]]]:
    if not 1 <= given.integer(asked.limit, "limit") <= _MOST_TICKS:
        raise InvalidInput(f"limit must be 1 to {_MOST_TICKS}, not {asked.limit}.")
    yield schedules.get(asked.key)
    found: list[dict[str, Any]] = yield schedules.ticks(asked.key, asked.limit)
    return found


def preview_schedule(_: ApplicationSession, asked: surface.PreviewSchedule) -> Talk[Preview]:
    stored = yield from _readable(asked.key)
    now: int = yield admin.clock()
    return preview(stored.schedule, now, asked.count)


def preview_unsaved(_: ApplicationSession, asked: surface.PreviewUnsaved) -> Talk[Preview]:
    made = schedule_from("preview", "preview", asked.facts)
    due_ticks.check(made)
    now: int = yield admin.clock()
    return preview(made, now, asked.count)


def maybe_schedule(key: str) -> Talk[ScheduleRow | None]:
    """A schedule of the store, or None."""
    try:
        found: ScheduleRow = yield schedules.get(key)
    except NotFound:
        return None
    return found


def with_next(made: Schedule, stored: ScheduleRow | None, now: int) -> Schedule:
    """The schedule with its next tick; one that is stored and cannot be read any more does not count."""
    try:
        return due_ticks.declared(made, stored, now)
    except InvalidSchedule:
        return replace(made, next_run_at=due_ticks.following(made, now))


def _with_order(session: ApplicationSession, made: Schedule) -> Talk[Schedule]:
    """The schedule with parameters that fit its definition."""
    params: Any = payload.load(made.params_text)
    with naming(made.key):
        options = EnqueueOptions(concurrency_key=made.concurrency_key)
        order = yield from creation.order_by_name(
            session, made.definition_key, params, made.definition_version, options
        )
    return replace(made, params_text=order.params, concurrency_key=order.options.concurrency_key)


def _keep(
    session: ApplicationSession, made: Schedule, stored: ScheduleRow | None, revision: int | None, by: str
) -> Talk[ScheduleRow]:
    due_ticks.check(made)
    now: int = yield admin.clock()
    wanted = with_next(made, stored, now)
    if made.kind is Kind.ONCE and made.enabled and wanted.next_run_at is None:
        raise InvalidSchedule(f"Schedule {made.key!r}: {made.expression} is over.", hint="Give an instant to come.")
    kept: ScheduleRow = yield schedules.save(wanted, by=given.operator(by), revision=revision)
    session.connections.ring()
    return kept


def _readable(key: str) -> Talk[ScheduleRow]:
    found: ScheduleRow = yield schedules.get(key)
    if found.error is not None:
        raise InvalidSchedule(f"Schedule {key!r} cannot be read: {found.error}.", hint="Save it again, or delete it.")
    return found
