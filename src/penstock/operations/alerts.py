"""What an operator should look at: what holds now, and what was raised and cleared before."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.domain import alerts as rules
from penstock.domain.alerts import Alert, AlertFacts, StoredAlert
from penstock.domain.definition import DefinitionRow, with_overrides
from penstock.domain.errors import InvalidInput
from penstock.domain.instant import SECOND
from penstock.domain.stats import Durations, Running, Stats
from penstock.domain.worker_config import SETTING, WorkerConfig, disabled_in, from_text
from penstock.operations.session import Talk
from penstock.operations.statistics import Figures
from penstock.storage.commands import admin, schedules, webhooks


class Alerting(Figures):
    """Compares the figures with the thresholds of the worker configuration."""

    def alerts(self) -> list[Alert]:
        """All that somebody should look at now, the critical first."""
        return self._do(self._alerts())

    async def aalerts(self) -> list[Alert]:
        return await self._ado(self._alerts())

    def alert_history(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> list[StoredAlert]:
        """Alerts that the duties have raised, the newest first; with `cleared`, only those that were, or were not.

        `before` is the `seq` of the last one of a page, for the next page."""
        return self._do(self._alert_history(cleared, limit, before))

    async def aalert_history(
        self, *, cleared: bool | None = None, limit: int = 100, before: int | None = None
    ) -> list[StoredAlert]:
        return await self._ado(self._alert_history(cleared, limit, before))

    def _alert_history(self, cleared: bool | None, limit: int, before: int | None) -> Talk[list[StoredAlert]]:
        place = None if before is None else given.integer(before, "before")
        found: list[StoredAlert] = yield admin.list_alerts(
            cleared=cleared, limit=given.integer(limit, "limit"), before=place
        )
        return found

    def _alerts(self, taken: Collection[tuple[str, int]] = ()) -> Talk[list[Alert]]:
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
        history, timeouts = yield from self._known_of(running, stats)
        return rules.alerts(
            AlertFacts(
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

    def _known_of(
        self, running: list[Running], stats: Stats
    ) -> Talk[tuple[dict[str, Durations], dict[str, float | None]]]:
        """What is known of definitions that run something and have had no success in the window."""
        measured = {each.definition_key for each in stats.definitions if each.durations is not None}
        if all(each.definition in measured or stats.at - each.started_at < rules.LATE for each in running):
            return {}, {}
        history: dict[str, Durations] = yield admin.usual_durations()
        rows: list[DefinitionRow] = yield admin.definitions()
        timeouts: dict[str, float | None] = {}
        for each in sorted(rows, key=lambda row: row.definition.version):
            timeout = with_overrides(each.definition, each.overrides).timeout
            timeouts[each.definition.key] = None if timeout is None else timeout / SECOND
        return history, timeouts
