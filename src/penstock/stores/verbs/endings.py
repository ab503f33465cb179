"""How attempts end: one way for all of them, whoever says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.core import event as kinds
from penstock.core.job import Held
from penstock.core.outcome import Settlement
from penstock.core.plan import Rows, Statement, Steps
from penstock.core.transitions import Status
from penstock.core.worker import SettleReport
from penstock.stores.verbs import hooks, limits, rows


def settle(worker: str | None, settlements: Sequence[Settlement]) -> Steps[SettleReport]:
    """Apply endings where the fence still matches; tell those already on record from those refused."""
    if not settlements:
        return SettleReport([], [], [])
    # Of several endings of one job only the newest fence can hold, and only once.
    newest: dict[str, Settlement] = {}
    for each in settlements:
        if each.job_id not in newest or each.fence > newest[each.job_id].fence:
            newest[each.job_id] = each
    ended: Rows = []
    fresh: dict[str, int] = {}
    done: dict[int, list[Settlement]] = {}
    rest: list[Settlement] = []
    for each in newest.values():
        (done.setdefault(each.fence, []) if rows.is_plain_success(each) else rest).append(each)
    for fence, alike in done.items():
        values = {"worker": worker, "fence": fence, "count": len(alike)}
        (_, count, *_), *told = yield Statement("settle_done", values, columns=rows.success_columns(alike))
        if count == len(alike):
            fresh |= {each.job_id: fence for each in alike}
        ended += told
    if rest:
        ended += yield Statement("settle", {"worker": worker}, columns=rows.settlement_columns(rest))
    yield from limits.admit((row[3], row[4]) for row in ended if row[3] is not None)
    if any(hooked for *_, hooked in ended):
        yield from hooks.save(_calls(newest, [row for row in ended if row[-1]]))
    fresh |= {job_id: fence for job_id, fence, *_ in ended}
    applied: list[str] = []
    others: list[Settlement] = []
    for each in settlements:
        if fresh.get(each.job_id) == each.fence:
            applied.append(each.job_id)
            del fresh[each.job_id]
        else:
            others.append(each)
    repeated: list[str] = []
    refused: list[Held] = []
    recorded = (yield from _recorded(others)) if others else {}
    for each in others:
        if recorded.get((each.job_id, each.fence)) == each.outcome.cause:
            repeated.append(each.job_id)
        else:
            refused.append(Held(each.job_id, each.fence))
    return SettleReport(applied, repeated, refused)


def _calls(settlements: Mapping[str, Settlement], ended: Iterable[rows.Row]) -> Iterator[hooks.Call]:
    """What hooks are told of these endings: the same as the events."""
    for job_id, fence, status, _, _, lane, _ in ended:
        settlement = settlements[job_id]
        kind = kinds.CANCELLED if status == Status.CANCELLED.code else rows.event_kind(settlement)
        yield lane, job_id, fence, kind, rows.event_data(settlement)


def _recorded(endings: Sequence[Settlement]) -> Steps[dict[tuple[str, int], str]]:
    """How the attempts among these that are on record ended: one that was given up as lost has not returned."""
    held = [Held(each.job_id, each.fence) for each in endings]
    found = yield Statement("find_attempts", columns=held_columns(held))
    return {(job_id, fence): cause for job_id, fence, cause in found}


def newest(held: Iterable[Held]) -> list[Held]:
    """Of several attempts at one job only the newest can hold it."""
    fences: dict[str, int] = {}
    for each in held:
        fences[each.job_id] = max(each.fence, fences.get(each.job_id, 0))
    return [Held(job_id, fence) for job_id, fence in fences.items()]


def held_columns(held: Iterable[Held]) -> dict[str, Sequence[object]]:
    pairs = list(held)
    return {"id": [each.job_id for each in pairs], "fence": [each.fence for each in pairs]}
