"""The jobs port: promote, claim, settle, and the writes of running attempts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import UUID

from penstock.domain import event as kinds
from penstock.domain.attempt import LogLine, Phase
from penstock.domain.errors import Conflict, LeaseLost
from penstock.domain.job import FIRST_POSITION, Claimed, Held, QueuePosition
from penstock.domain.outcome import Settlement
from penstock.domain.plan import Rows, Statement, Steps, reads, writes, writes_once
from penstock.domain.worker import Duty, HeartbeatAnswer, SettleReport, WorkerInfo
from penstock.storage.commands import endings, limits, rows
from penstock.storage.commands.creation import create as create
from penstock.storage.commands.hooks import take_hooks as take_hooks
from penstock.storage.commands.limits import block_unserved as block_unserved
from penstock.storage.commands.limits import has_unserved_admitted as has_unserved_admitted
from penstock.storage.commands.rescue import has_expired_workers as has_expired_workers
from penstock.storage.commands.rescue import reclaim as reclaim
from penstock.storage.commands.rescue import release_unheld as release_unheld

_LEVELS = ("debug", "info", "warning", "error")


@writes
def promote(limit: int = 1000) -> Steps[list[str]]:
    if touched := (yield Statement("touched_keys", {"limit": limit})):
        yield from limits.admit_now([key for (key,) in touched])
    moved = yield Statement("promote", {"limit": limit})
    yield from limits.touch(key for _, key in moved)
    return [job_id for job_id, _ in moved]


@reads
def next_due() -> Steps[int | None]:
    found = yield Statement("next_due")
    return found[0][0] if found else None


@writes
def repair_limits(limit: int = 1000, after: str = "") -> Steps[str | None]:
    if not after:
        yield from limits.follow_clock(limit)
    keys = [key for (key,) in (yield Statement("blocked_keys", {"limit": limit, "after": after}))]
    with_room = (yield Statement("keys_with_room", columns={"limit_key": keys})) if keys else []
    yield from limits.touch(key for (key,) in with_room)
    return keys[-1] if len(keys) == limit else None


@writes_once
def claim(
    worker: str,
    lanes: Sequence[int],
    limit: int,
    *,
    limited: Sequence[int] = (),
    start: bool = True,
    after: Mapping[int, QueuePosition] = {},
) -> Steps[list[Claimed]]:
    if not lanes or limit < 1:
        return []
    values = {"worker": worker, "limit": limit, "start": start}
    if len(lanes) == 1 and not limited:
        place = after.get(lanes[0], FIRST_POSITION)
        values |= {"lane": lanes[0], "after_rank": place.rank, "after_id": place.job_id}
        taken = yield Statement("claim_lane", values, alone=True)
        _check_lease(worker, taken)
    else:
        quotas = yield from limits.claim_quotas(lanes, limited, limit, after)
        taken = yield Statement("claim", values, columns=quotas.columns(after), alone=not limited)
        _check_lease(worker, taken)
        yield from limits.spend_tokens(quotas, taken)
    return rows.claimed(taken)


@writes_once
def claim_job(worker: str, job_id: str, lanes: Sequence[int], *, start: bool = True) -> Steps[list[Claimed]]:
    ready = yield Statement("ready_job", {"id": job_id})
    if not ready or ready[0][0] not in lanes:
        return []
    lane, rank = ready[0]
    # Limits check the first job after a position: the position before this job.
    after = {lane: QueuePosition(rank, str(UUID(int=UUID(job_id).int - 1)))}
    quotas = yield from limits.claim_quotas([lane], [lane], 1, after)
    columns = quotas.columns(after)
    if not columns["lane"]:
        return []
    values = {"worker": worker, "id": job_id, "start": start, "limit": 1}
    values |= {"granted": columns["granted"][0], "paid": columns["paid"][0]}
    taken = yield Statement("claim_job", values)
    _check_lease(worker, taken)
    yield from limits.spend_tokens(quotas, taken)
    return rows.claimed(taken)


def _check_lease(worker: str, taken: Rows) -> None:
    if taken and taken[0][0] is None:
        raise LeaseLost(f"The lease of worker {worker} has ended; it may claim nothing any more.")


@writes
def start(held: Sequence[Held]) -> Steps[list[Held]]:
    columns = endings.held_columns(dict.fromkeys(held))
    begun = {Held(*row) for row in (yield Statement("start", columns=columns))}
    return [each for each in held if each not in begun]


@writes
def settle(worker: str, settlements: Sequence[Settlement]) -> Steps[SettleReport]:
    return (yield from endings.settle(worker, settlements))


@writes
def save_progress(reports: Sequence[tuple[Held, float, str | None, str | None]]) -> Steps[list[Held]]:
    told: dict[Held, tuple[float, str | None, str | None]] = {}
    for held, percent, message, phase in reports:
        _, earlier, current = told.get(held, (0.0, None, None))
        clamped = min(100.0, max(0.0, float(percent)))
        told[held] = (clamped, earlier if message is None else message, current if phase is None else phase)
    percents, messages, phases = zip(*told.values(), strict=True) if told else ((), (), ())
    columns = {**endings.held_columns(told), "percent": percents, "message": messages, "phase": phases}
    saved = {Held(*row) for row in (yield Statement("save_progress", columns=columns))}
    return [held for held in told if held not in saved]


@writes
def save_phase(
    held: Held,
    name: str,
    position: int,
    status: str,
    *,
    progress: float = 0.0,
    message: str | None = None,
    result: str | None = None,
    error: str | None = None,
    at: int | None = None,
) -> Steps[None]:
    yield from _hold(held)
    values = {"id": held.job_id, "fence": held.fence, "name": name, "position": position, "status": status}
    values |= {"progress": float(progress), "message": message, "result": result, "error": error, "at": at}
    if not (yield Statement("save_phase", values)):
        kept = {row[1]: row for row in (yield Statement("read_phases", {"id": held.job_id}))}[name]
        if status == "completed" and (kept[6], kept[8]) == (result, held.fence):
            return  # saved before: the answer was lost
        raise Conflict(f"Phase {name!r} of job {held.job_id} is completed and keeps its result.", job_id=held.job_id)
    if status == "completed":
        yield _event(kinds.PHASE_COMPLETED, held, json.dumps({"phase": name}))


@reads
def phases(job_id: str) -> Steps[list[Phase]]:
    found = yield Statement("read_phases", {"id": job_id})
    return [rows.phase(row) for row in found]


@reads
def phases_of(job_ids: Sequence[str]) -> Steps[dict[str, list[Phase]]]:
    found: dict[str, list[Phase]] = {job_id: [] for job_id in job_ids}
    if found:
        for row in (yield Statement("phases_of", columns={"id": list(found)})):
            found[row[0]].append(rows.phase(row))
    return found


@writes
def save_logs(held: Held, lines: Sequence[LogLine]) -> Steps[None]:
    yield from _hold(held)
    columns: dict[str, Sequence[object]] = {
        "at": [line.at for line in lines],
        "level": [_LEVELS.index(line.level) for line in lines],
        "phase": [line.phase for line in lines],
        "message": [line.message for line in lines],
        "details": [line.details for line in lines],
        "duration": [line.duration for line in lines],
    }
    yield Statement("save_logs", {"id": held.job_id, "fence": held.fence}, columns=columns)


@writes
def emit(held: Held, kind: str, data: str | None) -> Steps[None]:
    yield from _hold(held)
    yield _event(kind, held, data)


@writes
def emit_many(held: Held, told: Sequence[tuple[str, str | None]]) -> Steps[None]:
    yield from _hold(held)
    count = len(told)
    yield Statement(
        "save_events",
        columns={
            "kind": [kind for kind, _ in told], "job_id": [held.job_id] * count, "subject": [None] * count,
            "fence": [held.fence] * count, "data": [data for _, data in told],
        },
    )  # fmt: skip


@writes
def register_worker(worker: WorkerInfo, lease: int) -> Steps[None]:
    values = {
        "id": worker.id, "name": worker.name, "host": worker.host, "pid": worker.pid, "slots": worker.slots,
        "lanes": json.dumps(worker.lanes), "code_version": worker.code_version, "lease": lease,
    }  # fmt: skip
    # In one round trip: with a slow store the lease must not end before it is known.
    yield Statement("register_worker", values, alone=True)


@writes
def heartbeat(
    worker: str,
    lease: int,
    *,
    lanes: Sequence[int] | None = None,
    slots: int | None = None,
    duties: Sequence[Duty] | None = None,
    figures: Mapping[str, float] | None = None,
) -> Steps[HeartbeatAnswer]:
    values: dict[str, object] = {"worker": worker, "lease": lease, "slots": slots}
    values["lanes"] = None if lanes is None else json.dumps(lanes)
    values["duties"] = None if duties is None else rows.duties_text(duties)
    values["figures"] = None if figures is None else json.dumps(dict(figures))
    found = yield Statement("heartbeat", values, alone=True)
    if not found:
        raise LeaseLost(f"The lease of worker {worker} has ended; it must register again.")
    cancels = [Held(job_id, fence, worker) for job_id, fence, *_ in found if job_id is not None]
    _, _, controls, newest, workers, leader = found[0]
    return HeartbeatAnswer(cancels, controls, newest, workers, leads=leader is None or worker <= leader)


@reads
def claimable(lanes: Sequence[int], created_by: int) -> Steps[bool]:
    return bool((yield Statement("claimable", {"lanes": list(lanes), "created_by": created_by})))


@writes
def end_worker(worker: str) -> Steps[None]:
    yield Statement("hold_worker", {"worker": worker})
    left = yield Statement("worker_jobs", {"worker": worker, "limit": 1})
    if left:
        raise Conflict(f"Worker {worker} still holds jobs; release them before it stops.", job_id=left[0][0])
    if (yield Statement("end_worker", {"worker": worker, "ended": "stopped"})):
        yield rows.event(kinds.WORKER_STOPPED, subject=worker)


def _hold(held: Held) -> Steps[None]:
    if not (yield Statement("hold_attempt", {"id": held.job_id, "fence": held.fence, "worker": held.worker})):
        raise LeaseLost(
            f"Attempt {held.fence} of job {held.job_id} no longer owns it.", job_id=held.job_id, fence=held.fence
        )


def _event(kind: str, held: Held, data: str | None) -> Statement:
    return rows.event(kind, job_id=held.job_id, fence=held.fence, data=data)
