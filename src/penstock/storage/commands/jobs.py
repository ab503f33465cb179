"""The jobs port: create, promote, claim, settle, and what attempts write meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter
from uuid import UUID

from penstock.domain import event as kinds
from penstock.domain.attempt import LogLine, Phase
from penstock.domain.errors import Conflict, Hint, IdempotencyConflict, LeaseLost, NotFound, StoreUnavailable
from penstock.domain.job import FRONT, Alike, Claimed, Created, Draft, Held, Place
from penstock.domain.outcome import Settlement
from penstock.domain.plan import Rows, Statement, Steps, reads, writes, writes_jointly, writes_once
from penstock.domain.states import BY_CODE, Status
from penstock.domain.worker import Duty, HeartbeatAnswer, SettleReport, WorkerInfo
from penstock.storage.commands import definition_text as forms
from penstock.storage.commands import duty_reports as reports
from penstock.storage.commands import endings, limits, rows
from penstock.storage.commands.hooks import take_hooks as take_hooks
from penstock.storage.commands.rescue import forsaken as forsaken
from penstock.storage.commands.rescue import reclaim as reclaim
from penstock.storage.commands.rescue import release_unheld as release_unheld
from penstock.storage.commands.unserved import give_way as give_way
from penstock.storage.commands.unserved import keys_kept as keys_kept

_PLAIN_COLUMNS = (
    "id", "lane", "priority", "max_attempts", "due", "delay", "params", "reference_type", "reference_id",
    "idempotency_key", "webhook_url", "schedule", "scheduled_for", "parent", "rerun_of", "traceparent", "actor",
    "priority_given", "attempts_given",
)  # fmt: skip
_plain_fields = attrgetter(*_PLAIN_COLUMNS)
_ONCE = tuple(name for name in _PLAIN_COLUMNS if name not in ("id", "params", "idempotency_key"))
_SAID_ONCE = attrgetter(*_ONCE)
_LEVELS = ("debug", "info", "warning", "error")
_TRIES = 5
_created: Callable[[tuple[str, Status, bool]], Created] = partial(tuple.__new__, Created)
"""For many at once: their own way takes three times as long."""


@writes_jointly(attrgetter("is_plain"))
def create(drafts: Sequence[Draft]) -> Steps[list[Created]]:
    if not drafts:
        return []
    if len(drafts) == 1 and drafts[0].is_plain:
        return [(yield from _insert_one(drafts[0]))]
    if (alike := _alike(drafts)) is not None:
        return (yield from _insert_alike(alike))
    holders = yield from _take_keys(drafts)
    made = yield from _insert([draft for draft in drafts if holders.get(draft.id, draft.id) == draft.id])
    yield from _move_keys(drafts, holders, made)
    earlier = sorted({job_id for job_id in holders.values() if job_id not in made})
    found = (yield Statement("find_jobs", columns={"id": earlier})) if earlier else []
    statuses = {job_id: BY_CODE[told] for job_id, _, told in found}
    answers = []
    for draft in drafts:
        job_id = holders.get(draft.id, draft.id)
        if job_id == draft.id:
            answers.append(made[job_id])
        elif job_id in made:
            answers.append(made[job_id]._replace(created=False))
        else:
            answers.append(Created(job_id, statuses.get(job_id, rows.GONE), created=False))
    return answers


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
    behind: Mapping[int, Place] = {},
) -> Steps[list[Claimed]]:
    if not lanes or limit < 1:
        return []
    values = {"worker": worker, "limit": limit, "start": start}
    if len(lanes) == 1 and not limited:
        place = behind.get(lanes[0], FRONT)
        values |= {"lane": lanes[0], "behind_rank": place.rank, "behind_id": place.job_id}
        taken = yield Statement("claim_lane", values, alone=True)
        _refuse_the_dead(worker, taken)
    else:
        quotas = yield from limits.quotas(lanes, limited, limit, behind)
        taken = yield Statement("claim", values, columns=quotas.columns(behind), alone=not limited)
        _refuse_the_dead(worker, taken)
        yield from limits.spend(quotas, taken)
    return rows.claimed(taken)


@writes_once
def claim_job(worker: str, job_id: str, lanes: Sequence[int], *, start: bool = True) -> Steps[list[Claimed]]:
    ready = yield Statement("ready_job", {"id": job_id})
    if not ready or ready[0][0] not in lanes:
        return []
    lane, rank = ready[0]
    # Limits look at the first job from a place on: the place before this one.
    behind = {lane: Place(rank, str(UUID(int=UUID(job_id).int - 1)))}
    quotas = yield from limits.quotas([lane], [lane], 1, behind)
    columns = quotas.columns(behind)
    if not columns["lane"]:
        return []
    values = {"worker": worker, "id": job_id, "start": start, "limit": 1}
    values |= {"granted": columns["granted"][0], "paid": columns["paid"][0]}
    taken = yield Statement("claim_job", values)
    _refuse_the_dead(worker, taken)
    yield from limits.spend(quotas, taken)
    return rows.claimed(taken)


def _refuse_the_dead(worker: str, taken: Rows) -> None:
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
            return  # said before: the answer was lost
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
    # In one round trip: a worker that starts while the store is slow has its lease before it is over.
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
    values["duties"] = None if duties is None else reports.to_text(duties)
    values["figures"] = None if figures is None else json.dumps(dict(figures))
    found = yield Statement("heartbeat", values, alone=True)
    if not found:
        raise LeaseLost(f"The lease of worker {worker} has ended; it must register anew.")
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


def _insert_one(draft: Draft) -> Steps[Created]:
    """Create a job that stands for itself: no key to take, no slot to wait for."""
    values = dict(zip(_PLAIN_COLUMNS, _plain_fields(draft), strict=True))
    born = yield Statement("create_one", values, alone=True)
    if born:
        return Created(draft.id, BY_CODE[born[0][1]], created=True)
    answers = yield from _explain([draft])
    if draft.id not in answers:
        raise StoreUnavailable(f"Definition {draft.definition!r} changed while a job of it was created; try again.")
    return answers[draft.id]


def _insert_alike(drafts: Alike) -> Steps[list[Created]]:
    """Create jobs that stand for themselves and differ in their ids and parameters only."""
    values = {**dict(zip(_ONCE, _SAID_ONCE(drafts.first), strict=True)), "n": len(drafts)}
    columns = {"id": drafts.ids, "params": drafts.params}
    # It makes all or, when they are there already or refused, none; what is asked below only reads.
    ((count, code, ids),) = yield Statement("create_alike", values, columns=columns, alone=True)
    status = BY_CODE[code]
    if count == len(drafts):
        return list(map(_created, zip(drafts.ids, repeat(status), repeat(True))))
    made = set((ids or "").split(","))
    answers = {job_id: Created(job_id, status, created=True) for job_id in drafts.ids if job_id in made}
    answers |= yield from _explain([each for each in drafts if each.id not in made])
    missing = next((each for each in drafts if each.id not in answers), None)
    if missing is not None:
        raise StoreUnavailable(f"Definition {missing.definition!r} changed while jobs of it were created; try again.")
    return [answers[each.id] for each in drafts]


def _alike(drafts: Sequence[Draft]) -> Alike | None:
    """Plain drafts that have everything in common but their ids and parameters, when they are."""
    first = drafts[0]
    if not first.is_plain:
        return None
    if not isinstance(drafts, Alike):
        said = _SAID_ONCE(first)
        if any(_SAID_ONCE(each) != said or not each.is_plain for each in drafts):
            return None
        drafts = Alike(first, [each.id for each in drafts], [each.params for each in drafts])
    return drafts if len(set(drafts.ids)) == len(drafts) else None


def _insert(drafts: Sequence[Draft]) -> Steps[dict[str, Created]]:
    """Create what is not there; a job that holds the same unique key answers in a draft's stead."""
    answers: dict[str, Created] = {}
    for _ in range(_TRIES):
        missing = [draft for draft in drafts if draft.id not in answers]
        if not missing:
            break
        born = yield Statement("create_jobs", columns=_draft_columns(_first_of_each(missing)))
        answers |= {job_id: Created(job_id, BY_CODE[status], created=True) for job_id, status in born}
        missing = [draft for draft in missing if draft.id not in answers]
        if missing:
            answers |= yield from _explain(missing)
    else:
        raise StoreUnavailable("Jobs with the same unique key came and went too quickly; try again.")
    queued = (each for each in drafts if answers[each.id].created and answers[each.id].status is Status.QUEUED)
    yield from limits.touch(limits.scoped(each, each.concurrency_key) for each in queued)
    tagged = [(tag, draft.id) for draft in drafts if answers[draft.id].created for tag in draft.tags]
    if tagged:
        tags, ids = zip(*tagged, strict=True)
        yield Statement("tag_jobs", columns={"tag": tags, "id": ids})
    return answers


def _first_of_each(drafts: Sequence[Draft]) -> list[Draft]:
    """Of drafts with the same unique key the first one; the database would take any of them."""
    first = {limits.scoped(each, each.unique): each.id for each in reversed(drafts) if each.unique is not None}
    if not first:
        return list(drafts)
    return [each for each in drafts if first.get(limits.scoped(each, each.unique), each.id) == each.id]


def _explain(drafts: Sequence[Draft]) -> Steps[dict[str, Created]]:
    """Why drafts were not created: they are there already, another job is unique, or nobody may create them."""
    same = yield Statement("find_jobs", columns={"id": [draft.id for draft in drafts]})
    answers = {job_id: Created(job_id, BY_CODE[told], created=True) for job_id, _, told in same}
    lanes = {draft.lane: draft for draft in drafts if draft.id not in answers}
    refusing = (yield Statement("find_refusing", columns={"lane": sorted(lanes)})) if lanes else []
    for lane, key, version, retired_by, removed in refusing:
        if key is None:
            raise NotFound("definition", lanes[lane].definition, hint=forms.UNREGISTERED)
        if removed or retired_by is not None:
            raise forms.closed(key, version, retired_by, removed=bool(removed))
        raise Conflict(
            f"Definition {key!r} is disabled: no job of it can be created.",
            hint=Hint(
                "Enable it first: app.enable(key).",
                cli="Enable it first: `penstock definitions enable KEY`.",
                http="Enable it first: POST /v1/definitions/{key}/enable.",
            ),
        )
    wanted = {limits.scoped(each, each.unique): each for each in drafts if each.unique is not None}
    if wanted:
        holders = yield Statement("find_unique", columns={"unique_key": list(wanted)})
        by_key = {key: Created(job_id, BY_CODE[status], created=False) for key, job_id, status in holders}
        for draft in drafts:
            holder = by_key.get(limits.scoped(draft, draft.unique) or "")
            if holder is not None and draft.id not in answers:
                answers[draft.id] = holder
    return answers


def _take_keys(drafts: Sequence[Draft]) -> Steps[dict[str, str]]:
    """Take the idempotency keys of the drafts, in order; which job each of these drafts' keys stands for."""
    keyed = [draft for draft in drafts if draft.idempotency_key]
    if not keyed:
        return {}
    first = {_key(draft): draft for draft in reversed(keyed)}
    takers = [first[key] for key in sorted(first)]
    taken = yield Statement(
        "claim_keys",
        columns={
            "definition": [each.definition for each in takers],
            "scope": [each.key_scope for each in takers],
            "key": [each.idempotency_key for each in takers],
            "id": [each.id for each in takers],
            "digest": [each.params_digest for each in takers],
            "life": [each.idempotency_life for each in takers],
        },
    )
    holders = {(definition, scope, key): (job_id, digest) for definition, scope, key, job_id, digest in taken}
    for draft in keyed:
        job_id, digest = holders[_key(draft)]
        if digest != draft.params_digest:
            raise IdempotencyConflict(
                f"Idempotency key {draft.idempotency_key!r} belongs to job {job_id}, which has other parameters.",
                job_id=job_id,
                hint="Use another key, or the same parameters.",
            )
    return {draft.id: holders[_key(draft)][0] for draft in keyed}


def _move_keys(drafts: Sequence[Draft], holders: dict[str, str], made: dict[str, Created]) -> Steps[None]:
    """A key was taken for a job that was not made, because another one is unique: it stands for that one."""
    moved = [each for each in drafts if holders.get(each.id) == each.id and made[each.id].job_id != each.id]
    if moved:
        columns: dict[str, Sequence[object]] = {
            "definition": [each.definition for each in moved],
            "scope": [each.key_scope for each in moved],
            "key": [each.idempotency_key for each in moved],
            "id": [made[each.id].job_id for each in moved],
        }
        yield Statement("move_keys", columns=columns)


def _key(draft: Draft) -> tuple[str, str, str]:
    return draft.definition, draft.key_scope, draft.idempotency_key or ""


def _hold(held: Held) -> Steps[None]:
    if not (yield Statement("hold_attempt", {"id": held.job_id, "fence": held.fence, "worker": held.worker})):
        raise LeaseLost(
            f"Attempt {held.fence} of job {held.job_id} no longer owns it.", job_id=held.job_id, fence=held.fence
        )


def _event(kind: str, held: Held, data: str | None) -> Statement:
    return rows.event(kind, job_id=held.job_id, fence=held.fence, data=data)


def _draft_columns(drafts: Sequence[Draft]) -> dict[str, Sequence[object]]:
    plain = dict(zip(_PLAIN_COLUMNS, zip(*map(_plain_fields, drafts), strict=True), strict=True))
    columns: dict[str, Sequence[object]] = {
        name: plain[name] for name in ("id", "lane", "priority", "max_attempts", "due", "delay")
    }
    columns["limit_key"] = tuple(limits.scoped(each, each.concurrency_key) for each in drafts)
    columns["unique_key"] = tuple(limits.scoped(each, each.unique) for each in drafts)
    columns |= {name: plain[name] for name in ("params", "reference_type", "reference_id")}
    columns["tags"] = tuple(json.dumps(each.tags) if each.tags else None for each in drafts)
    columns |= {name: plain[name] for name in _PLAIN_COLUMNS[9:]}
    return columns
