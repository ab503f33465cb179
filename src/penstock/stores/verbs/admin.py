"""The admin port: definitions, reading, counting, workers, settings, retention."""

from __future__ import annotations

import json

from penstock.core.admin import AuditEntry, Setting
from penstock.core.errors import RevisionConflict
from penstock.core.instant import to_datetime
from penstock.core.plan import Statement, Steps, reads, writes_once
from penstock.core.worker import WorkerRow
from penstock.stores.verbs import audit as changes
from penstock.stores.verbs.counting import counts as counts
from penstock.stores.verbs.counting import fold as fold
from penstock.stores.verbs.listing import count as count
from penstock.stores.verbs.listing import page as page
from penstock.stores.verbs.reading import attempts as attempts
from penstock.stores.verbs.reading import get as get
from penstock.stores.verbs.reading import logs as logs
from penstock.stores.verbs.reading import reviews as reviews
from penstock.stores.verbs.registration import definition as definition
from penstock.stores.verbs.registration import definitions as definitions
from penstock.stores.verbs.registration import register as register
from penstock.stores.verbs.retention import retire as retire
from penstock.stores.verbs.retention import tidy as tidy
from penstock.stores.verbs.rows import Row
from penstock.stores.verbs.why import system_pause as system_pause
from penstock.stores.verbs.why import unserved as unserved
from penstock.stores.verbs.why import why as why


@reads
def workers() -> Steps[list[WorkerRow]]:
    return [_worker(row) for row in (yield Statement("read_workers"))]


@reads
def clock() -> Steps[int]:
    ((now,),) = yield Statement("clock")
    return int(now)


@reads
def leader() -> Steps[str | None]:
    found = yield Statement("leader")
    worker: str | None = found[0][0]
    return worker


@reads
def settings() -> Steps[dict[str, Setting]]:
    return {row[0]: _setting(row) for row in (yield Statement("read_settings"))}


@writes_once
def put_setting(name: str, value: str, *, by: str, revision: int | None = None) -> Steps[Setting]:
    """Workers learn of it with their next heartbeat. The audit tells who and which revision: values may be secret."""
    saved = yield Statement("save_setting", {"name": name, "value": value, "by": by, "revision": revision})
    if not saved:
        raise _revision_conflict(name, revision, (yield Statement("find_setting", {"name": name})))
    setting = _setting(saved[0])
    yield Statement("bump_controls", {"by": by})
    before = {"revision": setting.revision - 1} if setting.revision > 1 else None
    yield changes.entry(by, "setting.put", name, before, {"revision": setting.revision})
    return setting


@reads
def audit(*, limit: int = 100, before: int | None = None) -> Steps[list[AuditEntry]]:
    found = yield Statement("read_audit", {"limit": limit, "before": before})
    return [AuditEntry(seq, to_datetime(at), *rest) for seq, at, *rest in found]


def _worker(row: Row) -> WorkerRow:
    worker, name, host, pid, lanes, slots, code_version, started_at, heartbeat_at, live, ended = row
    return WorkerRow(
        id=worker, name=name, host=host, pid=pid, lanes=tuple(json.loads(lanes)), slots=slots,
        code_version=code_version, started_at=to_datetime(started_at), heartbeat_at=to_datetime(heartbeat_at),
        live=bool(live), ended=ended,
    )  # fmt: skip


def _setting(row: Row) -> Setting:
    name, value, revision, updated_at, updated_by = row
    return Setting(name, value, revision, to_datetime(updated_at), updated_by)


def _revision_conflict(name: str, expected: int | None, found: list[Row]) -> RevisionConflict:
    if not found:
        message = f"There is no setting {name!r} yet, but revision {expected} of it was expected."
    else:
        message = f"Setting {name!r} has revision {found[0][2]}, but {expected} was expected."
    return RevisionConflict(message, hint="Read it again, and apply the change to what is there now.")
