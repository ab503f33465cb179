"""How a worker's report about its duties is kept: as the text of a JSON list."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from penstock.domain.instant import SECOND
from penstock.domain.worker import Duty


def to_text(duties: Sequence[Duty]) -> str:
    facts = [[each.name, each.last_success_age, each.errors, each.last_error] for each in duties]
    return json.dumps(facts, ensure_ascii=False)


def from_text(text: str, age: int) -> tuple[Duty, ...]:
    """A report that is `age` microseconds old, with its ages as they are now; none where it cannot be read."""
    try:
        return tuple(_duty(each, max(0, age) / SECOND) for each in json.loads(text))
    except (ValueError, TypeError):
        return ()


def figures_from_text(text: str) -> Mapping[str, float]:
    """What a worker counts by itself; nothing where it cannot be read."""
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(facts, dict):
        return {}
    return {name: value for name, value in facts.items() if isinstance(value, int | float)}


def _duty(facts: Sequence[object], seconds: float) -> Duty:
    name, succeeded, errors, last_error = facts
    return Duty(
        name=str(name),
        last_success_age=float(succeeded) + seconds if isinstance(succeeded, int | float) else None,
        errors=errors if isinstance(errors, int) else 0,
        last_error=last_error if isinstance(last_error, str) else None,
    )
