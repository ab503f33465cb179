"""The admin port: definitions, reading, counting, workers, settings, retention."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.domain import worker_config
from penstock.domain.errors import InvalidInput, RevisionConflict
from penstock.domain.plan import Statement, Steps, reads, writes_once
from penstock.domain.worker import WorkerRow
from penstock.domain.worker_config import Setting
from penstock.storage.commands import audit as changes
from penstock.storage.commands import rows
from penstock.storage.commands.alerts import list_alerts as list_alerts
from penstock.storage.commands.alerts import save_alerts as save_alerts
from penstock.storage.commands.audit import audit as audit
from penstock.storage.commands.listing import count as count
from penstock.storage.commands.listing import page as page
from penstock.storage.commands.maintenance import check_integrity as check_integrity
from penstock.storage.commands.reading import attempts as attempts
from penstock.storage.commands.reading import get as get
from penstock.storage.commands.reading import logs as logs
from penstock.storage.commands.reading import reviews as reviews
from penstock.storage.commands.registration import definition as definition
from penstock.storage.commands.registration import definitions as definitions
from penstock.storage.commands.registration import register as register
from penstock.storage.commands.retention import apply_defaults as apply_defaults
from penstock.storage.commands.retention import delete_archived as delete_archived
from penstock.storage.commands.retention import prune_attempts as prune_attempts
from penstock.storage.commands.retention import retire as retire
from penstock.storage.commands.retention import take_for_archive as take_for_archive
from penstock.storage.commands.retention import tidy as tidy
from penstock.storage.commands.rows import Row
from penstock.storage.commands.rows import setting as _setting
from penstock.storage.commands.stats import counts as counts
from penstock.storage.commands.stats import errors as errors
from penstock.storage.commands.stats import fold as fold
from penstock.storage.commands.stats import longest_running as longest_running
from penstock.storage.commands.stats import stats as stats
from penstock.storage.commands.stats import totals as totals
from penstock.storage.commands.stats import usual_durations as usual_durations
from penstock.storage.commands.why import system_pause as system_pause
from penstock.storage.commands.why import unserved as unserved
from penstock.storage.commands.why import why as why


@reads
def workers() -> Steps[list[WorkerRow]]:
    return [rows.worker(row) for row in (yield Statement("read_workers"))]


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
def put_setting(
    name: str, value: str, *, by: str, revision: int | None = None,
    told: tuple[Mapping[str, object], Mapping[str, object]] | None = None,
) -> Steps[Setting]:  # fmt: skip
    """Workers learn of it with their next heartbeat."""
    saved = yield Statement("save_setting", {"name": name, "value": value, "by": by, "revision": revision})
    if not saved:
        raise _revision_conflict(name, revision, (yield Statement("find_setting", {"name": name})))
    setting = _setting(saved[0])
    if name == worker_config.SETTING:
        yield from _keep_ageing(value, by)
    yield Statement("bump_controls", {"by": by})
    old, new = told or ({}, {})
    before = {"revision": setting.revision - 1, **old} if setting.revision > 1 else dict(old) or None
    yield changes.entry(by, "setting.put", name, before, {"revision": setting.revision, **new})
    return setting


def _keep_ageing(text: str, by: str) -> Steps[None]:
    """Keep the ageing interval of a worker configuration where statements read it; one that is unreadable has none."""
    try:
        interval = worker_config.ageing_interval(worker_config.from_text(text))
    except InvalidInput:
        return
    yield Statement("save_ageing", {"interval": str(interval), "by": by})


def _revision_conflict(name: str, expected: int | None, found: list[Row]) -> RevisionConflict:
    if not found:
        message = f"There is no setting {name!r} yet, but revision {expected} of it was expected."
    else:
        message = f"Setting {name!r} has revision {found[0][2]}, but {expected} was expected."
    return RevisionConflict(message, hint="Read it again, and apply the change to what is there now.")
