"""One attempt as the process that runs it gets it: everything a handler may know, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Task:
    """One attempt at a job, ready to be run by whoever has its definition loaded."""

    job_id: str
    key: str
    version: int
    fence: int
    attempt: int
    max_attempts: int
    params: str
    reference: tuple[str, str] | None = None
    tags: tuple[str, ...] = ()
    scheduled_for: int | None = None
    schedule: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    """Results of finished phases by name, as JSON text."""
    review: Mapping[str, Any] | None = None
    """The last decision: verdict, by, note, note_asked, result (JSON text), and the phase that had asked."""
    log_level: str | None = None
    """The lowest level of lines that are kept, where it is not info."""
    hook: str | None = None
    """The hook to be called instead of the handler, such as `on_fail`."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What a hook is told: status, result, error."""

    def to_json(self) -> dict[str, Any]:
        """What is not at its default."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in facts.items() if value not in (None, (), {})}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Task:
        facts = dict(data)
        for name in ("tags", "reference"):
            if name in facts:
                facts[name] = tuple(facts[name])
        return Task(**facts)
