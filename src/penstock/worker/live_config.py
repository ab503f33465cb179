"""What operators have said and a worker must look at: limits of definitions and the configuration of all workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from penstock.config.worker_settings import LIVE, WorkerSettings, configured
from penstock.domain.definition import Definition, DefinitionRow
from penstock.domain.errors import InvalidInput, StoreUnavailable
from penstock.domain.instant import SECOND
from penstock.domain.overrides import in_force
from penstock.domain.ports.store import AdminPort, Store
from penstock.domain.worker_config import SETTING, WorkerConfig, from_text
from penstock.runtime.service import log

_PLAIN = Definition(key="plain")
"""What a definition has that says nothing."""


class LiveConfig:
    """The last that was read; `version` is that of the heartbeat which told of it."""

    def __init__(self, store: Store, admin: AdminPort, own: WorkerSettings, changed: Callable[[], None]) -> None:
        self.version: int = -1
        self.limited: set[int] = set()
        """The lanes with a limit that a claim must look at."""
        self.config: WorkerConfig = WorkerConfig()
        self.settings: WorkerSettings = own
        """The worker's own settings, with what the configuration says instead."""
        self.custom: Mapping[str, Any] = {}
        self.overridden: bool = False
        """Whether the last look has found other overrides: what was claimed before it has the old ones."""
        self._overrides: Mapping[int, Mapping[str, object]] = {}
        self._store = store
        self._admin = admin
        self._own = own
        self._changed = changed

    async def read(self, lanes: Mapping[int, Definition], version: int = -1) -> None:
        """Learn what holds for these definitions now. One that was retired or removed while this worker started is
        declared again: what is retired or removed has no live worker."""
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
            log.warning("the worker configuration says: take %s", "jobs again" if config.enabled else "no jobs")
        self.config, self.custom = config, json.loads(config.custom)
        self.settings = configured(self._own, config, LIVE)
        self.version = version
        self._changed()

    def in_force(self, lane: int, definition: Definition) -> Definition:
        """A definition as an attempt that begins now shall see it: with what operators want in place of the code's."""
        grace = round(self.settings.cancel_grace * SECOND)
        if definition.cancel_grace == _PLAIN.cancel_grace != grace:
            definition = replace(definition, cancel_grace=grace)
        overrides = self._overrides.get(lane)
        return definition if overrides is None else in_force(definition, overrides)

    def all_in_force(self, lanes: Set[int], definitions: Mapping[int, Definition]) -> dict[int, Definition]:
        """The same for those of several lanes that have a definition."""
        return {lane: self.in_force(lane, definitions[lane]) for lane in lanes & definitions.keys()}

    async def catch_up(self, lanes: Mapping[int, Definition], version: int) -> None:
        """The same, unless the store does not answer; the next heartbeat asks for it again."""
        try:
            await self.read(lanes, version)
        except StoreUnavailable as error:
            log.warning("what operators have changed is read with the next heartbeat: %s", error)


async def stored_config(store: Store, admin: AdminPort, otherwise: WorkerConfig) -> WorkerConfig:
    """The configuration of all workers; `otherwise` when what is stored cannot be used, which is said."""
    stored = (await store.arun(admin.settings())).get(SETTING)
    try:
        return from_text(None if stored is None else stored.value)
    except InvalidInput as error:
        log.error("the stored worker configuration cannot be used, and the last good one holds: %s", error)
        return otherwise


def _limited(rows: Sequence[DefinitionRow]) -> set[str]:
    """The keys of definitions with a limit. The newest version's limits hold for all versions of a definition."""
    newest = {row.definition.key: row for row in sorted(rows, key=lambda row: row.definition.version)}
    # The limits of a definition that cannot be read are unknown. The claim looks at them, which is never wrong.
    return {key for key, row in newest.items() if row.error is not None or _limits(row.definition, row.overrides)}


def _limits(definition: Definition, overrides: Mapping[str, object]) -> bool:
    """Whether a definition has a limit that a claim must look at."""
    own = {
        "concurrency": definition.concurrency,
        "rate_count": 0 if definition.rate_limit is None else definition.rate_limit.count,
    }
    return any(overrides.get(name, value) for name, value in own.items())
