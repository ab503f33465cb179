"""What operators have said and a worker must look at: limits of definitions and the custom settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from penstock.core.definition import Definition
from penstock.core.ports import AdminPort, Store

_CUSTOM = "worker.custom"


class Controls:
    """The last that was read; `version` is that of the heartbeat which told of it."""

    def __init__(self, store: Store, admin: AdminPort) -> None:
        self.version = -1
        self.limited: set[int] = set()
        """The lanes with a limit that a claim must look at."""
        self.custom: Mapping[str, Any] = {}
        self._store = store
        self._admin = admin

    async def read(self, lanes: Collection[int], version: int = -1) -> None:
        """Learn what holds for these lanes now."""
        rows = await self._store.arun(self._admin.definitions())
        self.limited = {row.lane for row in rows if row.lane in lanes and _limits(row.definition, row.overrides)}
        stored = (await self._store.arun(self._admin.settings())).get(_CUSTOM)
        self.custom = _object(None if stored is None else stored.value)
        self.version = version


def _limits(definition: Definition, overrides: Mapping[str, object]) -> bool:
    """Whether a definition has a limit that a claim must look at."""
    own = {
        "concurrency": definition.concurrency,
        "rate_count": 0 if definition.rate_limit is None else definition.rate_limit.count,
    }
    return any(overrides.get(name, value) for name, value in own.items())


def _object(value: str | None) -> Mapping[str, Any]:
    found = json.loads(value) if value else {}
    return found if isinstance(found, dict) else {}
