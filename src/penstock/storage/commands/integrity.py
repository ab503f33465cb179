"""Looking whether the rows fit together; each statement of `soundness.sql` finds what breaks one rule."""

from __future__ import annotations

from penstock.domain.maintenance import Unsound
from penstock.domain.plan import Statement, Steps, reads
from penstock.storage.statements import read


def rules() -> list[str]:
    """The names of the statements; those of both dialects are the same."""
    return [name for name in read("postgres") if name.startswith("unsound_")]


@reads
def soundness(limit: int = 10) -> Steps[list[Unsound]]:
    """The rules that do not hold, each with up to `limit` rows that break it."""
    broken: list[Unsound] = []
    for rule in rules():
        rows = yield Statement(rule, {"limit": limit})
        if rows:
            broken.append(Unsound(read("postgres")[rule].sentence, tuple(str(name) for (name,) in rows)))
    return broken
