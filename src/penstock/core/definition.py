"""What the work is: a definition, its limits, and what operators have said about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penstock.core.errors import InvalidDefinition
from penstock.core.instant import DAY
from penstock.core.retry import Backoff, RetryPolicy

HIGHEST_PRIORITY = 20
DEFAULT_PRIORITY = 10
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}\Z")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `count` starts at once, and one more each `period / count` seconds, fleet-wide.

    `per_key` counts each concurrency key apart.
    """

    count: int
    period: float = 1.0
    per_key: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise InvalidDefinition(f"A rate limit's count must be an integer of at least 1, not {self.count!r}.")
        if not isinstance(self.period, int | float) or not 0.001 <= self.period <= 86_400:
            raise InvalidDefinition(f"A rate limit's period must be 1 ms to one day, not {self.period!r} seconds.")


@dataclass(frozen=True, slots=True)
class Definition:
    """What the work is: key and version, input schema and options. It comes from code."""

    key: str
    version: int = 1
    description: str = ""
    schema: str = "{}"
    """JSON Schema of the parameters, as text, so that a server without the code can validate."""
    phases: tuple[str, ...] = ("run",)
    default_params: str = "{}"
    secret_fields: tuple[str, ...] = ()
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = 3
    backoff: RetryPolicy = field(default_factory=Backoff)
    timeout: int | None = 3_600_000_000
    cancel_grace: int = 10_000_000
    isolation: str = "process"
    concurrency: int = 0
    concurrency_key: str | None = None
    """The parameter whose value is the concurrency key; empty: only the code can tell the key; None: there is none."""
    key_concurrency: int = 0
    """How many jobs of one concurrency key may run at once; 0: the key limits nothing."""
    rate_limit: RateLimit | None = None
    stale_after: int = 7 * DAY
    delete_after: int = 7 * DAY
    fingerprint: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        if isinstance(self.version, bool) or not 1 <= self.version <= 2**31 - 1:
            raise InvalidDefinition(f"{self.key}: version must be a positive integer, not {self.version!r}.")
        check_priority(self.priority, self.key)
        if not 1 <= self.max_attempts <= 1000:
            raise InvalidDefinition(f"{self.key}: max_attempts must be 1 to 1000, not {self.max_attempts!r}.")
        for name in ("concurrency", "key_concurrency"):
            if getattr(self, name) < 0:
                raise InvalidDefinition(f"{self.key}: {name} must not be negative. 0 means no limit.")
        if self.isolation not in ("process", "inline"):
            raise InvalidDefinition(f"{self.key}: isolation is 'process' or 'inline', not {self.isolation!r}.")
        if len(set(self.phases)) != len(self.phases) or not self.phases:
            raise InvalidDefinition(f"{self.key}: phases need names that differ, not {list(self.phases)!r}.")


@dataclass(frozen=True, slots=True)
class Pause:
    """Why something stands still, who said so, and until when (None: until somebody resumes it)."""

    reason: str
    by: str
    at: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A definition as the store has it: what code registered, and what operators said."""

    lane: int
    """The store's own small number for (key, version)."""
    definition: Definition
    enabled: bool
    pause: Pause | None
    overrides: dict[str, object]
    registered_at: int


@dataclass(frozen=True, slots=True)
class Routed:
    """The little that must be known of a definition to create a job of it."""

    lane: int
    key: str
    version: int
    priority: int
    max_attempts: int


def check_key(key: str) -> None:
    if not isinstance(key, str) or not _KEY.match(key):
        raise InvalidDefinition(
            f"{key!r} cannot be a definition's key.",
            hint="Use letters, digits and _ . : / - (200 at most, beginning with a letter, digit or _).",
        )


def check_priority(priority: int, what: str) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= HIGHEST_PRIORITY:
        raise InvalidDefinition(f"{what}: priority must be an integer from 0 to 20, not {priority!r}.")
