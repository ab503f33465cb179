"""Figures, errors and alerts; and instants that were written while the clock was ahead."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.domain import alerts as rules
from penstock.domain.alerts import Alert, Facts, StoredAlert
from penstock.domain.clock_mark import ClockMark
from penstock.domain.definition import DefinitionRow
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND
from penstock.domain.overrides import in_force
from penstock.domain.stats import Durations, ErrorPage, Running, Stats, Totals
from penstock.domain.worker_config import SETTING, WorkerConfig, disabled_in, from_text
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin, clock_marks, schedules, webhooks
from penstock.surface import enqueue_options as given
from penstock.surface import monitoring as surface

_MOST_MARKS = 1000


def read_stats(_: ApplicationSession, asked: surface.ReadStats) -> Talk[Stats]:
    found: Stats = yield admin.stats(given.instant(asked.since, "since"))
    return found


def read_totals(_: ApplicationSession, __: surface.ReadTotals) -> Talk[Totals]:
    found: Totals = yield admin.totals()
    return found


def read_counts(_: ApplicationSession, __: surface.ReadCounts) -> Talk[surface.Counts]:
    found: surface.Counts = yield admin.counts()
    return found


def list_errors(_: ApplicationSession, asked: surface.ListErrors) -> Talk[ErrorPage]:
    if not isinstance(asked.cursor, str | None):
        raise InvalidInput(f"A cursor is a text, not {asked.cursor!r:.80}.")
    begin = given.instant(asked.since, "since")
    page: ErrorPage = yield admin.errors(begin, limit=given.integer(asked.limit, "limit"), cursor=asked.cursor)
    return page


def list_alerts(_: ApplicationSession, __: surface.ListAlerts) -> Talk[list[Alert]]:
    return (yield from alerts_now())


def list_past_alerts(_: ApplicationSession, asked: surface.ListPastAlerts) -> Talk[list[StoredAlert]]:
    place = None if asked.before is None else given.integer(asked.before, "before")
    limit = given.integer(asked.limit, "limit")
    found: list[StoredAlert] = yield admin.kept_alerts(cleared=asked.cleared, limit=limit, before=place)
    return found


def list_clock_marks(_: ApplicationSession, __: surface.ListClockMarks) -> Talk[list[ClockMark]]:
    found: list[ClockMark] = yield clock_marks.marks_ahead(_MOST_MARKS)
    return found


def set_clock_marks_back(session: ApplicationSession, asked: surface.SetClockMarksBack) -> Talk[list[ClockMark]]:
    found: list[ClockMark] = yield clock_marks.set_back(by=given.operator(asked.by), limit=_MOST_MARKS)
    session.connections.ring()
    return found


def alerts_now(taken: Collection[tuple[str, int]] = ()) -> Talk[list[Alert]]:
    """`taken` are the keys and versions of definitions that a worker serves which is about to begin."""
    settings: Any = yield admin.settings()
    stored = settings.get(SETTING)
    config, problem = WorkerConfig(), None
    try:
        config = from_text(None if stored is None else stored.value)
    except InvalidInput as error:
        problem = str(error)
    now: int = yield admin.clock()
    stats: Stats = yield admin.stats(now - round(config.alerts.window * SECOND))
    running: list[Running] = yield admin.longest_running()
    history, timeouts = yield from _known_of(running, stats)
    return rules.alerts(
        Facts(
            stats=stats,
            thresholds=config.alerts,
            config_error=problem,
            disabled=disabled_in(stored),
            system_pause=(yield admin.system_pause()),
            unserved=[each for each in (yield admin.unserved()) if each[:2] not in taken],
            failing=[each for each in (yield admin.workers()) if each.cannot_load],
            schedules=(yield schedules.all()),
            running=running,
            endpoints=(yield webhooks.endpoints()),
            history=history,
            timeouts=timeouts,
        )
    )


def _known_of(running: list[Running], stats: Stats) -> Talk[tuple[dict[str, Durations], dict[str, float | None]]]:
    """What is known of definitions that run something and have had no success in the window."""
    measured = {each.definition_key for each in stats.definitions if each.durations is not None}
    if all(each.definition in measured or stats.at - each.started_at < rules.LATE for each in running):
        return {}, {}
    history: dict[str, Durations] = yield admin.usual_durations()
    rows: list[DefinitionRow] = yield admin.definitions()
    timeouts: dict[str, float | None] = {}
    for each in sorted(rows, key=lambda row: row.definition.version):
        timeout = in_force(each.definition, each.overrides).timeout
        timeouts[each.definition.key] = None if timeout is None else timeout / SECOND
    return history, timeouts
