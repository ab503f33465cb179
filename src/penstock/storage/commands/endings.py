"""The end of attempts: one path for workers, rescue and release."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from penstock.domain import event as kinds
from penstock.domain.job import Held
from penstock.domain.outcome import RETURNED_NOTHING, Settlement
from penstock.domain.plan import Rows, Statement, Steps
from penstock.domain.states import Status
from penstock.domain.worker import SettleReport
from penstock.storage.commands import hooks, limits, rows


def settle(worker: str, settlements: Sequence[Settlement]) -> Steps[SettleReport]:
    """Apply endings where the worker still holds the fence; distinguish those recorded before from those refused."""
    if not settlements:
        return SettleReport([], [], [])
    newest = left = _newest(settlements)
    ended: Rows = []
    fresh: dict[str, int] = {}
    if lanes := _lone_lanes(newest):
        told = yield _success(worker, newest[0].fence, newest, lanes, nothing=True, alone=True)
        if told[0][1] == len(settlements):
            return SettleReport([each.job_id for each in settlements], [], [])
        # The statement names them only where some were not ended.
        every = told[0][1] == len(newest)
        fresh = {each.job_id: each.fence for each in newest} if every else {row[0]: row[1] for row in told[1:]}
        left = [each for each in newest if each.job_id not in fresh]
    for (fence, nothing), alike in _plain_by_kind(left):
        lanes = {each.lane for each in alike}
        if 0 in lanes:
            ids = [each.job_id for each in alike]
            lanes = {lane for (lane,) in (yield Statement("lanes_of", columns={"id": ids}))}
        (_, count, *_), *told = yield _success(worker, fence, alike, lanes, nothing=nothing)
        if count == len(alike):
            if not told and count == len(settlements):
                # All of them are ended, and nothing follows from it.
                return SettleReport([each.job_id for each in settlements], [], [])
            fresh |= {each.job_id: fence for each in alike}
        ended += told
    rest = [each for each in left if not rows.is_plain_success(each)]
    if rest:
        ended += yield Statement("settle", {"worker": worker}, columns=rows.settlement_columns(rest))
    yield from limits.touch(row[3] for row in ended)
    if any(hooked for *_, hooked in ended):
        yield from hooks.save(_calls({each.job_id: each for each in newest}, [row for row in ended if row[-1]]))
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
    recorded = (yield from _recorded(worker, others)) if others else {}
    for each in others:
        if recorded.get((each.job_id, each.fence)) == each.outcome.cause:
            repeated.append(each.job_id)
        else:
            refused.append(Held(each.job_id, each.fence, worker))
    return SettleReport(applied, repeated, refused)


def _success(
    worker: str, fence: int, alike: Sequence[Settlement], lanes: set[int], *, nothing: bool, alone: bool = False
) -> Statement:
    """Return the statement that ends successful attempts with one fence; `alone`: only those without follow-up."""
    values = {
        "worker": worker, "fence": fence, "nothing": nothing, "alone": alone, "count": len(alike),
        "lanes": sorted(lanes),
    }  # fmt: skip
    return Statement("settle_done", values, columns=rows.success_columns(alike, nothing=nothing), alone=alone)


def _lone_lanes(settlements: Sequence[Settlement]) -> set[int]:
    """Return the lanes of endings that one statement can write; empty when they need more."""
    _, fences, outcomes, _, _, _, _, lanes, lone = zip(*settlements, strict=True)
    alike = len(set(fences)) == 1 and set(map(id, outcomes)) == {id(RETURNED_NOTHING)}
    return set(lanes) if alike and all(lone) else set()


def _newest(settlements: Sequence[Settlement]) -> Sequence[Settlement]:
    """Keep the newest fence of each job, once."""
    if len({each.job_id for each in settlements}) == len(settlements):
        return settlements
    newest: dict[str, Settlement] = {}
    for each in settlements:
        if each.job_id not in newest or each.fence > newest[each.job_id].fence:
            newest[each.job_id] = each
    return list(newest.values())


def _plain_by_kind(settlements: Sequence[Settlement]) -> Iterable[tuple[tuple[int, bool], Sequence[Settlement]]]:
    """Group plain successes by their fence and whether they returned nothing."""
    done: dict[tuple[int, bool], list[Settlement]] = {}
    for each in settlements:
        if rows.is_plain_success(each):
            done.setdefault((each.fence, each.outcome == RETURNED_NOTHING), []).append(each)
    return done.items()


def _calls(settlements: Mapping[str, Settlement], ended: Iterable[rows.Row]) -> Iterator[hooks.Call]:
    """Yield the hook calls of these endings, with the data of the events."""
    for job_id, fence, status, _, _, lane, _ in ended:
        settlement = settlements[job_id]
        kind = kinds.CANCELLED if status == Status.CANCELLED.code else rows.event_kind(settlement)
        yield lane, job_id, fence, kind, rows.event_data(settlement)


def _recorded(worker: str, endings: Sequence[Settlement]) -> Steps[dict[tuple[str, int], str]]:
    """Return the recorded causes of these attempts; one recorded as lost has not returned."""
    held = [Held(each.job_id, each.fence, worker) for each in endings]
    found = yield Statement("find_attempts", columns=held_columns(held))
    return {(job_id, fence): cause for job_id, fence, cause in found}


def held_columns(held: Collection[Held]) -> dict[str, Sequence[object]]:
    ids, fences, workers = zip(*held, strict=True) if held else ((), (), ())
    return {"id": ids, "fence": fences, "worker": workers}
