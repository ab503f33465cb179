"""How many jobs stand where: base counts, and deltas that are folded into them; a part of the admin port."""

from __future__ import annotations

from penstock.domain.plan import Statement, Steps, reads, writes
from penstock.domain.states import BY_CODE, Status

BATCH = 10_000
"""How many deltas are folded at once, so that no transaction lasts long."""


@reads
def counts() -> Steps[dict[tuple[str, int], dict[Status, int]]]:
    answer: dict[tuple[str, int], dict[Status, int]] = {}
    for key, version, status, n in (yield Statement("read_counts")):
        answer.setdefault((key, version), {})[BY_CODE[status]] = n
    return answer


@writes
def fold() -> Steps[int]:
    """At most a batch at once: when it was a full one, fold again."""
    ((folded,),) = yield Statement("fold", {"limit": BATCH}, alone=True)
    return int(folded)
