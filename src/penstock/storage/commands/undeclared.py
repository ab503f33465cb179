"""Retirement and removal of definitions that no code declares; a part of the control port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.domain.errors import Conflict, Hint, NotFound
from penstock.domain.plan import Statement, Steps, writes
from penstock.domain.schedule.schedule import Schedule
from penstock.domain.states import BY_CODE
from penstock.domain.worker import WorkerRow
from penstock.storage.commands import audit, definition_controls, rows, schedules
from penstock.storage.commands.definition_text import closed
from penstock.storage.commands.limits import served_lanes

_SHOWN = 5
_CODE = "code"
_AS_NEW: Mapping[str, Any] = {
    "enabled": True, **dict.fromkeys(("pause_reason", "pause_by", "pause_at", "pause_until")), "concurrency": 0,
    "key_concurrency": 0, "rate_count": 0, "rate_period": 0, "rate_per_key": False, "priority": None,
    "max_attempts": None, "overrides": "{}",
}  # fmt: skip
"""The controls of a new definition."""


@writes
def retire_definition(key: str, *, by: str) -> Steps[None]:
    """Again, it changes nothing."""
    control = yield from definition_controls.hold_definition(key)
    if control["retired_at"] is not None:
        return
    lanes: dict[int, int] = dict((yield Statement("versions_of", {"key": key})))
    named = f"Definition {key!r}"
    yield from _check_workers(lanes.values(), f"{named} cannot be retired")
    found = yield from _schedules_of(key)
    _check_schedules(found, f"{named} cannot be retired")
    for each in found:
        if each.owner == _CODE and each.enabled:
            yield from schedules.save(replace(each, enabled=False), by=by).steps()
    ((now,),) = yield Statement("clock")
    yield from definition_controls.save(
        key, control, {"retired_at": now, "retired_by": str(by)}, "definition.retire", by
    )


@writes
def remove_definition(key: str, *, version: int | None = None, by: str) -> Steps[None]:
    control = yield from definition_controls.hold_definition(key)
    lanes: dict[int, int] = dict((yield Statement("versions_of", {"key": key})))
    if version is not None and version not in lanes:
        raise NotFound("definition", f"{key} version {version}", hint=f"There is version {', '.join(map(str, lanes))}.")
    chosen = [lane for each, lane in lanes.items() if version in (None, each)]
    whole = len(chosen) == len(lanes)
    named = f"Definition {key!r}" if version is None else f"Version {version} of definition {key!r}"
    yield from _check_workers(chosen, f"{named} cannot be removed")
    yield from _check_jobs(chosen, named)
    found = [each for each in (yield from _schedules_of(key)) if whole or each.definition_version == version]
    _check_schedules(found, f"{named} cannot be removed")
    for each in found:
        if each.owner == _CODE:
            yield from schedules.remove(each.key, by=by).steps()
    yield Statement("mark_removed", {"lanes": chosen})
    if whole:
        ((now,),) = yield Statement("clock")
        changed = {**_AS_NEW, "retired_at": now, "retired_by": str(by)}
        yield from definition_controls.save(key, control, changed, "definition.remove", by)
    else:
        yield Statement("bump_controls", {"by": by})
        yield audit.entry(by, "definition.remove", key, {"version": version})


def return_declared(keys: Sequence[str]) -> Steps[None]:
    """Bring retired definitions back, because code declares them again; their keys are locked."""
    back = [key for (key,) in (yield Statement("return_retired", columns={"key": keys}))]
    if back:
        yield Statement("bump_controls", {"by": _CODE})
        yield audit.entries(_CODE, "definition.return", [(key, None, None) for key in sorted(back)])


def check_declared(lanes: Iterable[int], wish: str) -> Steps[None]:
    """Raise when one of these definitions is retired or removed; lock them until the transaction ends."""
    wanted = {"lanes": sorted(set(lanes))}
    yield Statement("hold_keys_of_lanes", wanted)
    for _, key, version, retired_by, removed in (yield Statement("closed_lanes", wanted)):
        raise closed(key, version, retired_by, removed=bool(removed), wish=wish)


def note_declared() -> Steps[None]:
    """Record that definitions which live workers have loaded are declared."""
    served = yield from served_lanes()
    if served:
        yield Statement("note_declared", {"lanes": sorted(served)})


def show_unfinished() -> Steps[None]:
    """List removed definitions again of which an earlier transaction created a job."""
    if (yield Statement("show_unfinished")):
        yield Statement("bump_controls", {"by": _CODE})


def _check_workers(lanes: Iterable[int], wish: str) -> Steps[None]:
    wanted = set(lanes)
    workers = map(rows.worker, (yield Statement("read_workers")))
    serving = [each for each in workers if each.live and wanted & {*each.lanes}]
    if serving:
        raise Conflict(
            f"{wish}: {_named(serving)} {'has' if len(serving) == 1 else 'have'} it loaded.",
            hint="Stop that worker, or start it with code that does not declare it. To refuse jobs only, disable it.",
        )


def _check_jobs(lanes: Sequence[int], named: str) -> Steps[None]:
    found = yield Statement("unfinished_of", {"lanes": lanes})
    if found:
        count = ", ".join(f"{n} {BY_CODE[status]}" for status, n in found)
        raise Conflict(
            f"{named} cannot be removed: it has jobs that have not ended ({count}).",
            hint=Hint(
                'Cancel them: app.bulk("cancel", definition_key=key). Or run a worker that has the code.',
                http="Cancel them: POST /v1/jobs/bulk with this definitionKey. Or run a worker that has the code.",
                cli="Cancel them: `penstock jobs cancel --definition-key KEY`. Or run a worker that has the code.",
            ),
        )


def _schedules_of(key: str) -> Steps[list[Schedule]]:
    found = yield from schedules.all().steps()
    return [row.schedule for row in found if row.error is None and row.schedule.definition_key == key]


def _check_schedules(found: Iterable[Schedule], wish: str) -> None:
    """An operator's schedule would fail at each tick."""
    others = [each.key for each in found if each.enabled and each.owner != _CODE]
    if others:
        several = len(others) > 1
        raise Conflict(
            f"{wish}: {'schedules' if several else 'schedule'} {_listed(map(repr, others))} "
            f"{'make' if several else 'makes'} jobs of it.",
            hint="Disable or delete what an operator has scheduled first.",
        )


def _named(workers: Iterable[WorkerRow]) -> str:
    return "worker " + _listed(f"{each.name} (process {each.pid} on {each.host})" for each in workers)


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
