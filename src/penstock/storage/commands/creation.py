"""Creation of jobs, with their idempotency keys and unique keys; a part of the jobs port."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter

from penstock.domain.errors import Conflict, Hint, IdempotencyConflict, NotFound, StoreUnavailable
from penstock.domain.job import Created, Draft, UniformDrafts
from penstock.domain.plan import Statement, Steps, writes_jointly
from penstock.domain.states import BY_CODE, Status
from penstock.storage.commands import definition_text as forms
from penstock.storage.commands import limits, rows

_PLAIN_COLUMNS = (
    "id", "lane", "priority", "max_attempts", "due", "delay", "params", "reference_type", "reference_id",
    "idempotency_key", "webhook_url", "schedule", "scheduled_for", "parent", "rerun_of", "traceparent", "actor",
    "priority_given", "attempts_given",
)  # fmt: skip
_plain_fields = attrgetter(*_PLAIN_COLUMNS)
_ONCE = tuple(name for name in _PLAIN_COLUMNS if name not in ("id", "params", "idempotency_key"))
_SAID_ONCE = attrgetter(*_ONCE)
_TRIES = 5
_created: Callable[[tuple[str, Status, bool]], Created] = partial(tuple.__new__, Created)
"""Faster for many: the constructor takes three times as long."""


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


def _insert_one(draft: Draft) -> Steps[Created]:
    """Create one plain job, without keys and tags."""
    values = dict(zip(_PLAIN_COLUMNS, _plain_fields(draft), strict=True))
    born = yield Statement("create_one", values, alone=True)
    if born:
        return Created(draft.id, BY_CODE[born[0][1]], created=True)
    answers = yield from _explain([draft])
    if draft.id not in answers:
        raise StoreUnavailable(f"Definition {draft.definition!r} changed while a job of it was created; try again.")
    return answers[draft.id]


def _insert_alike(drafts: UniformDrafts) -> Steps[list[Created]]:
    """Create plain jobs that differ only in id and parameters."""
    values = {**dict(zip(_ONCE, _SAID_ONCE(drafts.first), strict=True)), "n": len(drafts)}
    columns = {"id": drafts.ids, "params": drafts.params}
    # It creates all or, if they exist or are refused, none; the statements below only read.
    ((count, code, ids),) = yield Statement("create_uniform", values, columns=columns, alone=True)
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


def _alike(drafts: Sequence[Draft]) -> UniformDrafts | None:
    """Return plain drafts that differ only in id and parameters as such; None for others."""
    first = drafts[0]
    if not first.is_plain:
        return None
    if not isinstance(drafts, UniformDrafts):
        said = _SAID_ONCE(first)
        if any(_SAID_ONCE(each) != said or not each.is_plain for each in drafts):
            return None
        drafts = UniformDrafts(first, [each.id for each in drafts], [each.params for each in drafts])
    return drafts if len(set(drafts.ids)) == len(drafts) else None


def _insert(drafts: Sequence[Draft]) -> Steps[dict[str, Created]]:
    """Create drafts that do not exist; a job with the same unique key answers for a draft."""
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
    """Keep the first of drafts with the same unique key; the database would take any of them."""
    first = {limits.scoped(each, each.unique): each.id for each in reversed(drafts) if each.unique is not None}
    if not first:
        return list(drafts)
    return [each for each in drafts if first.get(limits.scoped(each, each.unique), each.id) == each.id]


def _explain(drafts: Sequence[Draft]) -> Steps[dict[str, Created]]:
    """Find why drafts were not created: they exist, another job has the unique key, or creation is refused."""
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
    """Take the idempotency keys of drafts, in order; return the job of each draft's key."""
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
    """Move keys of drafts that were not created, because another job has the unique key, to that job."""
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
