"""Concurrency keys that are held by jobs which no live worker can run; a part of the jobs port."""

from __future__ import annotations

import json

from penstock.domain.plan import Statement, Steps, reads, writes
from penstock.storage.commands import limits


def served_lanes() -> Steps[set[int]]:
    """The lanes that live workers serve."""
    found = yield Statement("served_lanes")
    return {lane for (text,) in found for lane in json.loads(text)}


@reads
def keys_kept() -> Steps[bool]:
    served = yield from served_lanes()
    return bool(served and (yield Statement("keys_kept", {"served": sorted(served)})))


@writes
def give_way(limit: int = 1000, after: str = "") -> Steps[str | None]:
    served = sorted((yield from served_lanes()))
    if not served:
        return None
    if not after:
        yield Statement("note_unserved", {"served": served})
    keys = [key for (key,) in (yield Statement("blocked_keys", {"limit": limit, "after": after}))]
    gave = (yield Statement("give_way", {"served": served}, columns={"limit_key": keys})) if keys else []
    yield from limits.touch(key for (key,) in gave)
    return keys[-1] if len(keys) == limit else None
