"""The configuration that an operator gives to all workers of a store while they run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.definitions import enqueue_options as given
from penstock.definitions.handles import PYTHON
from penstock.domain import worker_config as rules
from penstock.domain.errors import InvalidInput, RevisionConflict
from penstock.domain.instant import to_datetime
from penstock.domain.worker_config import Disabled, Setting, WorkerConfig
from penstock.operations.session import Conversation, Talk
from penstock.storage.commands import admin

_MOST_TRIES = 20


class Configuring(Conversation):
    """Reads and changes what holds for every worker; running ones learn of it with their next heartbeat."""

    def worker_config(self) -> tuple[WorkerConfig, int]:
        """The stored configuration of all workers and its revision; 0 while nobody has changed anything."""
        return self._do(self._worker_config())

    async def aworker_config(self) -> tuple[WorkerConfig, int]:
        return await self._ado(self._worker_config())

    def set_worker_config(
        self, changes: WorkerConfig | Mapping[str, Any], *, revision: int | None = None, by: str = PYTHON
    ) -> tuple[WorkerConfig, int]:
        """Change the configuration of all workers: a `WorkerConfig` replaces it, a mapping (as in JSON) changes what it
        names. With a `revision` it must be the stored one: `RevisionConflict`."""
        return self._do(self._set_worker_config(changes, revision, by))

    async def aset_worker_config(
        self, changes: WorkerConfig | Mapping[str, Any], *, revision: int | None = None, by: str = PYTHON
    ) -> tuple[WorkerConfig, int]:
        return await self._ado(self._set_worker_config(changes, revision, by))

    def _worker_config(self) -> Talk[tuple[WorkerConfig, int]]:
        stored = yield from self._stored_config()
        return _config(stored)

    def _set_worker_config(
        self, changes: WorkerConfig | Mapping[str, Any], revision: int | None, by: str
    ) -> Talk[tuple[WorkerConfig, int]]:
        if revision is not None and given.integer(revision, "revision") < 0:
            raise InvalidInput(f"A revision is not negative, as {revision} is.")
        who = given.actor(by) or PYTHON
        tries = 1 if revision is not None else _MOST_TRIES
        while True:
            stored = yield from self._stored_config()
            before, found = _before(stored, changes)
            after = changes if isinstance(changes, WorkerConfig) else rules.merged(before, changes)
            disabled = rules.disabled_in(stored) or Disabled(who, to_datetime(time.time_ns() // 1000))
            plan = admin.put_setting(
                rules.SETTING, rules.to_text(after, disabled), by=who, revision=found if revision is None else revision,
                told=rules.changes_between(before, after),
            )  # fmt: skip
            try:
                saved: Setting = yield plan
            except RevisionConflict:
                tries -= 1
                if not tries:
                    raise
            else:
                self._ring()
                return after, saved.revision

    def _stored_config(self) -> Talk[Setting | None]:
        settings: dict[str, Setting] = yield admin.settings()
        return settings.get(rules.SETTING)


def _config(stored: Setting | None) -> tuple[WorkerConfig, int]:
    return (WorkerConfig(), 0) if stored is None else (rules.from_text(stored.value), stored.revision)


def _before(stored: Setting | None, changes: object) -> tuple[WorkerConfig, int]:
    """What is changed; one that cannot be read can still be replaced as a whole."""
    try:
        return _config(stored)
    except InvalidInput:
        if stored is None or not isinstance(changes, WorkerConfig):
            raise
        return WorkerConfig(), stored.revision
