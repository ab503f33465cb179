"""Lists workers, and reads and changes the configuration that holds for all of them."""

from __future__ import annotations

import time

from penstock.domain import worker_config as rules
from penstock.domain.admin import Setting
from penstock.domain.errors import InvalidInput, RevisionConflict
from penstock.domain.instant import to_datetime
from penstock.domain.worker import WorkerRow
from penstock.domain.worker_config import Disabled, WorkerConfig
from penstock.operations.session import ApplicationSession, Talk
from penstock.storage.commands import admin
from penstock.surface import enqueue_options as given
from penstock.surface.workers import ConfigureWorkers, ListWorkers, ReadConfiguration

_MOST_TRIES = 20


def list_workers(_: ApplicationSession, __: ListWorkers) -> Talk[list[WorkerRow]]:
    found: list[WorkerRow] = yield admin.workers()
    return found


def read_configuration(_: ApplicationSession, __: ReadConfiguration) -> Talk[tuple[WorkerConfig, int]]:
    return _config((yield from _stored_config()))


def configure_workers(session: ApplicationSession, asked: ConfigureWorkers) -> Talk[tuple[WorkerConfig, int]]:
    changes, revision = asked.changes, asked.revision
    if revision is not None and given.integer(revision, "revision") < 0:
        raise InvalidInput(f"A revision is not negative, as {revision} is.")
    who = given.operator(asked.by)
    tries = 1 if revision is not None else _MOST_TRIES
    while True:
        stored = yield from _stored_config()
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
            session.connections.ring()
            return after, saved.revision


def _stored_config() -> Talk[Setting | None]:
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
