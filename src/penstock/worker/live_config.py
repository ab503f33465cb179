"""The settings that operators change while a worker runs: limits of definitions, configuration of workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from penstock.config.worker_settings import LIVE, WorkerSettings, configured
from penstock.domain.definition import Definition, DefinitionRow, with_overrides
from penstock.domain.errors import InvalidInput, StoreUnavailable
from penstock.domain.instant import SECOND
from penstock.domain.ports.admin import AdminPort
from penstock.domain.ports.store import Store
from penstock.domain.worker_config import SETTING, WorkerConfig, from_text
from penstock.runtime.service import log

_PLAIN = Definition(key="plain")
"""A definition with all defaults."""


class LiveConfig:
    """The last values read; `version` is the one that a heartbeat has announced."""

    def __init__(self, store: Store, admin: AdminPort, own: WorkerSettings, changed: Callable[[], None]) -> None:
        self.version: int = -1
        self.limited: set[int] = set()
        """The lanes with a limit that a claim must check."""
        self.config: WorkerConfig = WorkerConfig()
        self.settings: WorkerSettings = own
        """The worker's own settings, with the configured values in their place."""
        self.custom: Mapping[str, Any] = {}
        self.overridden: bool = False
        """Whether the last read found other overrides: jobs that were claimed before have the old ones."""
        self._overrides: Mapping[int, Mapping[str, object]] = {}
        self._store = store
        self._admin = admin
        self._own = own
        self._changed = changed

    async def read(self, lanes: Mapping[int, Definition], version: int = -1) -> None:
        """Read the settings of these definitions. A definition that was retired or removed while this worker started is
        registered again: only definitions without a live worker are retired or removed."""
        rows = await self._store.arun(self._admin.definitions())
        gone = [lanes[row.lane] for row in rows if row.lane in lanes and (row.removed or row.retired is not None)]
        if gone:
            await self._store.arun(self._admin.register(gone))
        limited = _limited(rows)
        self.limited = {row.lane for row in rows if row.lane in lanes and row.definition.key in limited}
        overrides = {row.lane: row.overrides for row in rows if row.overrides and row.lane in lanes}
        self.overridden, self._overrides = overrides != self._overrides, overrides
        config = await stored_config(self._store, self._admin, self.config)
        if config.enabled is not self.config.enabled:
            log.warning("the worker configuration has %s this worker", "enabled" if config.enabled else "disabled")
        self.config, self.custom = config, json.loads(config.custom)
        self.settings = configured(self._own, config, LIVE)
        self.version = version
        self._changed()

    def in_force(self, lane: int, definition: Definition) -> Definition:
        """The definition for an attempt that begins now: the code's values, replaced by the operators' overrides."""
        grace = round(self.settings.cancel_grace * SECOND)
        if definition.cancel_grace == _PLAIN.cancel_grace != grace:
            definition = replace(definition, cancel_grace=grace)
        overrides = self._overrides.get(lane)
        return definition if overrides is None else with_overrides(definition, overrides)

    def all_in_force(self, lanes: Set[int], definitions: Mapping[int, Definition]) -> dict[int, Definition]:
        """The same for those of several lanes that have a definition."""
        return {lane: self.in_force(lane, definitions[lane]) for lane in lanes & definitions.keys()}

    async def catch_up(self, lanes: Mapping[int, Definition], version: int) -> None:
        """Read, unless the store does not answer; the next heartbeat tries again."""
        try:
            await self.read(lanes, version)
        except StoreUnavailable as error:
            log.warning("changed settings are read after the next heartbeat: %s", error)


async def stored_config(store: Store, admin: AdminPort, otherwise: WorkerConfig) -> WorkerConfig:
    """The configuration of all workers; `otherwise`, with an error in the log, when the stored one is invalid."""
    stored = (await store.arun(admin.settings())).get(SETTING)
    try:
        return from_text(None if stored is None else stored.value)
    except InvalidInput as error:
        log.error("the stored worker configuration cannot be used, and the last good one holds: %s", error)
        return otherwise


def _limited(rows: Sequence[DefinitionRow]) -> set[str]:
    """The keys of definitions with a limit. The newest version's limits hold for all versions of a definition."""
    newest = {row.definition.key: row for row in sorted(rows, key=lambda row: row.definition.version)}
    # The limits of an unreadable definition are unknown. Checking them in the claim is always correct.
    return {key for key, row in newest.items() if row.error is not None or _limits(row.definition, row.overrides)}


def _limits(definition: Definition, overrides: Mapping[str, object]) -> bool:
    """Whether a definition has a limit that a claim must look at."""
    own = {
        "concurrency": definition.concurrency,
        "rate_count": 0 if definition.rate_limit is None else definition.rate_limit.count,
    }
    return any(overrides.get(name, value) for name, value in own.items())
