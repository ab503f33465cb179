"""Limits: how many jobs of a definition or of a concurrency key may run, and how often they may start.

Slots are counted from rows under a lock, never stored as numbers. A rate is a bucket that stores only the instant at
which it is full again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from penstock.domain.job import FIRST_POSITION, Draft, QueuePosition
from penstock.domain.plan import Plan, Rows, Statement, Steps, reads, writes
from penstock.storage.commands import limits

_LOOKED_AT = 100
"""The number of ready jobs of a definition with a rate by key that a claim reads together."""
_LOOKS = 10


@dataclass(slots=True)
class Bucket:
    """A rate limit's bucket: `count` tokens that are refilled over `period`, full at `full_at`."""

    count: int
    period: int
    full_at: int

    def tokens(self, now: int) -> int:
        """Return the whole tokens in the bucket; negative while later ones are reserved."""
        return (self.period - max(0, self.full_at - now)) * self.count // self.period

    def take(self, now: int, tokens: int = 1) -> None:
        self.full_at = max(self.full_at, now) + tokens * self.period // self.count

    def next_at(self, now: int) -> int:
        """Return when the next token is available."""
        return max(now, self.full_at - self.period - -self.period // self.count)


Buckets: TypeAlias = dict[str, Bucket | None]
"""By concurrency key; None where another transaction holds the bucket."""


@dataclass(slots=True)
class Grant:
    """What a claim may start of a limited definition."""

    shares: dict[int, int]
    """The share of each lane; together they respect the limit."""
    bucket: tuple[str, Bucket] | None = None
    keys: Buckets | None = None
    """The buckets of a rate per key. Then only chosen jobs may start, because others may arrive before the claim."""


@dataclass(slots=True)
class ClaimQuotas:
    """How many jobs a claim may take from each lane."""

    free: list[int]
    quota: int
    now: int = 0
    grants: list[Grant] = field(default_factory=list)

    def columns(self, after: Mapping[int, QueuePosition]) -> dict[str, Sequence[object]]:
        """Return the input of the claim statement, each lane from its position on; empty when nothing may be
        claimed."""
        shares = [(lane, self.quota, False, False) for lane in self.free]
        for grant in self.grants:
            given = ((lane, min(share, self.quota)) for lane, share in grant.shares.items() if share > 0)
            shares += [(lane, share, True, grant.keys is not None) for lane, share in given]
        return {
            "lane": [lane for lane, *_ in shares],
            "quota": [quota for _, quota, _, _ in shares],
            "granted": [granted for _, _, granted, _ in shares],
            "paid": [paid for *_, paid in shares],
            "after_rank": [after.get(lane, FIRST_POSITION).rank for lane, *_ in shares],
            "after_id": [after.get(lane, FIRST_POSITION).job_id for lane, *_ in shares],
        }


@dataclass(frozen=True, slots=True, order=True)
class QueuedJob:
    """A queued job that is locked until the claim decides about it."""

    rank: int
    job_id: str
    lane: int
    limit_key: str | None


def scoped(draft: Draft, key: str | None) -> str | None:
    """Return a key of a draft, prefixed by its definition."""
    return None if key is None else f"{draft.definition}|{key}"


def touch(keys: Iterable[str | None]) -> Steps[None]:
    """Note that jobs of concurrency keys have changed, and admit jobs that the keys have room for.

    Needed after every change to a job with a key. Each note is a separate row, so that no transaction waits for the key
    of another; it is removed with the admission, and a duty finds remaining notes.
    """
    wanted = sorted({key for key in keys if key is not None})
    if wanted:
        yield Statement("touch_keys", columns={"limit_key": wanted}, then=admit(wanted))


def admit_now(keys: Sequence[str]) -> Steps[list[str]]:
    """Admit waiting jobs of touched concurrency keys up to their limit; return the keys that other transactions hold.

    A transaction admits jobs of a key only while it holds all notes of that key, and only notes that are committed: so
    no two count the same free slot. It must therefore touch no key before.
    """
    held = yield Statement("hold_keys", columns={"limit_key": list(keys)})
    left = {*keys}.difference(key for key, _ in held)
    if held:
        notes = [note for _, notes in held for note in notes.split(",")]
        unfinished = yield Statement("admit", {"notes": notes}, columns={"limit_key": [key for key, _ in held]})
        left.update(key for (key,) in unfinished)
    return sorted(left)


@writes
def admit(keys: Sequence[str]) -> Steps[Plan[Any] | None]:
    """Do the same as a follow-up plan; return a plan for the remaining keys, if any."""
    left = yield from admit_now(keys)
    return admit(left) if left else None


def claim_quotas(
    lanes: Sequence[int], limited: Sequence[int], limit: int, after: Mapping[int, QueuePosition]
) -> Steps[ClaimQuotas]:
    """Return how much a claim may take from each lane; definitions with limits are locked and counted first.

    Lanes without a grant are included: the claim skips those whose definition has a limit.
    """
    answer = ClaimQuotas(list(lanes), quota=limit)
    asked = [lane for lane in limited if lane in set(lanes)]
    held = (yield Statement("lock_limited", columns={"lane": asked})) if asked else []
    if not held:
        return answer
    running: dict[str, int] = dict((yield Statement("count_running", columns={"key": [key for key, *_ in held]})))
    by_key: dict[str, list[int]] = {}
    for lane, key in (yield Statement("lane_keys", columns={"lane": asked})):
        by_key.setdefault(key, []).append(lane)
    for key, concurrency, rate_count, rate_period, per_key, now in held:
        answer.now = now
        allowance = max(0, concurrency - running.get(key, 0)) if concurrency else limit
        bucket = None
        if rate_count and not per_key:
            name = bucket_name(key, rate_count, rate_period)
            known = yield from _buckets([name])
            if (full_at := known.get(name, 0)) is None:
                # Another transaction holds it: skip the definition instead of waiting.
                allowance = 0
            else:
                bucket = name, Bucket(rate_count, rate_period, full_at)
                allowance = min(allowance, bucket[1].tokens(now))
        shares = {by_key[key][0]: allowance}
        keys: Buckets | None = None
        queued: list[QueuedJob] | None = None
        if rate_count and per_key:
            keys = {}
            rate = Bucket(rate_count, rate_period, 0)
            queued = yield from _choose_by_key(by_key[key], min(limit, allowance), after, rate, keys, now)
        elif len(by_key[key]) > 1:
            queued = yield from _best_queued(by_key[key], min(limit, allowance), after)
        if queued is not None:
            shares = dict.fromkeys(by_key[key], 0) | Counter(each.lane for each in queued)
        answer.grants.append(Grant(shares, bucket, keys))
    granted = {lane for grant in answer.grants for lane in grant.shares}
    answer.free = [lane for lane in lanes if lane not in granted]
    return answer


def spend_tokens(answer: ClaimQuotas, taken: Rows) -> Steps[None]:
    """Take the tokens of claimed jobs from the buckets, and admit the next jobs of keys whose rate was used."""
    spent: dict[str, int] = {}
    keys: list[str] = []
    for grant in answer.grants:
        started = [row for row in taken if row[1] in grant.shares]
        if grant.bucket is not None and started:
            name, shared = grant.bucket
            shared.take(answer.now, len(started))
            spent[name] = shared.full_at
        if grant.keys is not None:
            for key, n in Counter(row[-1] for row in started).items():
                if (bucket := grant.keys.get(key)) is not None:
                    bucket.take(answer.now, n)
                    spent[bucket_name(key, bucket.count, bucket.period)] = bucket.full_at
                    keys.append(key)
    if spent:
        yield _save_buckets(spent)
    yield from touch(keys)


def _best_queued(lanes: Sequence[int], limit: int, after: Mapping[int, QueuePosition]) -> Steps[list[QueuedJob]]:
    """Lock and return the best-ranked jobs over all versions of a definition, from the positions of its lanes on."""
    found: list[QueuedJob] = []
    if limit > 0:
        for lane in lanes:
            place = after.get(lane, FIRST_POSITION)
            values = {"lane": lane, "limit": limit, "after_rank": place.rank, "after_id": place.job_id}
            rows = yield Statement("lock_best_queued", values)
            found += [QueuedJob(rank, job_id, lane, limit_key) for job_id, rank, limit_key in rows]
    return sorted(found)[:limit]


def _choose_by_key(
    lanes: Sequence[int], wanted: int, after: Mapping[int, QueuePosition], rate: Bucket, buckets: Buckets, now: int
) -> Steps[list[QueuedJob]]:
    """Choose the best-ranked jobs whose keys have a token; delay those ranked before them whose keys have none.

    A delayed job takes no token: its key admits no other job before it has started. Jobs of keys whose buckets another
    transaction holds are skipped and stay queued.
    """
    chosen: list[QueuedJob] = []
    skipped: list[QueuedJob] = []
    for _ in range(_LOOKS if wanted > 0 else 0):
        looked_at = max(wanted, _LOOKED_AT)
        queued = yield from _best_queued(lanes, looked_at, after)
        keys = {each.limit_key for each in queued if each.limit_key is not None} - {*buckets}
        names = {bucket_name(key, rate.count, rate.period): key for key in sorted(keys)}
        known = yield from _buckets(list(names))
        for name, key in names.items():
            full_at = known.get(name, 0)
            buckets[key] = None if full_at is None else replace(rate, full_at=full_at)
        chosen, skipped, dues = _with_token(queued, wanted, buckets, now)
        if dues:
            yield Statement("put_off", columns={"id": list(dues), "due": list(dues.values())})
        if not dues or len(chosen) == wanted or len(queued) < looked_at:
            break
    if chosen:
        ids = [each.job_id for each in chosen + skipped]
        yield Statement("pay_rates", columns={"id": ids, "paid": [True] * len(chosen) + [False] * len(skipped)})
    return chosen


def _with_token(
    queued: Sequence[QueuedJob], wanted: int, buckets: Buckets, now: int
) -> tuple[list[QueuedJob], list[QueuedJob], dict[str, int]]:
    """Return the first jobs whose keys have a token, the jobs of locked buckets before them, and when the others are
    due."""
    left = {key: None if bucket is None else replace(bucket) for key, bucket in buckets.items()}
    chosen: list[QueuedJob] = []
    skipped: list[QueuedJob] = []
    dues: dict[str, int] = {}
    for each in queued:
        if len(chosen) == wanted:
            break
        if each.limit_key is None:
            chosen.append(each)
        elif (bucket := left[each.limit_key]) is None:
            skipped.append(each)
        else:
            if bucket.tokens(now) < 1:
                dues[each.job_id] = bucket.next_at(now)
            else:
                chosen.append(each)
            bucket.take(now)
    return chosen, skipped, dues


def follow_clock(limit: int) -> Steps[None]:
    """After the clock was set back, move rate buckets, and the jobs that they delayed, back with it."""
    early = yield Statement("early_buckets", {"limit": limit})
    if early:
        yield _advance_delayed(dict(early))


def bucket_name(key: str, count: int, period: int) -> str:
    """Another rate has another bucket, so that a changed limit applies immediately."""
    return f"{key}@{count}/{period}"


def _buckets(names: Sequence[str]) -> Steps[dict[str, int | None]]:
    """Return when each stored bucket is full again; None where another transaction holds it.

    Buckets that are ahead of a clock that was set back are moved back with it.
    """
    if not names:
        return {}
    found = yield Statement("read_buckets", columns={"name": list(names)})
    levels = {name: None if full_at is None else full_at - lead for name, full_at, lead in found}
    leads = {name: lead for name, _, lead in found if lead}
    if leads:
        yield _save_buckets({name: level for name, level in levels.items() if name in leads and level is not None})
        yield _advance_delayed(leads)
    return levels


def _save_buckets(levels: Mapping[str, int]) -> Statement:
    """Return the statement that saves when these buckets are full again."""
    names = sorted(levels)
    return Statement("save_buckets", columns={"name": names, "full_at": [levels[name] for name in names]})


def _advance_delayed(leads: Mapping[str, int]) -> Statement:
    """Return the statement that makes delayed jobs due earlier, by how far each bucket was ahead of the clock."""
    by_key: dict[str, int] = {}
    for name, lead in leads.items():
        # A key has several buckets while its rate changes.
        key = name.rpartition("@")[0]
        by_key[key] = max(lead, by_key.get(key, 0))
    return Statement("advance_delayed", columns={"limit_key": list(by_key), "lead": list(by_key.values())})


def served_lanes() -> Steps[set[int]]:
    """Return the lanes that live workers serve."""
    found = yield Statement("served_lanes")
    return {lane for (text,) in found for lane in json.loads(text)}


@reads
def has_unserved_admitted() -> Steps[bool]:
    served = yield from served_lanes()
    return bool(served and (yield Statement("has_unserved_admitted", {"served": sorted(served)})))


@writes
def block_unserved(limit: int = 1000, after: str = "") -> Steps[str | None]:
    served = sorted((yield from served_lanes()))
    if not served:
        return None
    if not after:
        yield Statement("note_unserved", {"served": served})
    keys = [key for (key,) in (yield Statement("blocked_keys", {"limit": limit, "after": after}))]
    gave = (yield Statement("block_unserved", {"served": served}, columns={"limit_key": keys})) if keys else []
    yield from limits.touch(key for (key,) in gave)
    return keys[-1] if len(keys) == limit else None
